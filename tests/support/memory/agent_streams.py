"""Recorded outputs of agents, and their extraction at a fixed time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sluice.contracts.memory.api import IterationContext, StreamFormat
from sluice.memory.extraction.extract import extract
from sluice.memory.extraction.result import ExtractionResult
from tests.support.repository import REPOSITORY

STREAMS = REPOSITORY / "tests" / "golden" / "memory" / "streams"
NOW = datetime(2026, 2, 7, 14, 30, tzinfo=UTC)


def recorded(name: str) -> str:
    """A recorded output, as text."""
    return (STREAMS / name).read_bytes().decode("utf-8")


def extracted(
    data: object, format_name: StreamFormat = "auto", *, project: str = "/home/dev/shop", **context: Any
) -> ExtractionResult:
    """What is extracted from an output."""
    return extract(
        data, format=format_name, feature="cart", project_path=project, context=IterationContext(**context), now=NOW
    )
