"""Journal compaction: old segments lose the versions that newer ones replaced, and keep what a rebuild needs.

Segments that every generation on disk covers are rewritten as one file of the living versions,

    FIRST-LAST.kept     a pin of the model, the frames with their old offsets, an end mark with their count

put in place by a rename, after which the segments go. Killed at any point, the journal reads the same:
segments that a kept file covers are passed over. A removal needs no record once nothing before it is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from index.disk.durable import fsync_path
from index.journal.journal import Piece, encode_frame, frames_of, pieces
from index.journal.records import Kind, encode_end, encode_pin

LEAST_DEAD_SHARE = 0.5
"""Share of replaced records from which rewriting pays: each byte is then written again once for each it frees."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    kept: int
    dropped: int
    freed_bytes: int


def compact(
    folder: Path,
    horizon: int,
    living_offsets: NDArray[np.uint64],
    model: tuple[str, int] | None,
    swapping: Callable[[], AbstractContextManager[object]],
) -> Compacted | None:
    """Rewrite the segments up to `horizon` if that pays; None where it does not.

    `living_offsets` are those of the versions that are alive at `horizon` or at any later offset. `swapping`
    is held while files are put in place and removed. Raises `OSError` when the disk refuses (nothing has
    changed then) and `Corrupted` when a frame is damaged.
    """
    due = _due(pieces(folder), horizon)
    if not due or not _pays(due, living_offsets):
        return None
    living = np.sort(living_offsets)
    target = folder / f"{due[0].first_offset:020d}-{due[-1].last_offset:020d}.kept"
    temporary = target.with_suffix(".tmp")
    size_before = sum(piece.path.stat().st_size for piece in due)
    try:
        kept, dropped = _rewrite(temporary, due, living, model)
        with swapping():
            temporary.rename(target)
            fsync_path(folder)
            for piece in due:
                if piece.path != target:  # a kept file rewritten alone has its own name
                    piece.path.unlink()
    finally:
        temporary.unlink(missing_ok=True)
    return Compacted(kept, dropped, size_before - target.stat().st_size)


def _due(all_pieces: Sequence[Piece], horizon: int) -> list[Piece]:
    """The pieces from the first on that end at or before the horizon; never the last, which is written to."""
    due: list[Piece] = []
    for piece in all_pieces[:-1]:
        if piece.last_offset > horizon:
            break
        due.append(piece)
    return due


def _pays(due: Sequence[Piece], living_offsets: NDArray[np.uint64]) -> bool:
    """Whether enough of what the segments hold is dead. A kept file alone is as small as it was made, or smaller."""
    living = int(np.count_nonzero(living_offsets <= due[-1].last_offset))
    held = sum(piece.record_count for piece in due)
    return held > 0 and 1 - living / held >= LEAST_DEAD_SHARE


def _rewrite(
    target: Path, due: Sequence[Piece], living: NDArray[np.uint64], model: tuple[str, int] | None
) -> tuple[int, int]:
    """Write the living frames to a new file, flushed; returns how many were kept and how many dropped."""
    kept = dropped = 0
    with target.open("wb") as file:
        if model is not None:
            file.write(encode_frame(0, Kind.PIN, encode_pin(*model)))
        for piece in due:
            for frame in frames_of(piece):
                place = int(np.searchsorted(living, np.uint64(frame.offset)))
                if place < len(living) and int(living[place]) == frame.offset:
                    file.write(encode_frame(frame.offset, Kind(frame.kind), frame.payload))
                    kept += 1
                else:
                    dropped += 1
        file.write(encode_frame(due[-1].last_offset, Kind.END, encode_end(kept)))
        file.flush()
        os.fsync(file.fileno())
    return kept, dropped
