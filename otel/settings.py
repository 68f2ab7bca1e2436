"""Settings of logs, traces and metrics, and the variables by which libraries take theirs.

ONNX Runtime (1.31 and later, on Linux too) writes a device identifier and a database below the home directory when it
is imported, and uploads events over HTTPS past the egress proxy. It reads its switch from the environment, once, as
prometheus_client does its directory: so this module imports none of these libraries.
"""

from __future__ import annotations

import os
from pathlib import Path
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


ONNX_RUNTIME_SWITCH = "ORT_DISABLE_TELEMETRY"


def disable_library_telemetry() -> None:
    """Switch off telemetry. Call before the first import of ONNX Runtime; child processes inherit the switch."""
    os.environ[ONNX_RUNTIME_SWITCH] = "1"


def fresh_metrics_dir(path: Path) -> dict[str, str]:
    """Make `path` an empty metrics directory; return the variables by which a process shares its metrics there.

    Call it once per instance, before its first process starts: the figures of an earlier life are removed.
    """
    path.mkdir(parents=True, exist_ok=True)
    for old in (*path.glob("*.db"), *path.glob("exemplars_*")):
        old.unlink()
    return {"PROMETHEUS_MULTIPROC_DIR": str(path)}
