"""A generation opened for reading: its segments with their dead masked, and its term index."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from sluice.contracts.errors import Corrupted, Unavailable
from sluice.disk.durable import is_shortage
from sluice.index.disk.locks import Pin
from sluice.index.generations.manifest import MANIFEST, Manifest, SegmentEntry
from sluice.index.generations.view import Coverage, Part, View
from sluice.index.segments.segment_file import StoredSegment
from sluice.index.terms.tantivy_index import TermIndex


class OpenGeneration(View):
    """A generation as a view of the corpus.

    Until it is closed, its folder is pinned against collection. `known` are segments that are open already. Raises
    `Corrupted` when it does not open, and `Unavailable` where the machine lacks memory, file handles or disk for it.
    """

    def __init__(self, folder: Path, manifest: Manifest, known: dict[str, StoredSegment] | None = None) -> None:
        self._pin = Pin(folder / MANIFEST)
        self.manifest = manifest
        try:
            parts = [_open_part(folder, entry, known or {}) for entry in manifest.segments]
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            if is_shortage(error):
                raise Unavailable(f"generation {folder.name} cannot be opened now: {error}") from error
            raise Corrupted(f"generation {folder.name} does not open: {error}") from error
        coverage = Coverage(
            corpus=manifest.corpus,
            generation=folder.name,
            journal_offset=manifest.journal_offset,
            document_count=manifest.document_count,
            chunk_count=manifest.chunk_count,
            model_fingerprint=manifest.model_fingerprint,
            dimension=manifest.dimension,
        )
        super().__init__(coverage, parts, TermIndex(folder / "terms"))

    @cached_property
    def segments(self) -> dict[str, StoredSegment]:
        """The opened segments by name, for the next generation to share."""
        return {part.segment.name: part.segment for part in self.parts if isinstance(part.segment, StoredSegment)}

    def close(self) -> None:
        """Unpin the folder, so that it can be collected. No search may be using the generation."""
        self._pin.release()


def read_dead(folder: Path, entry: SegmentEntry) -> frozenset[int]:
    """Read which documents of a segment are dead, by their position."""
    if entry.dead_file is None:
        return frozenset()
    return frozenset(np.load(folder / "segments" / entry.dead_file, allow_pickle=False).tolist())


def _open_part(folder: Path, entry: SegmentEntry, known: dict[str, StoredSegment]) -> Part:
    segment = known.get(entry.name) or StoredSegment(folder / "segments", entry.name)
    if len(segment.numbers) != entry.chunk_count or segment.document_count != entry.document_count:
        raise ValueError(f"segment {entry.name} has other counts than the manifest")
    dead = read_dead(folder, entry)
    return Part(segment, dead, segment.alive(sorted(dead)))
