"""Which segments to merge, so that there are few of them and nothing is written often.

Sizes fall into levels, each `factor` times the one before. `factor` neighbours, of which all but one are of
the highest level among them, become one segment (as Lucene's LogMergePolicy has it). So each chunk is
written again about once a level, log(N / smallest) / log(factor) times in all, and there are some
`factor - 1` segments a level. Only neighbours are merged: chunk numbers must go on rising from segment to
segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_SMALLEST_CHUNKS = 64
"""Segments up to this size are of one level: what a single document or a small batch makes."""
_MOST_DEAD_SHARE = 0.5
"""Dead documents' share above which a segment is written again without them."""


def next_merge(living: Sequence[int], dead_shares: Sequence[float], factor: int, most: int) -> range | None:
    """The neighbouring segments to merge next, or None.

    `living` are the chunks alive in each segment, oldest first, `dead_shares` the share of its documents
    that are dead. Above `most` segments the cheapest neighbours are merged whatever their level.
    """
    for position, share in enumerate(dead_shares):
        if share > _MOST_DEAD_SHARE:
            return range(position, position + 1)
    levels = [_level(chunks, factor) for chunks in living]
    for first in range(len(levels) - factor, -1, -1):
        window = levels[first : first + factor]
        if window.count(max(window)) >= max(2, factor - 1):
            return range(first, first + factor)
    if len(living) > most:
        width = len(living) - most + 1
        first = min(range(len(living) - width + 1), key=lambda start: sum(living[start : start + width]))
        return range(first, first + width)
    return None


def _level(chunks: int, factor: int) -> int:
    return max(0, math.ceil(math.log(max(chunks, 1) / _SMALLEST_CHUNKS, factor)))
