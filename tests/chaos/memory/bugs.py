"""Bugs to be planted in the journal, so that every check proves that it can fail."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sluice.memory.journal import Journal, JournalEntry, file, read, write
from tests.chaos.memory import writer

Bug = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Planted:
    """A mistake that somebody could make, and what the check must say (one of these) for it to count as noticed."""

    what: str
    plant: Bug
    told: tuple[str, ...]


def _flush_all_but(is_left_out: Callable[[str], bool]) -> Bug:
    @contextmanager
    def plant() -> Iterator[None]:
        originals = {name: getattr(os, name) for name in ("fsync", "fdatasync")}

        def without(name: str) -> Callable[[int], None]:
            def flush(descriptor: int) -> None:
                if not is_left_out(os.readlink(f"/proc/self/fd/{descriptor}")):
                    originals[name](descriptor)

            return flush

        with patch.multiple(os, **{name: without(name) for name in originals}):
            yield

    return plant


def _write_one_by_one(path: Path, descriptor: int, lines: bytes) -> None:
    for line in lines.splitlines():
        _append_lines(path, descriptor, write.lines_of([JournalEntry.from_json_line(line)]))


def _cut_without_keeping(path: Path, descriptor: int, whole_bytes: int) -> None:
    os.ftruncate(descriptor, whole_bytes)


def _in_fewer_files(folder: Path, feature: str) -> Path:
    return _journal_path(folder, feature[:-1] + "0")


def _tell_and_record(journal: Journal, item: writer.Item, descriptor: int) -> None:
    os.write(descriptor, f"{item.number}\n".encode())
    journal.transact(item.decide)


@contextmanager
def _look_at_no_id() -> Iterator[None]:
    def decide(item: writer.Item, state: Any) -> list[JournalEntry]:
        return [item.iteration, *item.taught(state)]

    with (
        patch.object(writer.Item, "decide", decide),
        patch.multiple(file, _new=lambda _, entries: list(entries), _check=lambda *_: None),
    ):
        yield


@contextmanager
def _look_at_no_checksum() -> Iterator[None]:
    from_json_line = JournalEntry.from_json_line.__func__  # type: ignore[attr-defined]

    def without(kind: type[JournalEntry], line: bytes) -> JournalEntry:
        begin = line[: -len(',"checksum":"0123456789abcdef"}')]
        right = hashlib.sha256(begin).hexdigest()[:16].encode()
        return from_json_line(kind, begin + b',"checksum":"' + right + b'"}')  # type: ignore[no-any-return]

    with patch.object(JournalEntry, "from_json_line", classmethod(without)):
        yield


def _tell_of_no_damage() -> AbstractContextManager[Any]:
    return patch.object(file.Journal, "problems", lambda _: ())


def _end_at_damage() -> AbstractContextManager[Any]:
    read_on = read.Position.read_on

    def to_the_first(position: read.Position, descriptor: int) -> list[read.ReadEntry]:
        found = read_on(position, descriptor)
        return [one for one in found if not position.problems or one.line < position.problems[0].line]

    return patch.object(read.Position, "read_on", to_the_first)


_append_lines = write.append_lines
_journal_path = file.journal_path

NO_LOCK = Planted(
    "there is no lock",
    lambda: patch.object(file, "lock_journal", lambda *_: nullcontext()),
    ("was added before", "damaged", "is lost", "was observed", "only held", "times"),
)
NO_HEALING = Planted(
    "a torn end is not healed",
    lambda: patch.object(file, "heal", lambda *_: None),
    ("damaged", "another state", "is lost"),
)
ONE_BY_ONE = Planted(
    "what belongs together is written one by one",
    lambda: patch.object(file, "append_lines", _write_one_by_one),
    ("was observed", "are distilled", "a part of"),
)

BUGS: dict[str, tuple[Planted, ...]] = {
    "calls": (
        NO_HEALING,
        ONE_BY_ONE,
        Planted(
            "a torn end is thrown away", lambda: patch.object(file, "heal", _cut_without_keeping), ("is not kept",)
        ),
    ),
    "power": (
        Planted(
            "the journal is not flushed",
            _flush_all_but(lambda path: path.endswith(".jsonl")),
            ("acknowledged is lost",),
        ),
        Planted("no folder is flushed", _flush_all_but(os.path.isdir), ("acknowledged is lost",)),
        Planted("what was cut off is not flushed", _flush_all_but(lambda path: ".torn-" in path), ("is not kept",)),
    ),
    "disk": (
        Planted("what was refused stays", lambda: patch.object(write, "_take_back", lambda *_: None), ("is there",)),
        Planted(
            "errors of the system are passed on",
            lambda: patch.object(write, "refusals", lambda *_: nullcontext()),
            ("is told as",),
        ),
    ),
    "damage": (
        Planted("no checksum is looked at", _look_at_no_checksum, ("of damaged lines count",)),
        Planted("damage is passed over", _tell_of_no_damage, ("is not told",)),
        Planted("damage ends the reading", _end_at_damage, ("do not count",)),
    ),
    "writers": (
        NO_LOCK,
        NO_HEALING,
        ONE_BY_ONE,
        Planted(
            "features share a file", lambda: patch.object(file, "journal_path", _in_fewer_files), ("another feature's",)
        ),
        Planted("ids are not looked at", _look_at_no_id, ("times",)),
        Planted(
            "it is told before it is done",
            lambda: patch.object(writer, "record_and_tell", _tell_and_record),
            ("and was told",),
        ),
    ),
}
"""By the check that must notice."""
