"""What a stretch of a journal leaves standing, read while another process may append to it and compact it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contracts.document import ChunkedDocument
from contracts.errors import Corrupted
from index.journal.journal import Frame, pieces, read_journal
from index.journal.records import Upsert, decode_record

OPEN_END = (1 << 63) - 1
"""Beyond every offset: for who holds the writer's lock. Others may read what is durable, and no farther."""
_READ_AGAIN_SECONDS = 0.02
_READ_TRIES = 10


@dataclass(slots=True)
class LiveRecords:
    """What a stretch of a journal leaves: the latest offset and chunk count of what lives in it, and what is gone."""

    living: dict[str, tuple[int, int]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    until: int = 0

    @property
    def chunk_count(self) -> int:
        """Chunks of what lives."""
        return sum(chunk_count for _, chunk_count in self.living.values())


def is_compacted_beyond(folder: Path, offset: int) -> bool:
    """Whether records after the offset may be gone from the journal because later ones made up for them."""
    found = pieces(folder)
    return bool(found) and found[0].is_kept and found[0].last_offset > offset


def read_live_records(folder: Path, after: int, until: int) -> LiveRecords:
    """What the records after one offset up to another leave. Raises `Corrupted` for a damaged journal."""
    live = LiveRecords(until=after)
    for frame in _frames(folder, after, until):
        record = decode_record(frame.kind, frame.payload)
        live.until = frame.offset
        if isinstance(record, Upsert):
            name = record.document.document_id
            live.living[name] = (frame.offset, len(record.vectors))
            live.gone.discard(name)
        else:
            live.living.pop(record.document_id, None)
            live.gone.add(record.document_id)
    return live


def living_documents(folder: Path) -> Iterator[tuple[str, ChunkedDocument]]:
    """Every living document of a whole journal by id, in the order of its records."""
    return documents_of(folder, read_live_records(folder, 0, OPEN_END))


def documents_of(folder: Path, live: LiveRecords, after: int = 0) -> Iterator[tuple[str, ChunkedDocument]]:
    """The living documents by id; one that was replaced since `standing` was read may be missing."""
    offsets = {offset for offset, _ in live.living.values()}
    for frame in _frames(folder, after, live.until):
        if frame.offset in offsets:
            record = decode_record(frame.kind, frame.payload)
            if isinstance(record, Upsert):
                yield record.document.document_id, record.document


def _frames(folder: Path, after: int, until: int) -> Iterator[Frame]:
    """The records after one offset up to another, although segments may be compacted and added meanwhile.

    A look at the folder in the midst of that finds a file gone or a gap: it is looked at again from there.
    """
    tries = 0
    while after < until:
        try:
            for frame in read_journal(folder, after):
                if frame.offset > until:
                    return
                after, tries = frame.offset, 0
                yield frame
                if after >= until:
                    return
        except (FileNotFoundError, Corrupted):
            tries += 1
            if tries >= _READ_TRIES:
                raise
            time.sleep(_READ_AGAIN_SECONDS)
        else:
            return
