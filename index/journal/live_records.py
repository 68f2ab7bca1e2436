"""The live records in a range of a journal, read while another process may append to it and compact it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.errors import Corrupted
from sluice.index.journal.files import OPEN_END, Frame, list_files, read_journal
from sluice.index.journal.records import Upsert, decode_record

_READ_AGAIN_SECONDS = 0.02
_READ_TRIES = 10


@dataclass(slots=True)
class LiveRecords:
    """What the records of a range leave."""

    documents: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By id, the offset of the latest version and its number of chunks."""
    removed: set[str] = field(default_factory=set)
    """Ids whose last record is a removal."""
    until: int = 0
    """The offset of the last record that was read."""

    @property
    def chunk_count(self) -> int:
        """Chunks of the live documents."""
        return sum(chunk_count for _, chunk_count in self.documents.values())


def is_compacted_beyond(folder: Path, offset: int) -> bool:
    """Whether a compaction may have dropped records after the offset."""
    files = list_files(folder)
    return bool(files) and files[0].is_compacted and files[0].last_offset > offset


def read_live_records(folder: Path, after: int, until: int) -> LiveRecords:
    """Read what the records after the offset `after` up to `until` leave. Raises `Corrupted` for a damaged journal."""
    live = LiveRecords(until=after)
    for frame in _frames(folder, after, until):
        record = decode_record(frame.kind, frame.payload)
        live.until = frame.offset
        if isinstance(record, Upsert):
            name = record.document.document_id
            live.documents[name] = (frame.offset, len(record.vectors))
            live.removed.discard(name)
        else:
            live.documents.pop(record.document_id, None)
            live.removed.add(record.document_id)
    return live


def read_live_documents(folder: Path) -> Iterator[tuple[str, ChunkedDocument]]:
    """Yield every live document of a whole journal with its id, in the order of the records."""
    return read_documents(folder, read_live_records(folder, 0, OPEN_END))


def read_documents(folder: Path, live: LiveRecords, after: int = 0) -> Iterator[tuple[str, ChunkedDocument]]:
    """Yield the live documents with their ids. One that was replaced after `live` was read may be missing."""
    offsets = {offset for offset, _ in live.documents.values()}
    for frame in _frames(folder, after, live.until):
        if frame.offset in offsets:
            record = decode_record(frame.kind, frame.payload)
            if isinstance(record, Upsert):
                yield record.document.document_id, record.document


def _frames(folder: Path, after: int, until: int) -> Iterator[Frame]:
    """The records after one offset up to another, while files may be added and compacted away.

    Reading in the middle of that finds a file missing or a gap; it is then repeated from the last offset read.
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
