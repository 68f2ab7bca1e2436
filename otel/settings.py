"""Settings of logs, traces and metrics."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class TelemetrySettings(BaseModel):
    """Destinations of telemetry. Spans are always kept in the local store too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    otlp_endpoint: str | None = None
    """Base URL of an OTLP/HTTP collector, for instance http://localhost:4318."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    metrics_address: Annotated[str | None, Field(pattern=r"^[^\s:]+:\d{1,5}$")] = None
    """Address and port where a worker process serves its own metrics, as 127.0.0.1:9464; a container that Prometheus
    scrapes needs 0.0.0.0:9464. Not set: not at all, as the HTTP API serves everyone's."""
