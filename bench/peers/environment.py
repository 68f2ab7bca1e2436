"""The peers' own environment, made where it is missing, and what keeps every contestant to one thread."""

from __future__ import annotations

from pathlib import Path

from bench.environments import python_with
from tests.support.repository import REPOSITORY

ENVIRONMENT = REPOSITORY / ".cache" / "peers-index"
PACKAGES = (
    "torch==2.13.0",
    "txtai==9.14.0",
    "lancedb==0.40.0",
    "chromadb==1.5.9",
    "sqlite-vec==0.1.9",
    "apsw==3.54.1.0",
)
"""torch goes first: txtai asks for any, and the newest may bring gigabytes for graphics cards."""
INSTALL_SECONDS = 1_800
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
    "LANCE_CPU_THREADS": "1",
    "LANCEDB_LOG": "error",
    "TOKENIZERS_PARALLELISM": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
}
"""LanceDB hangs with one thread for input and output, so that number is its own; all share one processor anyway."""


def peers_python() -> Path:
    """The interpreter that has the peers, installed at first use (minutes)."""
    return python_with(ENVIRONMENT, PACKAGES[:1], PACKAGES[1:], seconds=INSTALL_SECONDS)
