"""Telemetry that is started for one test and stopped after it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from sluice.otel.settings import TelemetrySettings
from sluice.otel.spans import SpanStore
from sluice.otel.start import shutdown, start


@pytest.fixture
def own_logging() -> Iterator[None]:
    """The logging set-up as it was before the test, whatever the test does to it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def store(tmp_path: Path, own_logging: None) -> Iterator[SpanStore]:
    """The span store of a process whose telemetry runs."""
    start("test", TelemetrySettings(), data_dir=tmp_path, instance="tests")
    reader = SpanStore.in_dir(tmp_path)
    yield reader
    shutdown()
    reader.close()
