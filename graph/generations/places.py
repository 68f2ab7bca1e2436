"""In which definition each line of each document stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sluice.graph.generations.definitions import Definition

_MOST_LINES = 2_000_000
"""Of one document. No text that is indexed has more."""


class Places:
    """The innermost definition around a line; the document where there is none.

    Places are numbered as the vertices of the walk: nodes first, of which documents come first, then definitions.
    """

    def __init__(self, definitions: Sequence[Definition], documents: int, nodes: int) -> None:
        """`definitions` ascend by document."""
        self._first = np.zeros(documents + 1, np.int64)
        spans: dict[int, list[tuple[int, int, int]]] = {}
        for place, definition in enumerate(definitions):
            if definition.first > 0:
                last = min(max(definition.last, definition.first), _MOST_LINES)
                spans.setdefault(definition.document, []).append((definition.first, -last, place))
        painted: list[NDArray[np.int32]] = []
        for document in range(documents):
            own = sorted(spans.get(document, ()))
            lines = np.full(1 + max((-last for _, last, _ in own), default=0), document, np.int32)
            for first, last, place in own:
                lines[first : 1 - last] = nodes + place
            painted.append(lines)
            self._first[document + 1] = self._first[document] + len(lines)
        self._lines = np.concatenate(painted) if painted else np.zeros(0, np.int32)

    def around(self, documents: NDArray[np.int32], lines: NDArray[np.int32]) -> NDArray[np.int32]:
        """The vertex in which each line stands; line 0 stands in the document itself."""
        lengths = self._first[documents + 1] - self._first[documents]
        inside = (lines > 0) & (lines < lengths)
        found = documents.astype(np.int32).copy()
        found[inside] = self._lines[(self._first[documents] + lines)[inside]]
        return found
