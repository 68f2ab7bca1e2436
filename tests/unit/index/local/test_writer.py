"""The writer: journal first, one at a time, each version once."""

from __future__ import annotations

import errno
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.contracts.errors import Conflict, Corrupted, Fenced, InvalidInput, Unavailable
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import list_corpora
from sluice.index.generations.manifest import IdSet
from sluice.index.generations.publish import list_generations, verify
from sluice.index.journal.journal import Journal
from sluice.index.journal.records import document_key
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings

SETTINGS = WritePolicy()
QUERIES = QuerySettings()


def _texts(root: Path, corpus: str, question: str) -> set[str]:
    reader = IndexReader(root, corpus, QUERIES)
    found = reader.search(Query(query=question, corpus=corpus, strategy=Strategy.BM25, top_k=50))
    reader.close()
    return {chunk.text for chunk in found.chunks}


def test_what_is_published_is_found_and_what_is_only_appended_is_not(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        assert writer.append(*make.batch([make.document("a", "ferrets sleep")])) == 1
        assert writer.published_offset == 0
        assert _texts(tmp_path, "c", "ferrets") == set()
        generation = writer.publish()
        assert (generation.journal_offset, generation.document_count, generation.chunk_count) == (1, 1, 1)
        assert writer.published_offset == 1
    assert _texts(tmp_path, "c", "ferrets") == {"ferrets sleep"}


def test_a_new_version_replaces_every_chunk_of_the_old_one(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("a", "old ferrets", "old otters")]))
        writer.publish()
        writer.append(*make.batch([make.document("a", "new ferrets")]))
        assert writer.publish().chunk_count == 1
    assert _texts(tmp_path, "c", "ferrets otters") == {"new ferrets"}


def test_the_same_version_again_is_no_record_and_returns_the_earlier_offset(tmp_path: Path, make) -> None:
    document = make.document("a", "ferrets sleep")
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        offset = writer.append(*make.batch([document]))
        writer.append(*make.batch([make.document("b", "otters swim")]))
        assert writer.append(*make.batch([document])) == offset
        first = writer.publish()
        assert writer.append(*make.batch([document])) == offset
        assert writer.publish() == first
        assert writer.journal_offset == 2
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        assert writer.append(*make.batch([document])) == offset


def test_an_unchanged_document_fetched_much_later_gets_its_new_date(tmp_path: Path, make) -> None:
    old = make.document("a", "ferrets sleep", age=timedelta(days=9))
    soon = make.document("a", "ferrets sleep", age=timedelta(days=9) - timedelta(minutes=5))
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([old]))
        assert writer.append(*make.batch([soon])) == 1
        assert writer.append(*make.batch([make.document("a", "ferrets sleep")])) == 2
        writer.publish()
    reader = IndexReader(tmp_path, "c", QUERIES)
    facts = reader.document("a")
    assert facts is not None
    assert facts.provenance.fetched_at == make.now
    assert facts.provenance.known_since == make.now - timedelta(days=9)


def test_a_document_with_another_text_is_known_since_it_came_with_it(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        for text, days in (("harmless", 9), ("ferrets sleep", 6), ("ferrets sleep", 3)):
            writer.append(*make.batch([make.document("a", text, age=timedelta(days=days))]))
        assert writer.documents(["a"])["a"].provenance.known_since == make.now - timedelta(days=6)


def test_going_back_to_an_older_text_within_one_batch_keeps_the_last(tmp_path: Path, make) -> None:
    first, second = make.document("a", "first text"), make.document("a", "second text")
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([first]))
        writer.append(*make.batch([second, first]))
        writer.publish()
    assert _texts(tmp_path, "c", "text") == {"first text"}


def test_removed_documents_are_gone_and_removing_them_again_changes_nothing(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("a", "ferrets"), make.document("b", "ferrets too")]))
        writer.publish()
        assert writer.remove(["a", "unknown"]) == 3
        assert writer.remove(["a"]) == 3
        assert not writer.has_document("a")
        assert writer.publish().document_count == 1
    assert _texts(tmp_path, "c", "ferrets") == {"ferrets too"}


def test_what_was_appended_and_not_published_is_there_after_reopening(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("a", "ferrets")]))
        writer.publish()
        writer.append(*make.batch([make.document("b", "otters")]))
        writer.remove(["a"])
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        assert writer.published_offset == 1
        assert writer.publish().journal_offset == 3
    assert _texts(tmp_path, "c", "ferrets otters") == {"otters"}


def test_a_corpus_is_bound_to_the_model_of_its_first_vector(tmp_path: Path, make) -> None:
    batch, vectors, model = make.batch([make.document("a", "ferrets")])
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(batch, vectors, model)
        with pytest.raises(Conflict, match="another corpus"):
            writer.append(batch, vectors, "other-model")
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        assert writer.model == (model, make.dimension)
        with pytest.raises(Conflict):
            writer.append(batch, np.ones((1, 3), dtype=np.float32), model)


def test_vectors_that_do_not_fit_the_batch_are_refused_before_anything_is_written(tmp_path: Path, make) -> None:
    batch, vectors, model = make.batch([make.document("a", "ferrets", "otters")])
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        for wrong in (vectors[:1], vectors.astype(np.float64), np.full_like(vectors, np.nan)):
            with pytest.raises(InvalidInput):
                writer.append(batch, wrong, model)
        assert writer.journal_offset == 0


def test_documents_without_chunks_are_known_and_cost_nothing(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("empty")]))
        assert writer.publish().document_count == 1
        writer.append(*make.batch([make.document("a", "ferrets")]))
        writer.publish()
    reader = IndexReader(tmp_path, "c", QUERIES)
    assert reader.has_document("empty")
    assert len(reader.search(Query(query="ferrets"), make.vector("ferrets")).chunks) == 1


def test_a_corpus_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS), pytest.raises(Unavailable):
        IndexWriter(tmp_path, "c", SETTINGS)
    IndexWriter(tmp_path, "c", SETTINGS).close()


def test_a_writer_that_was_taken_over_is_fenced_off(tmp_path: Path, make) -> None:
    old = IndexWriter(tmp_path, "c", SETTINGS)
    (tmp_path / "c" / "writer.lock").unlink()
    with IndexWriter(tmp_path, "c", SETTINGS):
        with pytest.raises(Fenced):
            old.append(*make.batch([make.document("a", "ferrets")]))
        with pytest.raises(Fenced):
            old.publish()
    old.close()


def test_corpora_are_isolated_by_name(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "one", SETTINGS) as one, IndexWriter(tmp_path, "two", SETTINGS) as two:
        one.append(*make.batch([make.document("a", "ferrets in one")]))
        two.append(*make.batch([make.document("a", "ferrets in two")]))
        one.publish()
        two.publish()
        one.remove(["a"])
        one.publish()
    assert list_corpora(tmp_path) == ("one", "two")
    assert _texts(tmp_path, "one", "ferrets") == set()
    assert _texts(tmp_path, "two", "ferrets") == {"ferrets in two"}


@pytest.mark.parametrize("name", ["../up", "A", "", ".hidden", "a/b"])
def test_a_corpus_name_cannot_leave_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        IndexWriter(tmp_path, name, SETTINGS)


def test_segments_stay_few_and_the_dead_leave_with_a_merge(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", WritePolicy(max_segments=3, keep_generations=1)) as writer:
        for round_number in range(12):
            writer.append(*make.batch(make.many(4, start=2 * round_number)))
            generation = writer.publish()
        manifest = verify(tmp_path, "c", generation.name)
        assert len(manifest.segments) <= 3
        assert manifest.document_count == 26
        assert manifest.chunk_count == 52
        writer.remove([f"doc-{number}" for number in range(26)])
        assert writer.publish().chunk_count == 0
    assert _texts(tmp_path, "c", "alpha beta") == set()


def test_a_publish_links_the_files_that_did_not_change(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch(make.many(50)))
        first = writer.publish()
        writer.append(*make.batch([make.document("new", "one more")]))
        second = writer.publish()
    generations = tmp_path / "c" / "generations"
    old = {path.name: path.stat().st_ino for path in (generations / first.name / "segments").iterdir()}
    new = {path.name: path.stat().st_ino for path in (generations / second.name / "segments").iterdir()}
    assert old.items() <= new.items()


def test_what_fills_memory_becomes_a_segment_before_publishing(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", WritePolicy(flush_chunks=10)) as writer:
        for document in make.many(30):
            writer.append(*make.batch([document]))
        assert writer.publish().chunk_count == 60


def test_rebuilding_from_the_journal_gives_the_same_set_of_chunks(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch(make.many(20)))
        writer.publish()
        writer.append(*make.batch([make.document("doc-3", "another text")]))
        writer.remove(["doc-7"])
        before = writer.publish()
        rebuilt = writer.rebuild()
    assert rebuilt.is_proven
    assert rebuilt.generation.name != before.name
    assert rebuilt.generation.chunk_count == before.chunk_count


def test_a_full_disk_leaves_the_old_generation_and_the_next_publish_resumes(
    tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("a", "ferrets")]))
        first = writer.publish()
        writer.append(*make.batch([make.document("b", "otters")]))
        with monkeypatch.context() as patch:
            patch.setattr("sluice.index.generations.publish.link_or_copy", refuse)
            with pytest.raises(Unavailable):
                writer.publish()
        assert [info.name for info in list_generations(tmp_path, "c")] == [first.name]
        assert writer.publish().chunk_count == 2
    assert _texts(tmp_path, "c", "ferrets otters") == {"ferrets", "otters"}


def test_a_large_segment_that_the_disk_refuses_in_the_background_is_told_by_publishing_which_resumes(
    tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with IndexWriter(tmp_path, "c", WritePolicy(flush_chunks=4, background_merge_chunks=0)) as writer:
        with monkeypatch.context() as patch:
            patch.setattr("sluice.index.local.working_set.flush_file", refuse)
            writer.append(*make.batch(make.many(5)))
            with pytest.raises(Unavailable, match="Input/output"):
                writer.publish()
        assert writer.publish().document_count == 5
        assert list_generations(tmp_path, "c")[0].document_count == 5


def test_an_interruption_between_journal_and_view_repeats_no_document(
    tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Journal.append

    def append_and_be_interrupted(journal: Journal, *arguments: Any) -> int:
        append(journal, *arguments)
        raise KeyboardInterrupt

    batch = make.batch([make.document("a", "ferrets")])
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", append_and_be_interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.append(*batch)
        assert writer.append(*batch) == 1
        assert writer.publish().document_count == 1


def test_a_journal_that_lost_what_a_generation_covers_is_not_continued(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("a", "ferrets")]))
        writer.publish()
    (segment,) = (tmp_path / "c" / "journal").glob("*.log")
    segment.write_bytes(b"")
    with pytest.raises(Corrupted, match="backup"):
        IndexWriter(tmp_path, "c", SETTINGS)


def test_an_older_fetch_that_comes_late_does_not_bring_its_version_back(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "default") as writer:
        older = make.document("a", "old text", age=timedelta(minutes=5))
        writer.append(*make.batch([older]))
        covered = writer.append(*make.batch([make.document("a", "new text")]))
        assert writer.append(*make.batch([older])) == covered
        assert writer.journal_offset == covered


def test_a_generation_that_is_damaged_while_its_writer_is_open_is_published_anew(memory_path: Path, make) -> None:
    with IndexWriter(memory_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document("a", "ferrets")]))
        damaged = writer.publish().name
        (segment,) = (memory_path / "c" / "generations" / damaged / "segments").glob("*.segment")
        body = bytearray(segment.read_bytes())
        body[len(body) // 2] ^= 1
        segment.write_bytes(body)
        assert writer.publish().name == damaged
        healed = writer.heal().name
        assert healed != damaged
        reader = IndexReader(memory_path, "c", QuerySettings())
        found = reader.search(Query(query="ferrets", strategy=Strategy.BM25))
        assert (found.generation, len(found.chunks), reader.fallback_reason) == (healed, 1, None)
        assert writer.heal().name == healed
        reader.close()


def test_the_hash_of_a_set_of_ids_is_what_it_always_was() -> None:
    ids = IdSet()
    ids.add(document_key("d2"), [])
    ids.add(document_key("d1"), ["chunk_a", "chunk_ü"])
    assert ids.hexadecimal == "9ef6e4438db29e8cea13b713ea86aa0886c1cf9375b50eb381ff3c2faa84d7c3"
    ids.remove(document_key("d2"), [])
    assert ids.hexadecimal == "176ad020b3f1dd8466236853e1f900e391f07552989b8b21ff951842522d946d"


def test_what_was_appended_stays_although_the_array_of_its_vectors_is_used_again(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", SETTINGS) as writer:
        batch, vectors, model = make.batch([make.document("a", "ferrets sleep"), make.document("b", "otters swim")])
        wanted = vectors[1].copy()
        writer.append(batch, vectors, model)
        vectors[:] = 0
        writer.publish()
    reader = IndexReader(tmp_path, "c", QUERIES)
    found = reader.search(Query(query="x", corpus="c", strategy=Strategy.VECTOR, top_k=1), wanted)
    reader.close()
    assert [chunk.document_id for chunk in found.chunks] == ["b"]
