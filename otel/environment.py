"""Sets variables that libraries read from the environment at import, so this module imports none of them.

ONNX Runtime (1.31 and later, on Linux too) writes a device identifier and a database below the home directory when it
is imported, and uploads events over HTTPS past the egress proxy. It reads its switch from the environment, once.
"""

from __future__ import annotations

import os
from pathlib import Path

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
