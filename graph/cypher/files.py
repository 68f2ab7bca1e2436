"""Where the engine's file of a generation lies, and what stands beside it.

    graph-000000000012/cypher/cypher.lbug   the file, alone in its folder: the folder is the world of who reads it
    graph-000000000012/cypher.json          what it covers; written last, so that a file without it does not count

Neither is ever changed: the folder is written under another name and renamed.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

FOLDER = "cypher"
FILE = "cypher.lbug"
MANIFEST = "cypher.json"
TEMPORARY = ".cypher-"
SCHEMA_VERSION = 1
"""Raised when tables or properties change: files of another version do not count and are written anew."""
_GENERATION = re.compile(r"graph-\d{12}")


class CypherFile(NamedTuple):
    """An engine's file that may be read."""

    generation: str
    version: int
    """Changes of the corpus's graph that it covers."""
    folder: Path
    """Which holds the file and nothing else."""
    nodes: int
    edges: int
    seconds: float
    """How long it took to write."""
    written_at: float
    """Seconds since 1970."""


def file_of(generation: Path) -> CypherFile | None:
    """The file of one generation; None: it has none, or of another version of the schema."""
    try:
        manifest = json.loads((generation / MANIFEST).read_bytes())
        if manifest["schema_version"] != SCHEMA_VERSION or not (generation / FOLDER / FILE).is_file():
            return None
        return CypherFile(
            generation.name,
            manifest["version"],
            generation / FOLDER,
            manifest["nodes"],
            manifest["edges"],
            manifest["seconds"],
            (generation / MANIFEST).stat().st_mtime,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def newest_files(folder: Path) -> list[CypherFile]:
    """The files of a corpus, newest first; `folder` holds its generations."""
    try:
        names = sorted((entry for entry in folder.iterdir() if _GENERATION.fullmatch(entry.name)), reverse=True)
    except OSError:
        return []
    return [found for found in map(file_of, names) if found is not None]


def discard(generation: Path) -> None:
    """Throw away a generation's file; questions that have it open go on."""
    (generation / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(generation / FOLDER, ignore_errors=True)
    for left in generation.glob(f"{TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True)
