"""Thresholds for writing and merging segments. The product uses constants; tests choose others."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.index.journal.journal import SEGMENT_BYTES
from sluice.index.settings import IndexSettings


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """The thresholds of an `IndexWriter`."""

    keep_generations: int = IndexSettings().keep_generations
    """Generations kept for rollback; one that a reader has pinned is kept beyond this number."""
    merge_factor: int = 4
    """Neighbouring segments of about one size that become one: each chunk is written again once for each power of
    this number, some seven times until there are a million, and each segment costs a query about 20 µs."""
    max_segments: int = 24
    """Segments above which neighbours are merged whatever their size."""
    background_merge_chunks: int = 5_000
    """Merges of more chunks than this run in a background thread, and publishing does not wait for them: five thousand
    take about 50 ms."""
    flush_chunks: int = 50_000
    """Chunks held in memory before they become a segment; at 384 dimensions 77 MB of vectors, and the texts."""
    journal_segment_bytes: int = SEGMENT_BYTES
    """Size at which the journal starts a new segment."""


USUAL_POLICY = WritePolicy()
