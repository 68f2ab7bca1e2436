"""The journal of one feature: appended to under a lock, read without one.

A transaction takes the lock, sets aside a dead writer's torn end, reads what others wrote, decides, writes all new
lines in one call and flushes. Its result is on the disk. A process that dies on the way leaves all or nothing.
`prove` shows that memory equals its journal.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory, fold
from sluice.memory.journal.read import Damage, Position, ReadEntry, opened_for_reading
from sluice.memory.journal.write import (
    LOCK_TIMEOUT_SECONDS,
    append_lines,
    check_is_still_at,
    flush,
    heal,
    journal_path,
    lines_of,
    lock_journal,
    make_folder,
    open_journal,
    refusals,
)
from sluice.memory.ports import SharedJournals

Decide = Callable[[FeatureMemory], Sequence[JournalEntry]]
_Seen = tuple[int, int, int, int]
"""Device, inode, size in bytes and time of the last change in nanoseconds of a file."""

_NOTHING: _Seen = (0, 0, 0, 0)


class Journal:
    """A feature's journal under `folder`. Making one opens nothing. Many threads and processes may use it."""

    def __init__(
        self,
        folder: Path,
        feature: str,
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
        shared: SharedJournals | None = None,
    ) -> None:
        """`shared` is where other machines append too; the file is then a copy, which each reading completes."""
        self.path = journal_path(folder, feature)
        self.feature = feature
        self._shared = shared
        self._lock_timeout_seconds = lock_timeout_seconds
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._flushed_bytes = 0
        """Bytes known to be on the disk: other writers may have died between writing and flushing."""
        self._state = FeatureMemory(feature)
        self._position = Position()
        self._seen = _NOTHING

    def read(self) -> FeatureMemory:
        """Return the current state, which never changes afterwards; reads only what was appended since the last call.

        Raises `Unavailable` if the file cannot be read, or where other machines append does not answer.
        """
        self.complete()
        return self.read_file()

    def complete(self) -> None:
        """Append to the file what other machines appended."""
        size = self.path.stat().st_size if self._shared and self.path.exists() else 0
        if self._shared and any(True for _ in self._shared.appended(self.feature, size)):
            self.transact(lambda _: ())

    def read_file(self) -> FeatureMemory:
        """Return the state of the file of this machine, as `read` does."""
        with refusals(self.path, "read"):
            try:
                seen = os.stat(self.path)
            except FileNotFoundError:
                with self._reading:
                    if self._seen != _NOTHING:
                        self._begin_anew()
                    return self._state
        with self._reading:
            if _key(seen) == self._seen:
                return self._state
        with opened_for_reading(self.path) as descriptor:
            return self._read(descriptor)[0]

    def problems(self) -> tuple[Damage, ...]:
        """Return the journal's problems: damaged lines, which do not count, and entries that name missing things."""
        self.read()
        with self._reading:
            return tuple(self._position.problems)

    def append(self, entries: Sequence[JournalEntry]) -> list[bool]:
        """Append entries with unknown ids; return for each entry whether it is new. Raises as `transact`."""
        _, added = self.transact(lambda _: entries)
        places = {one.id: place for place, one in reversed(list(enumerate(entries)))}
        new = {places[one.id] for one in added}
        return [place in new for place in range(len(entries))]

    def transact(self, decide: Decide) -> tuple[FeatureMemory, list[JournalEntry]]:
        """Append what `decide` makes of the state, excluding other writers; return the new state and the new entries.

        Entries with a known id are not written, all others together: a crash leaves all or none of them. `decide` must
        not write to this journal.

        Raises:
            InvalidInput: an entry belongs to another feature, names a missing thing, or is too long.
            DiskFull: there is no room.
            Unavailable: the lock is held for too long, or the disk refuses.
        """
        if not self._writing.acquire(timeout=self._lock_timeout_seconds):
            raise Unavailable(f"another thread writes to {self.path} for {self._lock_timeout_seconds:g} s")
        try:
            make_folder(self.path.parent)
            with lock_journal(self.path, self._lock_timeout_seconds):
                descriptor = open_journal(self.path)
                try:
                    return self._transact(descriptor, decide)
                finally:
                    os.close(descriptor)
        finally:
            self._writing.release()

    def _transact(self, descriptor: int, decide: Decide) -> tuple[FeatureMemory, list[JournalEntry]]:
        _, whole_bytes = self._read(descriptor)
        heal(self.path, descriptor, whole_bytes)
        is_written = False
        while not is_written:
            self._copy(descriptor)
            state, whole_bytes = self._read(descriptor)
            entries = _new(state, decide(state))
            _check(state, entries)
            lines = lines_of(entries)
            is_written = not (entries and self._shared) or self._shared.append(self.feature, whole_bytes, lines)
        if entries:
            append_lines(self.path, descriptor, lines)
            state, whole_bytes = self._read(descriptor)
        elif self._flushed_bytes < whole_bytes:
            flush(self.path, descriptor)  # its writer may have died before its flush; the caller relies on it
        self._flushed_bytes = whole_bytes
        check_is_still_at(self.path, descriptor)
        return state, entries

    def _copy(self, descriptor: int) -> None:
        """Append what other machines have appended behind the end of the file."""
        size = os.fstat(descriptor).st_size
        for content in self._shared.appended(self.feature, size) if self._shared else ():
            append_lines(self.path, descriptor, content)

    def _read(self, descriptor: int) -> tuple[FeatureMemory, int]:
        """Fold new entries into a copy of the state; return it and the bytes read. Rereads a replaced or cut file."""
        with self._reading, refusals(self.path, "read"):
            seen = os.fstat(descriptor)
            if _key(seen)[:2] != self._seen[:2] or not self._position.is_still_in(descriptor):
                self._begin_anew()
            try:
                self._fold(self._position.read_on(descriptor))
            except BaseException:  # an interruption too: some lines may be behind the position and not in the state
                self._begin_anew()
                raise
            self._seen = _key(seen)
            return self._state, self._position.offset

    def _fold(self, new: Sequence[ReadEntry]) -> None:
        if not new:
            return
        state = self._state.copy()
        for one in new:
            problems = fold(state, one.entry)
            self._position.problems += (Damage(one.line, one.offset, problem) for problem in problems)
        self._state = state

    def _begin_anew(self) -> None:
        self._state = FeatureMemory(self.feature)
        self._position = Position()
        self._seen = _NOTHING
        self._flushed_bytes = 0


def _key(seen: os.stat_result) -> _Seen:
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _new(state: FeatureMemory, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Return the entries whose id is unknown, each once."""
    new: dict[str, JournalEntry] = {}
    for one in entries:
        if one.id not in state.entry_ids:
            new.setdefault(one.id, one)
    return list(new.values())


def _check(state: FeatureMemory, entries: Sequence[JournalEntry]) -> None:
    """Raise `InvalidInput` for an entry that does not fit the state and the entries before it."""
    trial = state.copy() if entries else state
    for one in entries:
        if problems := fold(trial, one):
            raise InvalidInput("entry", f"{one.body.kind}: {'; '.join(problems)}", "nothing was written")


_SHOWN = 3
"""Most ids that a difference names."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result for one feature. `differences` are sentences; if there are none, both states are the same, id for id."""

    entries: int
    sha256: str
    """Hash of the state as read anew; see `state_sha256`."""
    differences: tuple[str, ...]
    problems: tuple[Damage, ...]


def prove(journal: Journal) -> Proof:
    """Compare the state that `journal` holds with a new reading of its file from the start.

    Raises `Unavailable` if the file cannot be read, or another process writes to it for too long.
    """
    anew = Journal(journal.path.parent, journal.feature)
    journal.complete()
    with lock_journal(journal.path) if journal.path.exists() else nullcontext():
        held, fresh = journal.read_file(), anew.read()
    return Proof(len(fresh.entry_ids), state_sha256(fresh), differences(held, fresh), anew.problems())


def state_sha256(state: FeatureMemory) -> str:
    """Return the SHA-256 of a state, hexadecimal: equal for equal ids, records, learnings and counts in equal order."""
    digest = hashlib.sha256()
    for one in fields(state):
        digest.update(to_json([one.name, _in_order(getattr(state, one.name))]))
    return digest.hexdigest()


def differences(held: FeatureMemory, fresh: FeatureMemory) -> tuple[str, ...]:
    """Return a sentence for each part in which two states differ."""
    return tuple(
        f"{one.name}: {told}"
        for one in fields(held)
        if (told := _difference(getattr(held, one.name), getattr(fresh, one.name)))
    )


def _difference(held: Any, fresh: Any) -> str:
    if _in_order(held) == _in_order(fresh):
        return ""
    if not isinstance(held, dict | set):
        return "not the same"
    told = {"only held": set(held) - set(fresh), "only in the journal": set(fresh) - set(held)}
    if isinstance(held, dict):
        told["with other content"] = {key for key in held.keys() & fresh.keys() if held[key] != fresh[key]}
    found = [f"{len(keys)} {what} ({_some(keys)})" for what, keys in told.items() if keys]
    return ", ".join(found) or "in another order"


def _some(keys: Iterable[Any]) -> str:
    names = sorted(" and ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in keys)
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _in_order(value: Any) -> Any:
    """Return a mapping as its pairs, in their order; a set sorted; anything else unchanged."""
    if isinstance(value, dict):
        return list(value.items())
    return sorted(value) if isinstance(value, set) else value
