"""Where an embedded memory keeps what it can make again: the index beside the journals, the model in the user's cache.

.ralph/
  rag_config.json
  db/memory/auth.jsonl            the journals, which are to be kept
  db/index/.gitignore             everything here may be removed at any time
  db/index/<model>/<collection>/  a feature as it is searched, for one embedding model
  db/index/<model>/vectors.sqlite the vectors of texts that were embedded
"""

from __future__ import annotations

import os
from pathlib import Path

from sluice.contracts.document import sha256_text

PRIVATE_FOLDER = 0o700
"""What is remembered of a project is its user's alone."""


def index_folder(memory_folder: Path) -> Path:
    """The folder of the index: beside `db/memory`, else in the folder of the journals."""
    is_usual = memory_folder.name == "memory" and memory_folder.parent.name == "db"
    return memory_folder.parent / "index" if is_usual else memory_folder / "index"


def folder_of_model(index: Path, fingerprint: str) -> Path:
    """Where what was embedded by one model lies: programs with different models never mix their vectors."""
    return index / sha256_text(fingerprint)[:12]


def make_index_folder(folder: Path) -> None:
    """Make the folder of the index for its user alone, and tell git to leave it out."""
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")
        ignored.chmod(0o600)


def usual_model_folder() -> Path:
    """Where the local model is kept: `sluice/models` in the user's cache (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return cache / "sluice" / "models"
