"""The graph as a retriever of a search. It reads the current generation, and abstains where there is none."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from sluice.contracts.errors import Corrupted
from sluice.contracts.graph.model import Expansion, GraphArm, GraphHit
from sluice.graph.generations.publish import FILE, POINTER, current, open_generation
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.expand import expand

NO_GRAPH = "no graph is published"
DAMAGED = "the graph is damaged"
_State = tuple[int, int, int]


class Arm(GraphArm):
    """Walks the current generation of the graph of one corpus. Safe for threads.

    Each question checks the pointer (one `stat`) and opens a new generation if there is one. An open generation stays
    readable when its file is deleted; a damaged one is not tried again until another takes its place.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` is that of the corpus's graph. Nothing is opened before the first question."""
        self._folder = folder
        self._lock = threading.Lock()
        self._state: _State | None = None
        self._view: GraphView | None = None
        self._problem = NO_GRAPH

    def expand(self, question: str, hits: Sequence[GraphHit]) -> Expansion:
        """Walk from the hits and from the names in the question. Raises nothing."""
        view, problem = self.view()
        if view is None:
            return Expansion(abstained=problem)
        return expand(view, question, hits)

    def view(self) -> tuple[GraphView | None, str]:
        """Return the generation to read, or the reason that there is none."""
        state = self._look()
        if state is None or state == self._state:
            return self._view, self._problem
        with self._lock:
            if state != self._state:
                self._open()
                self._state = state
            return self._view, self._problem

    def _look(self) -> _State | None:
        try:
            found = (self._folder / POINTER / FILE).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _open(self) -> None:
        try:
            generation = current(self._folder)
            if generation is not None:
                self._view, self._problem = open_generation(self._folder, generation), ""
        except Corrupted:
            self._problem = DAMAGED
