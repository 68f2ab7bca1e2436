"""Divides a sequence into batches of bounded count and size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def in_batches(
    items: Iterable[Item], size_of: Callable[[Item], int], *, most_items: float, most_size: int
) -> Iterator[list[Item]]:
    """Yield the items in order, as many at a time as keep within both limits; a larger item comes alone."""
    batch: list[Item] = []
    size = 0
    for item in items:
        if batch and (len(batch) >= most_items or size + size_of(item) > most_size):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of(item)
    if batch:
        yield batch
