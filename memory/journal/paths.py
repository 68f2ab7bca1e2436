"""Where the journals of a project lie: one file for each feature, under one folder."""

from __future__ import annotations

from pathlib import Path

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.names import FEATURE_NAME, FEATURE_REMEDY

DEFAULT_FOLDER = Path(".ralph/db/memory")
"""In a repository, where no other folder is given."""


def journal_path(folder: Path, feature: str) -> Path:
    """The journal of a feature.

    Raises:
        InvalidInput: the name is none of a feature.
    """
    if not FEATURE_NAME.fullmatch(feature):
        raise InvalidInput("feature", f"{feature!r} is no name of a feature", FEATURE_REMEDY)
    return folder / f"{feature}.jsonl"
