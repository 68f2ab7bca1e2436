"""The plans of the gate, from the cheapest to the dearest."""

from __future__ import annotations

from enum import StrEnum


class Plan(StrEnum):
    """How far a run goes for its answer, nearest first."""

    SKIP = "skip"
    RETRIEVE = "retrieve"
    SEARCH = "search"
    FULL_LOOP = "full_loop"
