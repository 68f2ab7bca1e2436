"""What the index stores of a document beside its chunks, and the key by which it is found."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache

from pydantic import Field

from contracts.base import LaterText, Sha256, Value
from contracts.document import ChunkedDocument, Provenance, Scalar

REFRESH_AFTER_SECONDS = 3_600.0
"""An unchanged document fetched again within this time is the same version. Later its new date is recorded, since the
gate judges freshness by it."""


class DocumentFacts(Value):
    """A `ChunkedDocument` without its chunks."""

    document_id: str
    checksum: Sha256
    url: str | None = None
    file_path: str | None = None
    title: str | None = None
    language: str | None = None
    metadata: dict[str, Scalar] = Field(default_factory=dict)
    provenance: Provenance
    inspected_by: LaterText = None


def make_facts(document: ChunkedDocument) -> DocumentFacts:
    """Copy the document without its chunks."""
    return DocumentFacts(
        document_id=document.document_id,
        checksum=document.checksum,
        url=document.url,
        file_path=document.file_path,
        title=document.title,
        language=document.language,
        metadata=document.metadata,
        provenance=document.provenance,
        inspected_by=document.inspected_by,
    )


def is_same_version(old: DocumentFacts, new: DocumentFacts) -> bool:
    """Whether `new` need not be recorded after `old`.

    The same content under the same facts is the same version, whichever run brought it, unless it was
    fetched again more than `REFRESH_AFTER_SECONDS` later: the gate judges freshness by the date.
    """
    age_seconds = (new.provenance.fetched_at - old.provenance.fetched_at).total_seconds()
    if age_seconds > REFRESH_AFTER_SECONDS:
        return False
    return _without_fetch(old, old.provenance.fetched_at) == _without_fetch(new, old.provenance.fetched_at)


@lru_cache(maxsize=4096)  # needed several times for each document that is ingested
def document_key(document_id: str) -> int:
    """A 128-bit key of the document's id: fixed width on disk, without collisions in practice."""
    return int.from_bytes(hashlib.blake2b(document_id.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _without_fetch(facts: DocumentFacts, fetched_at: datetime) -> DocumentFacts:
    """The facts without those that differ between two fetches of the same content."""
    passing: dict[str, object] = {
        "fetched_at": fetched_at,
        "run_id": None,
        "search_query": None,
        "provider": None,
        "crawl_depth": None,
        "rendered": False,
        "etag": None,
        "last_modified": None,
    }
    return facts.model_copy(update={"provenance": facts.provenance.model_copy(update=passing)})
