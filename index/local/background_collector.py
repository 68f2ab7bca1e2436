"""Collects after a publish, in a background thread: removes old generations, and compacts the journal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import Corrupted
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.publish import collect, list_generations
from sluice.index.journal.compaction import compact


class BackgroundCollector:
    """Collects one corpus, one run at a time. `mutex` is held while journal files are swapped.

    `on_fallback` is called with the problem when the journal is damaged and therefore not compacted.
    """

    def __init__(
        self,
        layout: CorpusLayout,
        keep_generations: int,
        mutex: AbstractContextManager[object],
        on_fallback: Callable[[str], None],
    ) -> None:
        self._layout = layout
        self._keep_generations = keep_generations
        self._mutex = mutex
        self._on_fallback = on_fallback
        self._thread: threading.Thread | None = None

    def start(self, offset: int, live_offsets: NDArray[np.uint64], model: tuple[str, int] | None) -> None:
        """Start a run, unless one is going on. `live_offsets` are those of the live versions at `offset`."""
        if self._thread is None or not self._thread.is_alive():
            arguments = (offset, live_offsets, model)
            self._thread = threading.Thread(target=self._collect, args=arguments, name="collect", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the run has ended."""
        if self._thread is not None:
            self._thread.join()

    def _collect(self, offset: int, live_offsets: NDArray[np.uint64], model: tuple[str, int] | None) -> None:
        layout = self._layout
        with contextlib.suppress(OSError):  # a full disk: the next publish tries again
            collect(layout, self._keep_generations)
            covered = [generation.journal_offset for generation in list_generations(layout.root, layout.corpus)]
            try:
                compact(layout.journal, min([offset, *covered]), live_offsets, model, lambda: self._mutex)
            except Corrupted as error:  # the generations are intact; a rebuild would report it again
                self._on_fallback(f"the journal of corpus {layout.corpus} is not compacted: {error}")
