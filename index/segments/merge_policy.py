"""Chooses segments to merge: few segments, and few rewrites of each chunk.

Sizes fall into levels, each `factor` times the one before. `factor` neighbours, of which all but one are of the highest
level among them, become one segment (as Lucene's LogMergePolicy has it). So each chunk is written again about once a
level, log(N / smallest) / log(factor) times in all, and there are some `factor - 1` segments a level. Only neighbours
are merged: chunk numbers must go on rising from segment to segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_SMALLEST_CHUNKS = 64
"""Segments of up to this many chunks form one level: a single document or a small batch."""
_MOST_DEAD_SHARE = 0.5
"""Share of dead documents above which a segment is rewritten without them."""


def select_merge(live: Sequence[int], dead_shares: Sequence[float], factor: int, most: int) -> range | None:
    """Select the neighbouring segments to merge next; None where no merge is due.

    `live` are the live chunks of each segment, oldest first, `dead_shares` the share of its documents
    that are dead. Above `most` segments the cheapest neighbours are merged whatever their level.
    """
    for position, share in enumerate(dead_shares):
        if share > _MOST_DEAD_SHARE:
            return range(position, position + 1)
    levels = [_level(chunks, factor) for chunks in live]
    for first in range(len(levels) - factor, -1, -1):
        window = levels[first : first + factor]
        if window.count(max(window)) >= max(2, factor - 1):
            return range(first, first + factor)
    if len(live) > most:
        width = len(live) - most + 1
        first = min(range(len(live) - width + 1), key=lambda start: sum(live[start : start + width]))
        return range(first, first + width)
    return None


def _level(chunks: int, factor: int) -> int:
    return max(0, math.ceil(math.log(max(chunks, 1) / _SMALLEST_CHUNKS, factor)))
