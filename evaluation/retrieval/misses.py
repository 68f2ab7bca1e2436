"""Misses: questions without a relevant document among the first ten, and what came instead."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.base import Value
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import DEPTH, HIT_DEPTH
from sluice.evaluation.retrieval.ranking import Ranked

SHOWN = 5
"""Results reported for each missed question."""
SHOWN_CHARACTERS = 160


class CameInstead(Value):
    """One of the first documents that were found, none of which was relevant."""

    rank: int
    name: str
    title: str | None
    text: str


class Miss(Value):
    """A question that was missed: the rank of each relevant document (None: not among the first 100)."""

    id: str
    query: str
    relevant: dict[str, int | None]
    instead: tuple[CameInstead, ...]


def find_miss(case: Case, order: Sequence[Ranked]) -> Miss | None:
    """The miss, if none of the first ten in order is relevant."""
    if any(one.name in case.answers for one in order[:HIT_DEPTH]):
        return None
    ranks = {one.name: rank for rank, one in enumerate(order[:DEPTH], start=1)}
    return Miss(
        id=case.id,
        query=case.query,
        relevant={name: ranks.get(name) for name in sorted(case.answers)},
        instead=tuple(_came_instead(rank, one) for rank, one in enumerate(order[:SHOWN], start=1)),
    )


def _came_instead(rank: int, one: Ranked) -> CameInstead:
    text = " ".join(one.chunk.text.split())[:SHOWN_CHARACTERS]
    return CameInstead(rank=rank, name=one.name, title=one.chunk.title, text=text)
