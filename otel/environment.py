"""Sets what libraries read from the environment when they are imported, so this module imports none of them.

ONNX Runtime (1.31 and later, on Linux too) writes a device identifier and a database below the home directory when it
is imported, and uploads events over HTTPS past the egress proxy. It reads its switch from the environment, once.
"""

from __future__ import annotations

import os
from pathlib import Path

ONNX_RUNTIME_SWITCH = "ORT_DISABLE_TELEMETRY"


def disable_library_telemetry() -> None:
    """Call it before the first import of ONNX Runtime; processes started from this one inherit the switch."""
    os.environ[ONNX_RUNTIME_SWITCH] = "1"


def fresh_metrics_dir(path: Path) -> dict[str, str]:
    """Make `path` an empty metrics directory; the variables that a process needs to share its metrics there.

    Call it once per instance, before its first process starts: the figures of an earlier life are removed.
    """
    path.mkdir(parents=True, exist_ok=True)
    for old in (*path.glob("*.db"), *path.glob("exemplars_*")):
        old.unlink()
    return {"PROMETHEUS_MULTIPROC_DIR": str(path)}
