"""The plans of the gate, from the cheapest to the most expensive."""

from __future__ import annotations

from enum import StrEnum


class Plan(StrEnum):
    """The sources that a run uses for its answer, nearest first."""

    SKIP = "skip"
    RETRIEVE = "retrieve"
    SEARCH = "search"
    FULL_LOOP = "full_loop"
