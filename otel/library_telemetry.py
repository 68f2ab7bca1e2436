"""Switches off what libraries report of their use: nothing leaves an instance but what its operator asked for.

ONNX Runtime (1.31 and later, on Linux too) writes a device identifier and a database below the home directory when it
is imported, and uploads events over HTTPS past the egress proxy. It reads its switch from the environment, once.
"""

from __future__ import annotations

import os

ONNX_RUNTIME_SWITCH = "ORT_DISABLE_TELEMETRY"


def disable_library_telemetry() -> None:
    """Call it before the first import of ONNX Runtime; processes started from this one inherit the switch."""
    os.environ[ONNX_RUNTIME_SWITCH] = "1"
