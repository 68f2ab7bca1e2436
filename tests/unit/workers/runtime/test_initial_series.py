"""Series that alerts divide by are there before anything has happened."""

from __future__ import annotations

import pytest

from sluice.contracts.event import QUEUES, Queue
from sluice.otel import metrics
from sluice.workers.runtime.observers import begin_series
from sluice.workers.settings import Settings

SETTINGS = Settings.model_validate({"search": {"providers": ["ddgs"]}})


@pytest.mark.parametrize(
    ("stage", "series"),
    [
        ("gate", 'sluice_gate_decision_total{gate_model_version="heuristic",plan_type="full_loop"'),
        ("search", 'sluice_search_calls_total{outcome="failed",provider="ddgs"}'),
        ("crawl", 'sluice_crawl_pages_total{outcome="missed",rendered="false"}'),
        ("embed", 'sluice_token_spend_total{spent_on="embedding"}'),
        ("index", 'sluice_snapshot_pushes_total{outcome="failed"}'),
        ("query", 'sluice_retrieval_gates_total{gate="gate-p-retrieval-poisoning",outcome="failed"}'),
    ],
)
def test_a_stage_shows_its_series_from_the_start(stage: Queue, series: str) -> None:
    begin_series(stage, SETTINGS)
    assert _has(series)


def test_every_stage_shows_that_it_was_never_paused() -> None:
    for stage in QUEUES:
        begin_series(stage, SETTINGS)
        assert _has(f'sluice_stage_pauses_total{{stage="{stage}"}}')


def _has(series: str) -> bool:
    shown = metrics.negotiate_metrics()[0].decode().replace("{", "{,").replace("}", ",}")
    name, _, labels = series.rstrip("}").partition("{")
    wanted = [f",{label}," for label in labels.split(",")]
    lines = [line for line in shown.splitlines() if line.startswith(f"{name}{{")]
    return any(all(label in line for label in wanted) for line in lines)
