"""Where the repository is, and the folders that tests read."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("SLUICE_TEST_MODELS", REPOSITORY / ".cache" / "models"))
"""The embedding model's files: made at the first use, and shared by all tests."""
IMPORT_PATH = os.pathsep.join(str(REPOSITORY / folder) for folder in ("src", "clients/python", ""))
"""`PYTHONPATH` of a child process: it runs this checkout, whatever is installed."""
GOLDEN = REPOSITORY / "tests" / "golden"
DATA = REPOSITORY.parent / "shared" / "data"
"""Public test sets. They lie beside the repository, where they lie at all: tests that need them are skipped else."""
