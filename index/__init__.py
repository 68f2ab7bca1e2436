"""The index: journal, segments, generations, and the queries over them.

Write through `index.local.writer.IndexWriter`, search through `index.local.reader.IndexReader`, cite through
`index.search.compose_answer.compose_answer`; operate with `index.generations.publish` (`verify`, `list_generations`,
`rollback`) and `index.folder.list_corpora`; `index.folder` has the files.

    append   records -> journal (fsync) -> working set
    publish  working set -> segments + terms -> generation -> CURRENT
    search   CURRENT -> generation -> retrievers -> fusion -> selection -> Retrieval -> answer

The journal is the truth; a generation is an immutable, hashed view of it that can be rebuilt.
"""
