"""The baseline: stock Tantivy and vectors of whole documents, fused by RRF; what two libraries give without Sluice.

Nothing of `index/` is used here: it is what is measured.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import tantivy

from sluice.contracts.api import SubmittedDocument
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import DEPTH
from sluice.ingest.embed.port import Embedder

RRF_K = 60
HEAP_BYTES = 100_000_000
"""Of Tantivy's writer: one segment for any of these collections."""
Hits = list[tuple[int, float]]
"""Numbers of documents and their scores, best first."""


def baseline_rankings(
    documents: Sequence[SubmittedDocument], cases: Sequence[Case], embedder: Embedder
) -> dict[str, list[str]]:
    """The first hundred ids of each question: RRF of stock Tantivy's first hundred and MiniLM's."""
    texts = [f"{document.title or ''}\n{document.text or ''}".strip() for document in documents]
    lexical = tantivy_search(texts)
    dense = vector_search(texts, [case.query for case in cases], embedder)
    return {
        case.id: [str(documents[number].id) for number in fused(dense(row), lexical(case.query))]
        for row, case in enumerate(cases)
    }


def fused(dense: Hits, lexical: Hits) -> list[int]:
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    scores: dict[int, float] = defaultdict(float)
    for arm in (dense, lexical):
        for rank, (number, _) in enumerate(arm, start=1):
            scores[number] += 1 / (RRF_K + rank)
    return sorted(scores, key=lambda number: (-scores[number], number))[:DEPTH]


def tantivy_search(texts: Sequence[str]) -> Callable[[str], Hits]:
    """Stock Tantivy: one field, its English stemmer, its BM25, its query parser."""
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="en_stem")
    schema.add_unsigned_field("number", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(HEAP_BYTES, 1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, number=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(question: str) -> Hits:
        # What the query language would read as an operator is taken out: everything but letters and digits.
        words = re.sub(r"[\W_]+", " ", question).lower()
        query, _ = index.parse_query_lenient(words, ["text"])
        hits = searcher.search(query, DEPTH).hits
        return [(searcher.doc(address)["number"][0], score) for score, address in hits]

    return search


def vector_search(texts: Sequence[str], questions: Sequence[str], embedder: Embedder) -> Callable[[int], Hits]:
    """Exact cosine over whole documents, as far as the model's window reads them; asked by the question's row."""
    found = embedder.embed(texts).vectors
    asked = embedder.embed(questions).vectors

    def search(row: int) -> Hits:
        cosines = found @ asked[row]
        return [(int(number), float(cosines[number])) for number in np.argsort(-cosines, kind="stable")[:DEPTH]]

    return search
