"""Merging: few segments, and nothing written often."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from sluice.index.segments.merge_policy import select_merge


def _settled(sizes: list[int], factor: int, most: int) -> tuple[list[int], int]:
    """The sizes once nothing is due, and how many chunks were written again."""
    written = 0
    while (due := select_merge(sizes, [0.0] * len(sizes), factor, most)) is not None:
        total = sum(sizes[due.start : due.stop])
        sizes[due.start : due.stop] = [total]
        written += total
    return sizes, written


def test_each_chunk_is_written_again_about_once_a_level_however_many_come() -> None:
    sizes: list[int] = []
    written = added = 0
    choice = random.Random(3)
    for _ in range(4_000):
        size = choice.randint(1, 200)
        added += size
        sizes, again = _settled([*sizes, size], factor=4, most=24)
        written += again
    assert len(sizes) <= 24
    assert written / added < 8  # log4(400,000 / 64) is 6.3


def test_a_segment_that_is_mostly_dead_is_written_anew_alone() -> None:
    assert select_merge([500, 400, 300], [0.1, 0.6, 0.0], 4, 24) == range(1, 2)


def test_above_the_limit_the_cheapest_neighbours_are_merged_whatever_their_level() -> None:
    assert select_merge([100_000, 5_000, 64, 20_000], [0.0] * 4, factor=4, most=3) == range(1, 3)


def test_a_large_segment_is_not_written_again_for_a_few_small_ones() -> None:
    assert select_merge([100_000, 10, 10, 10], [0.0] * 4, factor=4, most=24) is None


@given(sizes=st.lists(st.integers(0, 10**6), max_size=40), factor=st.integers(2, 8), most=st.integers(1, 30))
def test_merging_ends_and_leaves_no_more_than_the_limit(sizes: list[int], factor: int, most: int) -> None:
    total = sum(sizes)
    settled, _ = _settled(sizes, factor, most)
    assert sum(settled) == total
    assert len(settled) <= most
