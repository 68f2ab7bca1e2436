"""Compares the facts of document versions, and makes the key that finds a document."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.document import ChunkedDocument, DocumentFacts

REFRESH_AFTER_SECONDS = 3_600.0
"""An unchanged document fetched again within this time is the same version. Later its new date is recorded, since the
gate judges freshness by it."""


_FACTS = tuple(DocumentFacts.model_fields)


def make_facts(document: ChunkedDocument) -> DocumentFacts:
    """Copy the document without its chunks."""
    return construct_unvalidated(DocumentFacts, {name: getattr(document, name) for name in _FACTS}, set(_FACTS))


def with_first_seen(document: ChunkedDocument, recorded: DocumentFacts) -> ChunkedDocument:
    """Return the document with the time at which the recorded version first came, if its content is the same."""
    if document.checksum != recorded.checksum:
        return document
    provenance = document.provenance.model_copy(update={"first_seen_at": recorded.provenance.known_since})
    return document.model_copy(update={"provenance": provenance})


def is_recorded(recorded: DocumentFacts, new: DocumentFacts) -> bool:
    """Return whether `new` or a later version is recorded: a late delivery must not bring an old version back.

    Of two inspections of the same fetch the later one counts: it includes chunks that were released since.
    """
    if new.provenance.fetched_at < recorded.provenance.fetched_at:
        return True
    if new.provenance.fetched_at == recorded.provenance.fetched_at and _is_inspected_before(new, recorded):
        return True
    return is_same_version(recorded, new)


def is_same_version(old: DocumentFacts, new: DocumentFacts) -> bool:
    """Return whether `new` needs no record after `old`.

    The same content under the same facts is the same version, whichever run brought it, unless it was fetched again
    more than `REFRESH_AFTER_SECONDS` later. Other rules of inspection, other chunks left out by it and other verdicts
    make another version.
    """
    age_seconds = (new.provenance.fetched_at - old.provenance.fetched_at).total_seconds()
    if age_seconds > REFRESH_AFTER_SECONDS:
        return False
    return _without_fetch(old, old.provenance.fetched_at) == _without_fetch(new, old.provenance.fetched_at)


@lru_cache(maxsize=4096)  # needed several times for each document that is ingested
def document_key(document_id: str) -> int:
    """Return a 128-bit hash of the document's id: fixed width on disk, without collisions in practice."""
    return int.from_bytes(hashlib.blake2b(document_id.encode("utf-8", "surrogatepass"), digest_size=16).digest(), "big")


def _is_inspected_before(one: DocumentFacts, other: DocumentFacts) -> bool:
    return one.inspected_at is not None and other.inspected_at is not None and one.inspected_at < other.inspected_at


def _without_fetch(facts: DocumentFacts, fetched_at: datetime) -> DocumentFacts:
    """Return the facts without those that differ between two fetches, and two inspections, of the same content."""
    passing: dict[str, object] = {
        "fetched_at": fetched_at,
        "first_seen_at": None,
        "run_id": None,
        "search_query": None,
        "provider": None,
        "crawl_depth": None,
        "rendered": False,
        "etag": None,
        "last_modified": None,
    }
    provenance = facts.provenance.model_copy(update=passing)
    return facts.model_copy(update={"provenance": provenance, "inspected_at": None})
