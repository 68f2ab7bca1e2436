"""In which order bases of a class are asked, and which of several modules is the nearest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from sluice.graph.generations.definitions import Found


def linearise(name: str, bases: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """The class and all that it inherits from, nearest first: C3 (Barrett et al., 1996), as Python does it.

    Where C3 finds no order, or a class inherits from itself, it is breadth first, each class once.
    """
    order = _merge_c3(name, bases, (), {})
    return tuple(order) if order is not None else _breadth_first(name, bases)


def _merge_c3(
    name: str, bases: Callable[[str], Sequence[str]], above: tuple[str, ...], merged_before: dict[str, list[str]]
) -> list[str] | None:
    if name in above or len(above) > _DEEPEST:
        return None
    if name in merged_before:
        return merged_before[name]
    direct = list(dict.fromkeys(bases(name)))
    queues: list[list[str]] = []
    for base in direct:
        order = _merge_c3(base, bases, (*above, name), merged_before)
        if order is None:
            return None
        queues.append(list(order))
    queues.append(direct)
    merged = [name]
    while queues := [queue for queue in queues if queue]:
        tails = {entry for queue in queues for entry in queue[1:]}
        chosen = next((queue[0] for queue in queues if queue[0] not in tails), None)
        if chosen is None:
            return None
        merged.append(chosen)
        queues = [queue[1:] if queue[0] == chosen else queue for queue in queues]
    merged_before[name] = merged
    return merged


def _breadth_first(name: str, bases: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    order = {name: None}
    queue = [name]
    for entry in queue:
        new = [base for base in dict.fromkeys(bases(entry)) if base not in order]
        order.update(dict.fromkeys(new))
        queue += new
    return tuple(order)


_DEEPEST = 100
"""Classes above each other; more are taken breadth first."""


def nearest(found: Sequence[tuple[Found, str]], folder: str, key: str) -> tuple[Found, ...]:
    """Of modules found by the end of their path, those that share most of the referring file's path."""
    if not found or not found[0][1]:
        return tuple(entry for entry, _ in found)
    top = key.partition(":")[2].partition(".")[0]
    if top in sys.stdlib_module_names:
        found = [(entry, root) for entry, root in found if _holds(root, folder)]
    shared = [_shared_folders(root, folder) for _, root in found]
    most = max(shared, default=0)
    return tuple(dict.fromkeys(entry for (entry, _), share in zip(found, shared, strict=True) if share == most))


def _holds(root: str, folder: str) -> bool:
    return not root or folder == root or folder.startswith(f"{root}/")


def _shared_folders(one: str, other: str) -> int:
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
