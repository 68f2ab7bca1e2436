"""Journal compaction: replaced versions go, and what a rebuild needs stays."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.errors import Corrupted
from sluice.index.generations.publish import list_generations
from sluice.index.journal.files import compact, list_files, read_file, read_journal, read_pinned_model
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter

SETTINGS = WritePolicy(journal_segment_bytes=1_000, keep_generations=1)


def _write_versions(writer: IndexWriter, make, versions: int) -> None:
    for version in range(versions):
        writer.append(*make.batch([make.document(f"d{i}", f"ferrets {version} {i}") for i in range(5)]))
        writer.publish()


def _journal(root: Path) -> Path:
    return root / "c" / "journal"


@pytest.fixture
def compacted(memory_path: Path, make) -> Path:
    with IndexWriter(memory_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document(f"old{i}", f"stoats {i}") for i in range(3)]))
        _write_versions(writer, make, 12)
    with IndexWriter(memory_path, "c", SETTINGS) as writer:
        _write_versions(writer, make, 13)
    return memory_path


def test_the_journal_keeps_the_living_versions_and_forgets_the_replaced_ones(compacted: Path) -> None:
    assert next(iter(list_files(_journal(compacted)))).is_compacted
    assert len(list(read_journal(_journal(compacted)))) < 13 * 5 / 2


def test_a_rebuild_from_a_compacted_journal_gives_the_same_set(compacted: Path, make) -> None:
    with IndexWriter(compacted, "c", SETTINGS) as writer:
        assert writer.rebuild().is_proven
        assert writer.model == (make.model, make.dimension)
        assert writer.has_document("d3")


def test_a_document_that_was_removed_does_not_come_back(compacted: Path, make) -> None:
    with IndexWriter(compacted, "c", SETTINGS) as writer:
        writer.remove(["d1"])
        _write_versions(writer, make, 1)
        writer.remove(["d1", "d2"])
        writer.publish()
        for version in range(20, 32):
            writer.append(*make.batch([make.document("d0", f"otters {version} " * 20)]))
            writer.publish()
    with IndexWriter(compacted, "c", SETTINGS) as writer:
        rebuilt = writer.rebuild()
        assert rebuilt.is_proven
        assert not writer.has_document("d1")
        assert rebuilt.generation.document_count == 6


def test_a_kept_file_is_rewritten_when_most_of_it_has_died_and_nothing_else_is_due(memory_path: Path, make) -> None:
    with IndexWriter(memory_path, "c", SETTINGS) as writer:
        writer.append(*make.batch([make.document(f"old{i}", f"stoats {i} " * 20) for i in range(12)]))
        writer.append(*make.batch([make.document("d", "ferrets " * 90)]))
        writer.publish()
        writer.append(*make.batch([make.document("d", "otters " * 90)]))
        writer.publish()
    living = np.arange(1, 13, dtype=np.uint64)
    folder = _journal(memory_path)
    for alive in (living[:6], living[:2]):
        assert compact(folder, 12, alive, None, contextlib.nullcontext)
        assert [frame.offset for frame in read_file(list_files(folder)[0])] == alive.tolist()


def test_no_offset_is_given_twice_after_a_compaction(compacted: Path, make) -> None:
    with IndexWriter(compacted, "c", SETTINGS) as writer:
        before = writer.journal_offset
        assert writer.append(*make.batch([make.document("new", "badgers")])) == before + 1


def test_the_model_stays_bound_when_every_document_is_gone(compacted: Path, make) -> None:
    with IndexWriter(compacted, "c", SETTINGS) as writer:
        writer.remove([*(f"d{i}" for i in range(5)), *(f"old{i}" for i in range(3))])
        writer.publish()
        for version in range(12):
            writer.append(*make.batch([make.document("last", f"stoats {version} " * 20)]))
            writer.publish()
        writer.remove(["last"])
        writer.publish()
    assert read_pinned_model(_journal(compacted)) == (make.model, make.dimension)


def test_a_kept_file_that_lost_a_record_is_corrupted_and_not_read_as_shorter(compacted: Path) -> None:
    (kept,) = _journal(compacted).glob("*.kept")
    content = kept.read_bytes()
    second_frame = content.index(b"SLJ1", 40)
    third_frame = content.index(b"SLJ1", second_frame + 4)
    kept.write_bytes(content[:second_frame] + content[third_frame:])
    with pytest.raises(Corrupted):
        list(read_journal(_journal(compacted)))
    kept.write_bytes(content[:third_frame])
    with pytest.raises(Corrupted):
        list(read_journal(_journal(compacted)))


def test_segments_that_a_killed_compaction_left_behind_are_passed_over_and_removed(compacted: Path) -> None:
    before = [frame.offset for frame in read_journal(_journal(compacted))]
    stale = _journal(compacted) / f"{1:020d}.log"
    stale.write_bytes(b"left behind")
    assert [frame.offset for frame in read_journal(_journal(compacted))] == before
    IndexWriter(compacted, "c", SETTINGS).close()
    assert not stale.exists()


def test_what_an_older_generation_on_disk_does_not_cover_is_left_alone(memory_path: Path, make) -> None:
    settings = WritePolicy(journal_segment_bytes=1_000, keep_generations=50)
    with IndexWriter(memory_path, "c", settings) as writer:
        _write_versions(writer, make, 12)
    oldest = min(generation.journal_offset for generation in list_generations(memory_path, "c"))
    kept = [piece for piece in list_files(_journal(memory_path)) if piece.is_compacted]
    assert all(piece.last_offset <= oldest for piece in kept)
