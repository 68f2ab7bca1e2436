"""Journal compaction: old segments drop the versions that newer ones replaced, and keep what a rebuild needs.

Segments that every generation on disk covers are rewritten as one file of the live versions,

    FIRST-LAST.kept     a pin of the model, the frames with their old offsets, an end mark with their count

which is put in place by a rename; then the segments are removed. Killed at any point, the journal reads the same:
segments that a compacted file covers are ignored. A removal is dropped once no version before it is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluice.disk.durable import fsync_path
from sluice.index.journal.files import JournalFile, encode_frame, list_files, read_file
from sluice.index.journal.records import Kind, encode_end, encode_pin

LEAST_DEAD_SHARE = 0.5
"""Share of dead records from which rewriting pays: it then writes at most one byte for each byte that it frees."""


def compact(
    folder: Path,
    horizon: int,
    live_offsets: NDArray[np.uint64],
    model: tuple[str, int] | None,
    swapping: Callable[[], AbstractContextManager[object]],
    least_dead_share: float = LEAST_DEAD_SHARE,
) -> bool:
    """Rewrite the segments up to the offset `horizon`; False where nothing or less than `least_dead_share` is dead.

    `live_offsets` are the offsets of the versions that are live at `horizon` or at any later offset. The context
    `swapping` is held while files are put in place and removed. Raises `OSError` when the disk refuses, and then
    nothing has changed; `Corrupted` when a frame is damaged.
    """
    due = _select_files(list_files(folder), horizon)
    if not due or not _is_worthwhile(due, live_offsets, least_dead_share):
        return False
    live = np.sort(live_offsets)
    target = folder / f"{due[0].first_offset:020d}-{due[-1].last_offset:020d}.kept"
    temporary = target.with_suffix(".tmp")
    try:
        _rewrite(temporary, due, live, model)
        with swapping():
            temporary.rename(target)
            fsync_path(folder)
            for file in due:
                if file.path != target:  # a compacted file rewritten alone has the same name
                    file.path.unlink()
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _select_files(files: Sequence[JournalFile], horizon: int) -> list[JournalFile]:
    """Return the first files, those that end at or before the horizon; never the last, which is being written."""
    return list(takewhile(lambda file: file.last_offset <= horizon, files[:-1]))


def _is_worthwhile(due: Sequence[JournalFile], live_offsets: NDArray[np.uint64], least_dead_share: float) -> bool:
    """Return whether there are dead records in the files, and whether they are at least that share of all."""
    live = int(np.count_nonzero(live_offsets <= due[-1].last_offset))
    held = sum(file.record_count for file in due)
    return held > live and 1 - live / held >= least_dead_share


def _rewrite(target: Path, due: Sequence[JournalFile], live: NDArray[np.uint64], model: tuple[str, int] | None) -> None:
    """Write the live frames to a new file and flush it. `live` holds the live offsets, ascending."""
    kept = 0
    with target.open("wb") as output:
        if model is not None:
            output.write(encode_frame(0, Kind.PIN, encode_pin(*model)))
        for file in due:
            for frame in read_file(file):
                place = int(np.searchsorted(live, np.uint64(frame.offset)))
                if place < len(live) and int(live[place]) == frame.offset:
                    output.write(encode_frame(frame.offset, Kind(frame.kind), frame.payload))
                    kept += 1
        output.write(encode_frame(due[-1].last_offset, Kind.END, encode_end(kept)))
        output.flush()
        os.fsync(output.fileno())
