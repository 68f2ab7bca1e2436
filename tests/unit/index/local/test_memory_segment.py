"""What the journal has beyond the generation is found at once, and ranks as it will once it is published."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.retrieval import Filters, Query, Strategy
from sluice.index.generations.publish import list_generations, rollback
from sluice.index.local.memory_segment import MemoryPostings
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from sluice.index.terms.terms import FIELDS

KEEP_ALL = QuerySettings(duplicate_threshold=0)


@pytest.fixture
def writer(memory_path: Path):
    with IndexWriter(memory_path, "c") as writer:
        yield writer


@pytest.fixture
def reader(memory_path: Path, writer, make):
    writer.append(*make.batch([make.document("old", "ferrets sleep in burrows"), *make.many(20)]))
    writer.publish()
    reader = IndexReader(memory_path, "c", KEEP_ALL)
    reader.reload()
    yield reader
    reader.close()


def _ids(reader: IndexReader, question: str, strategy: Strategy = Strategy.BM25, vector=None, **options) -> list[str]:
    found = reader.search(Query(query=question, strategy=strategy, top_k=50, **options), vector)
    return [chunk.document_id for chunk in found.chunks]


def test_a_document_is_found_as_soon_as_it_is_appended(reader, writer, make) -> None:
    offset = writer.append(*make.batch([make.document("new", "otters swim", title="Mustelids")]))
    assert _ids(reader, "otters") == ["new"]
    assert _ids(reader, "mustelids") == ["new"]
    assert _ids(reader, "x", Strategy.VECTOR, make.vector("otters swim"))[0] == "new"
    found = reader.search(Query(query="otters", strategy=Strategy.BM25, minimum_journal_offset=offset))
    assert found.journal_offset == offset
    assert reader.has_document("new")
    assert reader.document_count == 22


def test_a_replaced_document_is_found_in_its_new_version_only(reader, writer, make) -> None:
    writer.append(*make.batch([make.document("old", "badgers dig setts")]))
    assert _ids(reader, "badgers") == ["old"]
    assert _ids(reader, "ferrets") == []
    writer.append(*make.batch([make.document("old", "stoats run")]))
    assert _ids(reader, "badgers") == []
    assert _ids(reader, "stoats") == ["old"]
    assert reader.document_count == 21
    query = Query(query="x", strategy=Strategy.VECTOR, top_k=50)
    texts = [chunk.text for chunk in reader.search(query, make.vector("badgers dig setts")).chunks]
    assert "stoats run" in texts
    assert not {"badgers dig setts", "ferrets sleep in burrows"} & set(texts)


def test_a_removed_document_is_gone_at_once_whether_published_or_recent(reader, writer, make) -> None:
    writer.append(*make.batch([make.document("new", "otters swim")]))
    writer.remove(["old", "new"])
    assert _ids(reader, "ferrets otters") == []
    assert not reader.has_document("old")
    assert not reader.has_document("new")
    assert reader.document_count == 20


def test_publishing_changes_neither_what_is_found_nor_what_comes_first(reader, writer, make) -> None:
    writer.append(
        *make.batch(
            [
                make.document("otters", "otters swim and otters play", "a chunk about common things"),
                make.document("mixed", "ferrets and otters meet"),
                make.document("doc-3", "alpha common otters"),
            ]
        )
    )
    questions = ["otters", "common otters", "ferrets otters meet", "shared item4", "alpha"]
    before = [_ids(reader, question) for question in questions]
    assert [found[0] for found in before[:3]] == ["otters", "doc-3", "mixed"]
    scores = [
        chunk.lexical_score for chunk in reader.search(Query(query="otters", strategy=Strategy.BM25, top_k=5)).chunks
    ]
    generation = writer.publish()
    assert reader.reload() == generation.name
    after_publishing = [_ids(reader, question) for question in questions]
    assert [sorted(found) for found in after_publishing] == [sorted(found) for found in before]
    assert [found[0] for found in after_publishing] == [found[0] for found in before]
    after = [
        chunk.lexical_score for chunk in reader.search(Query(query="otters", strategy=Strategy.BM25, top_k=5)).chunks
    ]
    assert after == pytest.approx(scores, rel=0.1)


def test_a_recent_chunk_has_the_scores_in_a_mix_that_it_has_once_it_is_published(reader, writer, make) -> None:
    writer.append(
        *make.batch([make.document("new", "the otters of the common are here"), make.document("o", "stoats")])
    )
    query = Query(query="where are the otters of the common", top_k=50)

    def scores() -> dict[str, tuple[float | None, float | None]]:
        found = reader.search(query, make.vector("ferrets")).chunks
        return {chunk.chunk_id: (chunk.lexical_score, chunk.fused_score) for chunk in found}

    before = scores()
    reader_generation = writer.publish()
    assert reader.reload() == reader_generation.name
    after = scores()
    assert after.keys() == before.keys()
    for name, (lexical, fused) in before.items():
        assert (after[name][0] or 0.0) == pytest.approx(lexical or 0.0, rel=0.1, abs=0.05)
        assert after[name][1] == pytest.approx(fused, rel=0.1, abs=0.01)


def test_filters_hold_for_recent_documents_too(reader, writer, make) -> None:
    writer.append(
        *make.batch(
            [
                make.document("a", "otters swim", path="docs/a.md", language="en"),
                make.document("b", "otters swim", path="src/b.md", language="de"),
            ]
        )
    )
    assert _ids(reader, "otters", filters=Filters(path_prefix="docs/")) == ["a"]
    assert _ids(reader, "otters", filters=Filters(languages=("de",))) == ["b"]
    assert _ids(reader, "otters", filters=Filters(document_ids=("b",))) == ["b"]


def test_a_generation_is_followed_as_soon_as_the_pointer_names_it_again(reader, writer, make, memory_path) -> None:
    writer.append(*make.batch([make.document("a", "ferrets")]))
    writer.publish()
    pointer = memory_path / "c/CURRENT"
    target = pointer.readlink()
    pointer.unlink()
    published = reader.document_count
    writer.append(*make.batch([make.document("b", "otters")]))
    assert reader.document_count == published, "what stands in for another is served as it was published"
    pointer.symlink_to(target)
    assert reader.document_count == published + 1


def test_a_rollback_hides_what_came_later_until_something_new_is_published(reader, writer, make, memory_path) -> None:
    writer.append(*make.batch([make.document("new", "otters swim")]))
    writer.publish()
    oldest = list_generations(memory_path, "c")[-1].name
    rollback(memory_path, "c", oldest)
    assert reader.reload() == oldest
    assert _ids(reader, "otters") == []
    writer.append(*make.batch([make.document("newer", "otters dive")]))
    writer.publish()
    assert sorted(_ids(reader, "otters")) == ["new", "newer"]


def test_more_than_may_be_held_waits_for_the_next_generation(reader, writer, make, memory_path) -> None:
    small = IndexReader(memory_path, "c", QuerySettings(max_recent_chunks=4, duplicate_threshold=0))
    small.reload()
    writer.append(*make.batch([make.document(f"n{i}", f"otters {i}") for i in range(10)]))
    assert len(_ids(small, "otters")) == 4
    writer.publish()
    assert len(_ids(small, "otters")) == 10
    small.close()


def test_a_damaged_journal_is_not_followed_and_the_generation_serves_on(reader, writer, make, memory_path) -> None:
    alarms: list[str] = []
    told = IndexReader(memory_path, "c", KEEP_ALL, on_fallback=alarms.append)
    told.reload()
    writer.append(*make.batch([make.document("new", "otters swim")]))
    (segment,) = (memory_path / "c" / "journal").glob("*.log")
    body = bytearray(segment.read_bytes())
    body[-20] ^= 1
    segment.write_bytes(body)
    assert _ids(told, "otters") == []
    assert _ids(told, "ferrets") == ["old"]
    assert len(alarms) == 1
    assert "journal" in (told.fallback_reason or "")
    told.close()


def test_a_reader_of_the_first_documents_of_a_corpus_learns_their_model(memory_path: Path, make) -> None:
    with IndexWriter(memory_path, "c") as writer:
        writer.append(*make.batch([make.document("empty")]))
        writer.publish()
        reader = IndexReader(memory_path, "c", KEEP_ALL)
        assert reader.model_fingerprint is None
        writer.append(*make.batch([make.document("new", "otters swim")]))
        assert reader.model_fingerprint == make.model
        assert _ids(reader, "otters", Strategy.HYBRID, make.vector("otters swim")) == ["new"]
        reader.close()


_CHUNKS = st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=8), st.booleans()), max_size=12)


@given(_CHUNKS, st.integers(0, 12))
def test_the_postings_of_a_term_are_its_counts_in_the_rows_that_a_view_knows_and_that_are_alive(chunks, seen) -> None:
    postings = MemoryPostings()
    postings.add({**dict.fromkeys(FIELDS, ""), "text": " ".join(terms)} for terms, _ in chunks)
    living = np.array([alive for _, alive in chunks], dtype=np.bool_)[:seen]
    for term in "abcd":
        known = enumerate(chunks[:seen])
        counted = [(row, Counter(terms)[term], len(terms)) for row, (terms, alive) in known if alive and term in terms]
        assert postings.of("text", term, living) == counted
        assert postings.frequency("text", term, living) == len(counted)
        assert postings.of("title", term, living) == []
