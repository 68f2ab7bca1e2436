"""Of modules whose paths end alike, those that are meant where a file names them: the nearest."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sluice.graph.generations.found import Found


def nearest(found: Sequence[tuple[Found, str]], folder: str, key: str) -> tuple[Found, ...]:
    """Of modules found by the end of their path, those that share most of the referring file's path."""
    if not found or not found[0][1]:
        return tuple(entry for entry, _ in found)
    top = key.partition(":")[2].partition(".")[0]
    if top in sys.stdlib_module_names:
        found = [(entry, root) for entry, root in found if _holds(root, folder)]
    shared = [_shared(root, folder) for _, root in found]
    most = max(shared, default=0)
    return tuple(dict.fromkeys(entry for (entry, _), share in zip(found, shared, strict=True) if share == most))


def _holds(root: str, folder: str) -> bool:
    return not root or folder == root or folder.startswith(f"{root}/")


def _shared(one: str, other: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for mine, theirs in zip(one.split("/"), other.split("/"), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def folder_of(path: str | None) -> str:
    """The folder that a file lies in; empty for none."""
    return path.rpartition("/")[0] if path else ""
