"""Segments as the writer works on them, and the merge of several into one.

A merge may run in a background thread while documents of its sources are removed: the caller marks those as dead in
the merged segment afterwards (`sources`, `dead_before`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.index.generations.manifest import FileEntry
from sluice.index.generations.publish import flush_file
from sluice.index.segments.segment_content import join_contents
from sluice.index.segments.segment_file import SUFFIX, StoredSegment, write_segment


@dataclass(slots=True, eq=False)
class WorkingSetSegment:
    """A segment, its dead documents, and the file that lists them (None: not written yet)."""

    segment: StoredSegment
    dead: set[int] = field(default_factory=set)
    dead_file: str | None = None

    @property
    def live_documents(self) -> int:
        """Number of live documents."""
        return self.segment.document_count - len(self.dead)

    @property
    def live_chunks(self) -> int:
        """Number of live chunks."""
        return len(self.segment.numbers) - sum(len(self.segment.rows_of(document)) for document in self.dead)


class SegmentMerge:
    """A merge of neighbouring segments into one, without the documents that were dead when it began."""

    def __init__(self, folder: Path, name: str, sources: Sequence[WorkingSetSegment]) -> None:
        self.sources = list(sources)
        self.dead_before = [frozenset(owner.dead) for owner in sources]
        self.chunk_count = sum(owner.live_chunks for owner in sources)
        self.entry: FileEntry | None = None
        """The new file's, once it is flushed and hashed in the background; None where publishing does that."""
        self._folder = folder
        self._name = name
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether a background merge has ended, successfully or not."""
        return self._thread is not None and not self._thread.is_alive()

    def start(self) -> None:
        """Merge in a background thread."""
        self._thread = threading.Thread(target=self._run_in_background, name="merge-segments", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for a background merge to end."""
        if self._thread is not None:
            self._thread.join()

    def run(self) -> None:
        """Write the merged segment."""
        pairs = zip(self.sources, self.dead_before, strict=True)
        content = join_contents([owner.segment.content(dead) for owner, dead in pairs])
        write_segment(self._folder, self._name, content)

    def result(self, folder: Path) -> StoredSegment:
        """Open the merged segment. Raises the error that kept it from being written."""
        if self._failure is not None:
            raise self._failure
        return StoredSegment(folder, self._name)

    def _run_in_background(self) -> None:
        try:
            self.run()
            self.entry = flush_file(self._folder / f"{self._name}.{SUFFIX}")
        except BaseException as failure:  # noqa: BLE001 - the thread that asks for the result is told
            self._failure = failure
