"""What a dead writer, a full disk and a failing disk leave, and what the next transaction makes of it."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.contracts.errors import DiskFull, Unavailable
from sluice.memory.journal import Journal, JournalEntry, read_journal
from tests.support.memory.entries import added, iteration


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path, "auth")
    made.append([iteration(1)])
    return made


def set_aside(journal: Journal) -> list[Path]:
    return sorted(journal.path.parent.glob("auth.jsonl.torn-*"))


def test_a_torn_end_is_ignored_by_readers_and_set_aside_by_the_next_writer(journal: Journal) -> None:
    whole = journal.path.read_bytes()
    torn = iteration(2).to_json_line().encode()[:300]
    journal.path.write_bytes(whole + torn)
    assert len(journal.read().iterations) == 1
    reading = read_journal(journal.path)
    assert (len(reading.entries), reading.problems) == (1, ())
    assert journal.path.read_bytes() == whole + torn, "a reader changes nothing"
    assert journal.append([iteration(2)]) == [True]
    assert [one.read_bytes() for one in set_aside(journal)] == [torn]
    assert len(read_journal(journal.path).entries) == 2
    assert journal.problems() == ()
    journal.append([iteration(3)])
    assert len(set_aside(journal)) == 1


def test_an_end_that_lacks_nothing_but_its_line_feed_counts(journal: Journal) -> None:
    journal.path.write_bytes(journal.path.read_bytes() + iteration(2).to_json_line().encode())
    assert len(journal.read().iterations) == 1
    assert journal.append([iteration(2), iteration(3)]) == [False, True]
    assert set_aside(journal) == []
    assert len(read_journal(journal.path).entries) == 3


def test_of_entries_that_were_written_together_none_counts_where_one_is_missing(journal: Journal) -> None:
    size = journal.path.stat().st_size
    journal.append([iteration(2), added(), iteration(3)])
    lines = journal.path.read_bytes()[size:].splitlines(keepends=True)
    whole = journal.path.read_bytes()[:size]
    for kept in (lines[0], lines[0] + lines[1], lines[0] + lines[1] + lines[2][:-1], lines[0] + lines[1][:50]):
        journal.path.write_bytes(whole + kept)
        assert len(Journal(journal.path.parent, "auth").read().entry_ids) == 1
    assert journal.append([iteration(2)]) == [True]
    assert len(journal.read().entry_ids) == 2
    assert set_aside(journal)[0].read_bytes() == kept


@pytest.mark.parametrize("more_bytes", [1 << 22, 500], ids=["behind the end that was seen", "between two blocks"])
@pytest.mark.parametrize("dead", [[iteration(2)], [iteration(2), iteration(3)]], ids=["one line", "two lines"])
def test_an_end_that_is_healed_between_two_reads_is_not_joined_to_what_comes_in_its_place(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, more_bytes: int, dead: list[JournalEntry]
) -> None:
    """Another process cuts off half a dead line and appends, while a reader has read that half and not yet the rest."""
    size = journal.path.stat().st_size
    journal.append(dead)
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-300])
    reader, other = Journal(journal.path.parent, "auth"), Journal(journal.path.parent, "auth")
    read = os.pread

    def read_and_meanwhile(descriptor: int, length: int, offset: int) -> bytes:
        block = read(descriptor, length, offset)
        if offset + len(block) > size:
            monkeypatch.setattr("os.pread", read)
            other.append([iteration(4, summary="x" * 2_000)])
            other.append([iteration(5)])
        return block

    monkeypatch.setattr("sluice.memory.journal.read._BLOCK_BYTES", size + more_bytes)
    monkeypatch.setattr("os.pread", read_and_meanwhile)
    reader.read()
    assert reader.problems() == ()
    assert [one.record.iteration_number for one in reader.read().iterations.values()] == [1, 4, 5]
    assert len(set_aside(journal)) == 1


def limit_of_file_size(journal: Journal, more_bytes: int) -> Callable[[], None]:
    size = journal.path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more_bytes, before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room_bytes", [100, 800, 0])
def test_a_write_that_finds_too_little_room_leaves_nothing(journal: Journal, room_bytes: int) -> None:
    content = journal.path.read_bytes()
    lift = limit_of_file_size(journal, room_bytes)
    try:
        with pytest.raises(Unavailable, match=r"bytes for .*auth.jsonl|File too large"):
            journal.append([iteration(2), iteration(3)])
    finally:
        lift()
    assert journal.path.read_bytes() == content
    assert len(journal.read().iterations) == 1
    assert journal.append([iteration(2), iteration(3)]) == [True, True]


class FailingFlush:
    """`os.fdatasync` that fails once, for the first descriptor that it is given, and never for another."""

    def __init__(self, error: int) -> None:
        self._error, self._flush, self.asked = error, os.fdatasync, list[int]()

    def __call__(self, descriptor: int) -> None:
        self.asked.append(descriptor)
        if len(self.asked) == 1:
            raise OSError(self._error, os.strerror(self._error))
        self._flush(descriptor)


@pytest.mark.parametrize(("error", "expected"), [(errno.EIO, Unavailable), (errno.ENOSPC, DiskFull)])
def test_an_entry_whose_flush_failed_is_taken_back_and_may_come_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, error: int, expected: type[Unavailable]
) -> None:
    reader = Journal(journal.path.parent, "auth")
    content = journal.path.read_bytes()
    failing = FailingFlush(error)
    monkeypatch.setattr("os.fdatasync", failing)
    with pytest.raises(expected, match=os.strerror(error)):
        journal.append([iteration(2)])
    assert len(failing.asked) == 2, "the second one is of the journal as it was before"
    assert failing.asked[0] != failing.asked[1]
    assert journal.path.read_bytes() == content
    assert len(reader.read().iterations) == 1
    assert journal.append([iteration(2)]) == [True]
    assert len(reader.read().iterations) == 2


def test_what_another_wrote_and_may_not_have_flushed_is_flushed_before_it_is_relied_on(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with journal.path.open("a") as dead_before_its_flush:
        dead_before_its_flush.write(iteration(2).to_json_line() + "\n")
    flushed: list[int] = []
    flush = os.fdatasync
    monkeypatch.setattr("os.fdatasync", lambda descriptor: (flushed.append(1), flush(descriptor))[1])
    assert journal.append([iteration(2)]) == [False]
    assert len(flushed) == 1
    assert journal.append([iteration(2)]) == [False]
    assert len(flushed) == 1, "nothing is new"


def test_a_reader_that_saw_what_was_taken_back_reads_anew(journal: Journal) -> None:
    content = journal.path.read_bytes()
    reader = Journal(journal.path.parent, "auth")
    journal.append([iteration(2)])
    assert len(reader.read().iterations) == 2
    journal.path.write_bytes(content)
    journal.append([iteration(3, summary="x" * 900)])  # the file is longer than what the reader had read
    assert [one.record.iteration_number for one in reader.read().iterations.values()] == [1, 3]


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(Unavailable, match="cannot be written"):
        Journal(tmp_path / "file" / "memory", "auth").append([iteration(1)])
    (tmp_path / "pay.jsonl").mkdir()
    with pytest.raises(Unavailable, match="cannot be written"):
        Journal(tmp_path, "pay").append([iteration(1, "pay")])
    with pytest.raises(Unavailable, match="cannot be read"):
        Journal(tmp_path, "pay").read()


def test_no_symbolic_link_is_written_through(tmp_path: Path) -> None:
    target = tmp_path / "keys"
    target.write_text("ssh-ed25519 a\nssh-ed25519 b")
    (tmp_path / "auth.jsonl").symlink_to(target)
    with pytest.raises(Unavailable, match="symbolic links"):
        Journal(tmp_path, "auth").append([iteration(1)])
    assert target.read_text() == "ssh-ed25519 a\nssh-ed25519 b"
