"""How long ago what an answer cites was seen: what a profile's target age is measured by."""

from __future__ import annotations

from datetime import datetime

from sluice.contracts.index import Answer
from sluice.contracts.known_pages import PageMemory


def unseen_seconds(answer: Answer, page_memory: PageMemory, now: datetime) -> tuple[float, ...]:
    """Of each cited document of the web, how long ago it was read last or seen to be as it was.

    What was handed in, or read from a file, has no source that could be asked again.
    """
    read_at = {
        chunk.document_id: chunk.provenance.fetched_at
        for chunk in answer.chunks
        if chunk.provenance.source in ("crawl", "search")
    }
    seen_at = page_memory.seen_at(answer.corpus, tuple(read_at))
    latest = (max(moment, seen_at.get(document_id, moment)) for document_id, moment in read_at.items())
    return tuple(round(max(0.0, (now - moment).total_seconds()), 3) for moment in latest)
