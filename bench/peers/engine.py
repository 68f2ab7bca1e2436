"""What a contestant offers, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Hit = tuple[int, str]
"""The chunk's number and its text."""

CANDIDATES = 50
"""What each arm hands to fusion, where an engine lets one say so."""


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Texts with their L2-normalised float32 vectors (n, d); text i is chunk `first + i`."""

    first: int
    texts: list[str]
    vectors: Vectors

    @property
    def numbers(self) -> range:
        """The chunks' numbers."""
        return range(self.first, self.first + len(self.texts))


class Engine(Protocol):
    """An empty engine in a folder of its own, ready to take chunks. One thread calls it."""

    def __init__(self, folder: Path) -> None: ...

    @property
    def durability(self) -> str:
        """What survives a power cut once `add` has returned, in a few words."""
        ...

    @property
    def after_add(self) -> str:
        """What `finish` does beyond `add`; empty where there is nothing more to do."""
        ...

    @property
    def strategies(self) -> tuple[str, ...]:
        """Those of `hybrid`, `vector` and `bm25` that it has, in this order."""
        ...

    def prepare(self, chunks: Chunks) -> Any:
        """The chunks in the form that the engine takes; no part of any measure."""
        ...

    def ingest(self, prepared: Any) -> None:
        """Everything searchable, in batches as the engine likes best, its indexes built."""
        ...

    def add(self, prepared: Any) -> None:
        """A few more chunks, searchable when this returns."""
        ...

    def finish(self) -> None:
        """Bring what was added to the disk to stay, where `add` alone does not, or into its final form."""
        ...

    def search(self, text: str, vector: Vectors, strategy: str, limit: int) -> list[Hit]:
        """The best chunks, with their texts."""
        ...

    def close(self) -> None:
        """Let go of the folder."""
        ...
