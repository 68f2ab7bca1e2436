"""Follows a corpus: decides which view queries see. Views are complete, and no query fails because the view changes.

The pointer and the journal's mark on disk are read for each query (two system calls). A new generation is verified and
opened beside the old one, then swapped in; later journal records are added as a memory segment
(`index.local.memory_segment`). A query keeps the view that it began with. A generation that does not verify is not
served: the one in use stays; at the start, the newest intact older one is used. That one, as after a rollback, is
served as it was published, without later records.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from sluice.contracts.errors import Corrupted, NotFound, Unavailable
from sluice.disk.durable import is_shortage
from sluice.index.folder import CorpusLayout
from sluice.index.generations.manifest import load_manifest, parse_generation_number
from sluice.index.generations.publish import (
    VerifiedFiles,
    list_candidates,
    list_generation_names,
    read_current_name,
    read_pointer,
    read_rollback_offset,
    verify_files,
)
from sluice.index.generations.view import OpenGeneration, View
from sluice.index.journal.journal import JournalTail
from sluice.index.journal.records import decode_record
from sluice.index.local.memory_segment import MemorySegments

_LOST_POINTER = "CURRENT"


class Follower:
    """The view of one corpus that is served now. Safe for threads.

    `on_fallback` is called once for each generation that is refused, and for a damaged journal, with the reason.
    `fallback_reason` is the latest reason while another generation than the newest is served. At most
    `max_recent_chunks` chunks beyond the generation are held in memory; the others wait for the next generation.
    """

    def __init__(
        self, layout: CorpusLayout, is_verified: bool, on_fallback: Callable[[str], None], max_recent_chunks: int
    ) -> None:
        self._layout = layout
        self._pointer, self._hold = os.fspath(layout.current), os.fspath(layout.held)
        self._is_verified = is_verified
        self._on_fallback = on_fallback
        self._max_recent_chunks = max_recent_chunks
        self._verified = VerifiedFiles()
        self._refused: dict[str, str] = {}
        self._generation: OpenGeneration | None = None
        self._served: View | None = None
        self._is_substitute = False
        self._overlay: Overlay | None = None
        self._mark = JournalTail(layout.journal, 0)
        self._swapping = threading.Lock()
        self._swapped = threading.Condition()
        self.fallback_reason: str | None = None

    def latest(self) -> View | None:
        """Return the view to search now; None while there is no generation at all.

        Raises `Corrupted` when there are generations and none of them is intact, and `Unavailable` when the machine
        lacks memory, file handles or disk to open the first one.
        """
        served = self._served
        name = read_pointer(self._pointer)
        if name is None and not list_generation_names(self._layout):
            return served
        is_newest = served is not None and (served.name == name or (name or _LOST_POINTER) in self._refused)
        if is_newest and not self._is_behind() and not self._is_held() and not self._is_named_now(name):
            return served
        # While one thread swaps, others use the served view; they wait only where there is none yet.
        if not self._swapping.acquire(blocking=served is None):
            return served
        try:
            if not is_newest:
                self._swap()
            self._catch_up()
        finally:
            self._swapping.release()
        return self._served

    def reload(self) -> View | None:
        """Read the pointer now, and try refused generations again."""
        with self._swapping:
            self._refused.clear()
            self._swap()
            self._catch_up()
        return self._served

    def wait_for_swap(self, seconds: float) -> None:
        """Wait until another view is served, at most `seconds`."""
        with self._swapped:
            self._swapped.wait(seconds)

    def close(self) -> None:
        """Unpin the served generation. Queries must have ended."""
        self._mark.close()
        self._drop_overlay()
        if self._generation is not None:
            self._generation.close()
        self._generation = self._served = None

    def _is_behind(self) -> bool:
        """Return whether the journal has records to add to the overlay, or another journal has taken its place."""
        overlay = self._overlay
        if overlay is None:
            return False
        durable = self._mark.durable_offset()
        return (overlay.wants_more and durable > overlay.offset) or self._is_replaced(overlay, durable)

    def _is_replaced(self, overlay: Overlay, durable: int) -> bool:
        """Return whether the overlay has records that count no more: their journal was set aside."""
        return durable < overlay.offset and overlay.has_records

    def _is_held(self) -> bool:
        """Return whether a rollback chose the generation, which is then served without an overlay. One system call."""
        is_there = self._overlay is not None and os.access(self._hold, os.F_OK)
        return is_there and read_rollback_offset(self._layout) is not None

    def _is_named_now(self, name: str | None) -> bool:
        """Return whether the pointer now names the generation that is served in place of another."""
        return self._is_substitute and self._generation is not None and self._generation.name == name

    def _catch_up(self) -> None:
        """Add the journal's new records to the overlay."""
        if self._generation is not None and (self._is_held() or self._is_named_now(read_pointer(self._pointer))):
            self._take(self._generation)
        overlay = self._overlay
        if self._generation is not None and overlay and self._is_replaced(overlay, self._mark.durable_offset()):
            self._take(self._generation)
            overlay = self._overlay
        if overlay is None or not self._is_behind():
            return
        try:
            overlay.read(self._mark.durable_offset())
        except (Corrupted, OSError) as error:
            if is_shortage(error):
                return  # the next query tries again
            self._drop_overlay()
            self.fallback_reason = f"the journal of corpus {self._layout.corpus} is not followed: {error}"
            self._on_fallback(self.fallback_reason)
            return
        self._serve(overlay.segments.view())

    def _serve(self, view: View) -> None:
        self._served = view
        with self._swapped:
            self._swapped.notify_all()

    def _take(self, generation: OpenGeneration) -> None:
        """Serve a generation; add an overlay unless it is a substitute or a rollback chose it."""
        self._drop_overlay()
        self._mark.close()  # after a swap the corpus has another journal
        self._is_substitute = generation.name != read_current_name(self._layout)
        if not self._is_substitute and read_rollback_offset(self._layout) is None:
            tail = JournalTail(self._layout.journal, generation.journal_offset)
            self._overlay = Overlay(tail, generation, self._max_recent_chunks)
        self._generation = generation
        self._serve(generation)

    def _drop_overlay(self) -> None:
        overlay, self._overlay = self._overlay, None
        if overlay is not None:
            overlay.close()

    def _swap(self) -> None:
        """Serve the newest generation; on a shortage keep the served one, and let the next query try again."""
        try:
            self._serve_newest()
        except (Unavailable, OSError) as error:
            if isinstance(error, OSError) and not is_shortage(error):
                raise
            if self._served is None:
                raise Unavailable(f"corpus {self._layout.corpus} cannot be opened now: {error}") from error
            self.fallback_reason = str(error)

    def _serve_newest(self) -> None:
        """Serve the current generation, keep the served one, or serve the newest older one that is intact."""
        names = list_candidates(self._layout)
        is_lost = read_current_name(self._layout) is None and [parse_generation_number(name) for name in names] not in (
            [],
            [1],
        )
        if (
            is_lost and _LOST_POINTER not in self._refused
        ):  # only the first: its writer was killed before it made a pointer
            self._refused[_LOST_POINTER] = f"the pointer {self._layout.current} is lost; the newest generation serves"
            self._on_fallback(self._refused[_LOST_POINTER])
        while names and not self._serve_first_intact(names):
            tried, names = names, list_candidates(self._layout)
            if names == tried:
                raise Corrupted(f"corpus {self._layout.corpus} has no intact generation: {self.fallback_reason}")

    def _serve_first_intact(self, names: list[str]) -> bool:
        """Serve the first of the generations that is intact, and return whether any view is served now."""
        for name in names:
            if self._served is not None and self._served.name == name:
                return True
            generation = self._open(name)
            self.fallback_reason = self._refused.get(names[0]) or self._refused.get(_LOST_POINTER)
            if generation is not None:
                self._take(generation)
            if self._served is not None:
                return True
        return False

    def _open(self, name: str) -> OpenGeneration | None:
        if name in self._refused:
            return None
        folder = self._layout.generations / name
        try:
            manifest = load_manifest(folder)
            if self._is_verified:
                verify_files(folder, manifest, self._verified)
            return OpenGeneration(folder, manifest, self._generation.segments if self._generation else None)
        except (Corrupted, NotFound) as error:
            if not folder.exists() and read_current_name(self._layout) != name:
                return None  # overtaken: a newer one was published and this one collected meanwhile
            self._refused[name] = str(error)
            self._on_fallback(f"generation {name} of corpus {self._layout.corpus} is refused: {error}")
            return None


class Overlay:
    """The records of the journal beyond one generation, as memory segments."""

    def __init__(self, tail: JournalTail, generation: OpenGeneration, max_chunks: int) -> None:
        """Take the journal `tail`, which was read up to the offset that the generation covers."""
        self._tail, self._begin = tail, tail.offset
        self._max_chunks = max_chunks
        self.segments = MemorySegments(generation, generation.manifest.next_chunk_number)

    @property
    def offset(self) -> int:
        """The journal offset that the overlay covers."""
        return self._tail.offset

    @property
    def has_records(self) -> bool:
        """Whether anything was read beyond the generation."""
        return self._tail.offset > self._begin

    @property
    def wants_more(self) -> bool:
        """Whether there is room for more records."""
        return self.segments.chunk_count < self._max_chunks

    def read(self, until_offset: int) -> None:
        """Add the records up to an offset, or until there is no more room."""
        for frame in self._tail.read(until_offset):
            self.segments.apply(frame.offset, decode_record(frame.kind, frame.payload))
            if not self.wants_more:
                return

    def close(self) -> None:
        """Close the journal."""
        self._tail.close()
