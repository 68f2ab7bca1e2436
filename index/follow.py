"""Following the pointer: which generation queries see, swapped whole and without a failed query.

The pointer on disk is the truth and is looked at for each query (one system call). A new generation is
verified and opened beside the old one, then swapped; queries in flight end on the one they began with. One that
does not verify is not served: the one in use stays, or at the start the newest older one that is whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from contracts.errors import Corrupted, NotFound, Unavailable
from index.generation import OpenGeneration
from index.layout import CorpusLayout
from index.manifest import load_manifest
from index.recovery import candidates
from index.snapshot import VerifiedFiles, current_name, verify_files

_FIRST_LOOK_SECONDS = 0.002
_LONGEST_LOOK_SECONDS = 0.05


class Follower:
    """The generation of one corpus that is served now. Safe for threads.

    `on_fallback` is told, once for each, of generations that were refused. `fallback_reason` keeps the
    latest such reason while another generation than the current one is served.
    """

    def __init__(self, layout: CorpusLayout, is_verified: bool, on_fallback: Callable[[str], None]) -> None:
        self._layout = layout
        self._is_verified = is_verified
        self._on_fallback = on_fallback
        self._verified = VerifiedFiles()
        self._refused: dict[str, str] = {}
        self._served: OpenGeneration | None = None
        self._swapping = threading.Lock()
        self._swapped = threading.Condition()
        self.fallback_reason: str | None = None

    def latest(self) -> OpenGeneration | None:
        """The generation to search now; None while there is none at all.

        Raises `Corrupted` when there are generations and none of them is whole.
        """
        served = self._served
        name = current_name(self._layout)
        if (
            name is None
            or (served is not None and served.name == name)
            or (served is not None and name in self._refused)
        ):
            return served
        # While one thread swaps, others go on with what is served; only the first generation is waited for.
        if not self._swapping.acquire(blocking=served is None):
            return served
        try:
            self._swap()
        finally:
            self._swapping.release()
        return self._served

    def reload(self) -> OpenGeneration | None:
        """Look at the pointer now, giving generations that were refused another chance."""
        with self._swapping:
            self._refused.clear()
            self._swap()
        return self._served

    def covering(self, journal_offset: int, timeout_seconds: float) -> OpenGeneration | None:
        """The latest generation, once it covers the offset. Raises `Unavailable` when that takes too long."""
        deadline = time.monotonic() + timeout_seconds
        look_seconds = _FIRST_LOOK_SECONDS
        while True:
            served = self.latest()
            covered = served.journal_offset if served else 0
            if covered >= journal_offset:
                return served
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable(
                    f"corpus {self._layout.corpus} covers journal offset {covered}, not yet {journal_offset}"
                )
            with self._swapped:
                self._swapped.wait(min(look_seconds, left))
            look_seconds = min(2 * look_seconds, _LONGEST_LOOK_SECONDS)

    def close(self) -> None:
        """Unpin what is served. Queries in flight must have ended."""
        if self._served is not None:
            self._served.close()
            self._served = None

    def _swap(self) -> None:
        """Serve the current generation, or keep what is served, or take the newest older one that is whole."""
        names = candidates(self._layout)
        while names and not self._serve_first_whole(names):
            tried, names = names, candidates(self._layout)
            if names == tried:
                raise Corrupted(f"corpus {self._layout.corpus} has no generation that is whole: {self.fallback_reason}")

    def _serve_first_whole(self, names: list[str]) -> bool:
        """Whether something is served now, be it what was served before."""
        for name in names:
            if self._served is not None and self._served.name == name:
                return True
            generation = self._open(name)
            self.fallback_reason = self._refused.get(names[0])
            if generation is not None:
                self._served = generation
                with self._swapped:
                    self._swapped.notify_all()
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
            return OpenGeneration(folder, manifest, self._served.segments if self._served else None)
        except (Corrupted, NotFound) as error:
            if not folder.exists() and current_name(self._layout) != name:
                return None  # overtaken: a newer one was published and this one collected meanwhile
            self._refused[name] = str(error)
            self._on_fallback(f"generation {name} of corpus {self._layout.corpus} is refused: {error}")
            return None
