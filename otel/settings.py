"""Settings of logs, traces and metrics."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class TelemetrySettings(BaseModel):
    """Where telemetry goes. Spans are always kept in the local store too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    otlp_endpoint: str | None = None
    """Base URL of an OTLP/HTTP collector, for instance http://localhost:4318."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    span_retention_hours: Annotated[float, Field(gt=0)] = 72.0
    """How long the local span store keeps a span."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Where a worker process serves its own metrics; 0 for not at all (the HTTP API serves everyone's)."""
    metrics_host: str = "127.0.0.1"
    """The address it serves them on; a container that Prometheus scrapes needs 0.0.0.0."""
