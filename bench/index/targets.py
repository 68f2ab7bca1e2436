"""What each figure should be, and the table that says whether it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure, itself inside."""

    bound: float
    is_upper: bool

    def is_met(self, value: float) -> bool:
        """Whether the value is within the bound; a figure that is no number never is."""
        return value <= self.bound if self.is_upper else value >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.is_upper else '≥'} {self.bound:,g}"


def at_most(bound: float) -> Target:
    """An upper bound."""
    return Target(bound, is_upper=True)


def at_least(bound: float) -> Target:
    """A lower bound."""
    return Target(bound, is_upper=False)


TARGETS = {
    "hybrid, sluice : better of txtai and lancedb": at_most(0.1),
    "hybrid : (vector + bm25) of sluice": at_most(1.5),
    "recall@10: sluice": at_least(0.99),
    "ingest, sluice : txtai": at_least(8),
    "ingest, sluice : lancedb": at_least(15),
    "ingest, sluice : chroma": at_least(15),
    "+10 found by terms, sluice : lancedb": at_most(0.7),
    "+10 found by terms, sluice, published : lancedb": at_most(0.7),
    "+10 found by hybrid, sluice : lancedb": at_most(0.7),
    "+10 found by hybrid, sluice, published : lancedb": at_most(0.7),
    "+10 found by terms, sluice : sqlite": at_most(0.6),
    "+10 found by terms, sluice, published : sqlite": at_most(0.6),
    "+10 found by hybrid, sluice : sqlite": at_most(0.6),
    "+10 found by hybrid, sluice, published : sqlite": at_most(0.6),
    "bm25 grows as N^": at_most(0.5),
    "vector grows as N^": at_most(0.5),
    "hybrid grows as N^": at_most(0.5),
    "ingest per chunk, ± of its middle": at_most(0.2),
    "1 % snapshot : full, time at 1,000,000": at_most(0.05),
    "1 % snapshot : full, bytes at 1,000,000": at_most(0.05),
    "open, ms at 1,000,000": at_most(20),
    "open, ms at 100,000": at_most(20),
    "reloads": at_least(200),
    "failed searches": at_most(0),
    "mixed chunks": at_most(0),
    "reloading : steady, p99": at_most(2),
    "memory drift, either way": at_most(0.05),
}
"""For 100,000 chunks where a figure names no size."""


def table(figures: Mapping[str, float]) -> Iterator[str]:
    """A line for each figure: its value, its target where it has one, and whether that is met."""
    yield f"{'measure':<52} {'value':>12}   {'target':<10} met"
    for name, value in figures.items():
        target = TARGETS.get(name)
        verdict = f"{target!s:<10} {'yes' if target.is_met(value) else 'NO'}" if target else ""
        yield f"{name:<52} {_shown(value):>12}   {verdict}".rstrip()


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 or value == int(value) else f"{value:,.3f}"
