"""What the index keeps of a document apart from its chunks, and the key it is found by."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache

from pydantic import Field

from contracts.base import Sha256, Value
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


def facts_of(document: ChunkedDocument) -> DocumentFacts:
    """The document without its chunks."""
    return DocumentFacts(
        document_id=document.document_id,
        checksum=document.checksum,
        url=document.url,
        file_path=document.file_path,
        title=document.title,
        language=document.language,
        metadata=document.metadata,
        provenance=document.provenance,
    )


def same_version(old: DocumentFacts, new: DocumentFacts) -> bool:
    """Whether recording `new` after `old` would change nothing worth recording.

    The same content under the same facts is the same version, whichever run brought it, unless it was
    fetched again so much later that its new date matters.
    """
    age_seconds = (new.provenance.fetched_at - old.provenance.fetched_at).total_seconds()
    if age_seconds > REFRESH_AFTER_SECONDS:
        return False
    return _settled(old, old.provenance.fetched_at) == _settled(new, old.provenance.fetched_at)


@lru_cache(maxsize=4096)  # asked for several times while a document is taken in
def document_key(document_id: str) -> int:
    """A 128-bit key of the document's id: fixed width on disk, without collisions in practice."""
    return int.from_bytes(hashlib.blake2b(document_id.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _settled(facts: DocumentFacts, fetched_at: datetime) -> DocumentFacts:
    """The facts without what differs from one fetch of the same content to the next."""
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
