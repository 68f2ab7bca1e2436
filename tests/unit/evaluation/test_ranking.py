"""From chunks to what was judged."""

from __future__ import annotations

from sluice.evaluation.retrieval.ask import rank_documents
from tests.support.evaluation_samples import chunk


def names(*found: tuple[str, ...], judged: set[str]) -> list[str]:
    return [one.name for one in rank_documents([chunk(*ids) for ids in found], judged)]


def test_a_document_stands_once_where_its_best_chunk_stands() -> None:
    assert names(("c1", "a"), ("c2", "b"), ("c3", "a"), judged={"b"}) == ["a", "b"]
    (first, _) = rank_documents([chunk("c1", "a"), chunk("c2", "b"), chunk("c3", "a")], {"b"})
    assert first.chunk.chunk_id == "c1"


def test_a_document_goes_by_its_url_where_that_was_judged() -> None:
    found = [chunk("c1", "doc_1", url="https://example.com/a"), chunk("c2", "doc_2", url="https://example.com/b")]
    assert [one.name for one in rank_documents(found, {"https://example.com/b"})] == ["doc_1", "https://example.com/b"]


def test_where_a_chunk_was_judged_chunks_compete_with_chunks() -> None:
    assert names(("c1", "a"), ("c2", "a"), ("c3", "b"), judged={"c3"}) == ["c1", "c2", "c3"]
