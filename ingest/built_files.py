"""Files that are built once from an installed package's data, kept beside a manifest of hashes, and verified.

Any number of processes may request them at once: one builds, the others wait for it. A file that no longer matches
its hash is built again; all files are when their sources have changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from filelock import FileLock

from sluice.disk.durable import replace_file, sha256_file

_MANIFEST, _LOCK = "manifest.json", "build.lock"


def ensure_files(folder: Path, built_from: Mapping[str, object], build: Callable[[], Mapping[str, bytes]]) -> None:
    """Ensure that `folder` holds the files of `build`, unchanged since they were built.

    `built_from` holds all inputs that they depend on, as JSON values. Raises OSError if they cannot be written,
    and whatever `build` raises.
    """
    if _is_intact(folder, built_from):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / _LOCK):
        if not _is_intact(folder, built_from):
            _write(folder, built_from, build())


def _is_intact(folder: Path, built_from: Mapping[str, object]) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        if not isinstance(manifest, dict) or any(manifest.get(key) != value for key, value in built_from.items()):
            return False
        return all(sha256_file(folder / name) == sha256 for name, sha256 in manifest["sha256"].items())
    except (FileNotFoundError, AttributeError, ValueError, KeyError, TypeError):
        return False


def _write(folder: Path, built_from: Mapping[str, object], files: Mapping[str, bytes]) -> None:
    """Write the files and, last, the manifest that vouches for them."""
    for name, content in files.items():
        replace_file(folder / name, content, 0o600)
    manifest = {**built_from, "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}}
    replace_file(folder / _MANIFEST, json.dumps(manifest, indent=2).encode(), 0o600)
