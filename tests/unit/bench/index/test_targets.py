"""What the table promises: a figure beyond its target is not met, and none is met by being no number."""

from __future__ import annotations

import math

import pytest

from bench.index.targets import TARGETS, at_least, at_most, table


@pytest.mark.parametrize(
    ("target", "value", "is_met"),
    [
        (at_most(0.1), 0.1, True),
        (at_most(0.1), 0.11, False),
        (at_least(8), 8.0, True),
        (at_least(8), 7.9, False),
        (at_most(1), math.nan, False),
        (at_least(1), math.nan, False),
    ],
)
def test_a_bound_is_inside(target: object, value: float, is_met: bool) -> None:
    assert target.is_met(value) is is_met  # type: ignore[attr-defined]


def test_the_table_names_what_is_not_met() -> None:
    lines = list(table({"recall@10: sluice": 0.95, "reloads": 200.0, "hybrid p50, ms: txtai": 4.7}))
    assert lines[1].endswith("≥ 0.99     NO")
    assert lines[2].endswith("≥ 200      yes")
    assert lines[3].endswith("4.700")


def test_every_target_has_its_figure() -> None:
    """A renamed figure must not lose its target in silence."""
    from bench.index.against import CONTESTANTS, freshness_ratios, ingest_figures, search_ratios
    from bench.index.reloads import figures_of
    from bench.index.sweep import growth

    phase = {"searches": 1, "p50_ms": 1.0, "p99_ms": 1.0, "failures": [], "resident_bytes": [1] * 4}
    sizes = {size: dict.fromkeys(_SIZE_FIGURES, 1.0) for size in (100_000, 1_000_000)}
    once = {name: [{"wall_seconds": 1.0, "cpu_seconds": 1.0}] for name in CONTESTANTS}
    labels = (*CONTESTANTS, "sluice, published", "lancedb, files synced", "txtai, saved whole")
    names = {
        "recall@10: sluice",
        *ingest_figures(once, 1),
        *search_ratios({f"{way} p50, ms: {name}": 1.0 for way in ("hybrid", "vector", "bm25") for name in CONTESTANTS}),
        *freshness_ratios({f"+10 found by {way}, ms: {name}": 1.0 for way in ("terms", "hybrid") for name in labels}),
        *figures_of({"phases": {"steady": phase, "reloading": phase}, "seen": []}, []),
        *growth(sizes),
        *(f"{name} at {size:,}" for size, figures in sizes.items() for name in figures),
    }
    assert set(TARGETS) <= names


_SIZE_FIGURES = (
    "ingest, µs per chunk",
    "bm25 p50, ms",
    "vector p50, ms",
    "hybrid p50, ms",
    "open, ms",
    "1 % snapshot : full, time",
    "1 % snapshot : full, bytes",
)
