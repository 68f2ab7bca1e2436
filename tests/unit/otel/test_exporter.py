"""Retention of the local span store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sluice.otel.exporter import PRUNE_EVERY_SECONDS, StoreExporter
from sluice.otel.spans import SpanStore
from tests.unit.otel.samples import SPAN


def test_spans_older_than_the_retention_are_removed_now_and_then(tmp_path: Path) -> None:
    clock = [10_000.0]
    store = SpanStore.in_dir(tmp_path)
    exporter = StoreExporter(store, retention_hours=1, now=lambda: clock[0])
    exporter.export([])
    store.write([replace(SPAN, ended_ns=int(10_000e9))])
    clock[0] += PRUNE_EVERY_SECONDS
    exporter.export([])
    assert len(store.of_run("run_1")) == 1
    clock[0] += 3_600
    exporter.export([])
    assert store.of_run("run_1") == []
    exporter.shutdown()
