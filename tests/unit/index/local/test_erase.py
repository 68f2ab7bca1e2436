"""What is erased is on the disk no more: in no segment, no older generation, not in the journal, and a rebuild agrees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import NotFound
from sluice.contracts.operations.forget import Selection
from sluice.contracts.retrieval import Filters, Query, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generation_names, rollback
from sluice.index.journal.records import make_facts
from sluice.index.local.reader import IndexReader, find_in_generations, find_in_journal
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.qdrant.payload import STATE_ID
from sluice.index.qdrant.server import Condition
from sluice.index.qdrant.writer import QdrantWriter
from sluice.index.search.filters import selector
from sluice.index.settings import QuerySettings
from tests.support.loopback_qdrant import collection_of

_ANYTHING: Condition = ()
SECRET = "walrus"
GONE = "https://example.org/gone/"


def selected(facts: Any) -> bool:
    return selector(Selection(url_prefix=GONE))(facts)


def traces(root: Path) -> list[str]:
    """Where documents below the prefix are left."""
    layout = CorpusLayout(root, "c")
    ids = frozenset({"g-1", "g-2"})
    found = [*find_in_generations(layout, selected), find_in_journal(layout, selected, ids)]
    return [one.place for one in found if one.ids]


def files_with(root: Path, word: str) -> list[str]:
    """Segment files in which the word stands as it is."""
    return [str(path) for path in root.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


@pytest.fixture
def writer(tmp_path: Path, make: Any) -> Iterator[IndexWriter]:
    """A corpus of several generations, with two documents that are to go, one of them changed once."""
    with IndexWriter(tmp_path, "c", WritePolicy(keep_generations=4)) as writer:
        going = [make.document(f"g-{n}", f"{SECRET} text {n}", url=f"{GONE}{n}", source="crawl") for n in (1, 2)]
        writer.append(*make.batch([*make.many(3), *going]))
        writer.publish()
        writer.append(*make.batch([make.document("g-1", f"{SECRET} changed", url=f"{GONE}1", source="crawl")]))
        writer.publish()
        writer.append(*make.batch(make.many(3, start=3)))
        yield writer


def erases(writer: IndexWriter | QdrantWriter) -> None:
    ids = [facts.document_id for facts in writer.select(selected)]
    assert sorted(ids) == ["g-1", "g-2"]
    writer.remove(ids)
    writer.erase()


def test_nothing_of_it_is_left_on_disk_and_the_rest_is_found(writer: IndexWriter, tmp_path: Path) -> None:
    assert len(traces(tmp_path)) == 3, "two generations and the journal"
    assert files_with(tmp_path, SECRET)
    erases(writer)
    assert traces(tmp_path) == []
    assert files_with(tmp_path, SECRET) == []
    assert len(list_generation_names(CorpusLayout(tmp_path, "c"))) == 1
    reader = IndexReader(tmp_path, "c", QuerySettings(duplicate_threshold=0.0))
    found = reader.search(Query(query=f"{SECRET} alpha", corpus="c", strategy=Strategy.BM25, top_k=50))
    assert {chunk.document_id for chunk in found.chunks} == {f"doc-{n}" for n in range(6)}
    reader.close()


def test_a_document_that_was_removed_long_ago_is_erased_too(writer: IndexWriter, tmp_path: Path) -> None:
    writer.remove(["g-1", "g-2"])
    writer.publish()
    assert traces(tmp_path)
    writer.erase()
    assert traces(tmp_path) == []


def test_no_older_generation_is_left_to_roll_back_to(writer: IndexWriter, tmp_path: Path) -> None:
    older = list_generation_names(CorpusLayout(tmp_path, "c"))[-1]
    erases(writer)
    with pytest.raises(NotFound):
        rollback(tmp_path, "c", older)


def test_a_rebuild_and_a_new_writer_give_the_same_chunks_without_it(
    writer: IndexWriter, tmp_path: Path, make: Any
) -> None:
    erases(writer)
    assert writer.rebuild().is_proven
    writer.append(*make.batch(make.many(1, start=9)))
    writer.close()
    with IndexWriter(tmp_path, "c") as again:
        assert again.select(selected) == []
        assert again.publish().document_count == 7
    assert traces(tmp_path) == []


def test_a_reader_that_has_an_older_generation_open_serves_the_new_one_at_its_next_query(
    writer: IndexWriter, tmp_path: Path
) -> None:
    reader = IndexReader(tmp_path, "c", QuerySettings())
    query = Query(query=SECRET, corpus="c", strategy=Strategy.BM25)
    assert reader.search(query).chunks
    erases(writer)
    assert not reader.search(query).chunks
    reader.close()


def test_erased_twice_it_changes_nothing(writer: IndexWriter, tmp_path: Path) -> None:
    erases(writer)
    before = writer.rebuild().hash_after
    writer.erase()
    assert writer.rebuild().hash_after == before


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
def test_in_qdrant_no_point_and_no_record_of_it_is_left(memory_path: Path, make: Any) -> None:
    with collection_of("memory") as collection, QdrantWriter(memory_path, "c", collection) as writer:
        going = [make.document(f"g-{n}", f"{SECRET} text {n}", url=f"{GONE}{n}", source="crawl") for n in (1, 2)]
        writer.append(*make.batch([*make.many(3), *going]))
        writer.publish()
        writer.rebuild()
        writer.append(*make.batch([make.document("g-1", f"{SECRET} changed", url=f"{GONE}1", source="crawl")]))
        erases(writer)
        assert traces(memory_path) == []
        assert len(collection.builds()) == 1, "nor in the collection before a rebuild"
        everything = [hit for hit in collection.points(_ANYTHING, ("facts", "chunk")) if hit.id != STATE_ID]
        assert everything
        assert not any(SECRET in str(hit.payload) or "g-1" in str(hit.payload) for hit in everything)
        assert writer.rebuild().is_proven


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(url=f"{GONE}1"), {"a"}),
        (Selection(url_prefix=GONE), {"a", "b"}),
        (Selection(document_id="c"), {"c"}),
        (Selection(run_id="run_1"), {"b"}),
        (Selection(submitted_by="key_1"), {"c"}),
        (Selection(filters=Filters(sources=("file",))), {"c"}),
        (Selection(filters=Filters(languages=("DE",))), {"b"}),
    ],
)
def test_a_selection_means_the_documents_that_it_names(selection: Selection, ids: set[str], make: Any) -> None:
    facts = [
        make_facts(make.document("a", url=f"{GONE}1", source="crawl")),
        make_facts(make.document("b", url=f"{GONE}2", source="crawl")).model_copy(update={"language": "de"}),
        make_facts(make.document("c", path="c.md")),
    ]
    told = {"b": {"run_id": "run_1"}, "c": {"submitted_by": "key_1"}}
    for position, one in enumerate(facts):
        provenance = one.provenance.model_copy(update=told.get(one.document_id, {}))
        facts[position] = one.model_copy(update={"provenance": provenance})
    assert {one.document_id for one in facts if selector(selection)(one)} == ids


@pytest.mark.parametrize("wrong", [{}, {"url": "a", "run_id": "b"}, {"filters": {}}])
def test_a_selection_that_names_nothing_or_several_things_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"exactly one|no condition"):
        Selection.model_validate(wrong)


def test_a_rebuild_of_a_journal_that_ended_with_what_was_erased_covers_the_journals_end(
    writer: IndexWriter, tmp_path: Path
) -> None:
    end = writer.remove(["g-1", "g-2"])
    writer.erase()
    assert writer.rebuild().generation.journal_offset == end
    reader = IndexReader(tmp_path, "c", QuerySettings())
    assert reader.pin(end).journal_offset == end
    reader.close()
