"""Where a piece of source code may be cut: between statements, members and arguments, as its tree has them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


_MOST_DEPTH = 200
"""Deeper down no line of code begins what a person wrote as a part of its own."""


def cut_rows(node: Node, first: int, last: int, is_small: Callable[[int, int], bool], depth: int = 0) -> Iterator[int]:
    """Rows from `first` to `last` at which a part of the code in them begins, in order; some come twice.

    `is_small(first, last)` says whether the rows between two, both included, fit. Neighbours that fit together are one
    part; what does not fit by itself is split at its own parts, down to single rows.
    """
    children = node.children
    begin: int | None = None
    for place in range(bisect_left(children, first, key=lambda child: child.end_point.row), len(children)):
        child = children[place]
        start, end = max(first, child.start_point.row), min(last, child.end_point.row)
        if start > last:
            return
        if begin is not None and is_small(begin, end):
            continue
        begin = start
        yield begin
        if start < end and not is_small(start, end):
            begin = None
            if depth < _MOST_DEPTH:
                yield from cut_rows(child, start, end, is_small, depth + 1)
