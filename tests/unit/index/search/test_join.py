"""Results of several corpora in one order."""

from __future__ import annotations

from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk
from sluice.index.search.join import join
from tests.support.evaluation_samples import retrieval

QUERY = Query(query="q")


def found(*names: str, **changes: object) -> Retrieval:
    one = retrieval(QUERY, names)
    chunks = tuple(chunk.model_copy(update={"checksum": chunk.document_id, **changes}) for chunk in one.chunks)
    return one.model_copy(update={"chunks": chunks})


def names(chunks: tuple[RetrievedChunk, ...]) -> list[tuple[str | None, str, int]]:
    return [(chunk.corpus, chunk.document_id, chunk.rank) for chunk in chunks]


def test_the_ranks_of_each_corpus_decide_and_copies_come_once() -> None:
    joined = join({"a": found("x", "y"), "b": found("x", "z")}, top_k=3, max_tokens=None)
    assert sorted(names(joined.chunks)[:1]) == [("a", "x", 1)]
    assert {one[1] for one in names(joined.chunks)} == {"x", "y", "z"}
    assert [chunk.rank for chunk in joined.chunks] == [1, 2, 3]
    assert [one.corpus for one in joined.corpora] == ["a", "b"]


def test_confidence_decides_where_every_passage_has_one() -> None:
    sure, unsure = found("x", confidence=0.9), found("y", confidence=0.2)
    assert names(join({"a": unsure, "b": sure}, 5, None).chunks) == [("b", "x", 1), ("a", "y", 2)]


def test_no_more_than_the_tokens_that_were_given() -> None:
    parts = {"a": found("x", "y", token_estimate=10), "b": found("z", token_estimate=10)}
    assert len(join(parts, 5, 25).chunks) == 2
