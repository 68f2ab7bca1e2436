"""Decides which documents of a batch are written: a submission never replaces what others brought.

Asked in the one process that writes the corpus, right before it does, so that nothing comes in between.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sluice.contracts.document import ChunkBatch, ChunkedDocument, document_id_for
from sluice.contracts.event import Gap
from sluice.contracts.operations.forget import ForgottenKind, Selection
from sluice.index.search.filters import is_selected
from sluice.trust.source_trust import refusal_to_replace, submission_id_for
from sluice.workers.runtime.heartbeat import check_cancelled

if TYPE_CHECKING:
    from sluice.index.journal.document_facts import DocumentFacts
    from sluice.index.journal.records import Vectors
    from sluice.ledger.ledger import Ledger
    from sluice.workers.runtime.blob_store import BlobStore
    from sluice.workers.wiring.corpora import Writer


class Admitted(NamedTuple):
    """The documents to write with their vectors, the ids of those that they supersede, and what was refused."""

    batch: ChunkBatch
    vectors: Vectors
    superseded: tuple[str, ...]
    gaps: tuple[Gap, ...]


def admit(batch: ChunkBatch, vectors: Vectors, writer: Writer) -> Admitted:
    """The documents of the batch that may be written, and why others may not."""
    earlier_ids = {document.document_id: _earlier_id(document) for document in batch.documents}
    wanted = [name for pair in earlier_ids.items() for name in pair if name is not None]
    recorded = writer.documents(wanted)
    kept: list[ChunkedDocument] = []
    rows: list[Vectors] = []
    gaps: list[Gap] = []
    row = 0
    for document in batch.documents:
        own = vectors[row : (row := row + len(document.chunks))]
        there = recorded.get(document.document_id)
        refusal = refusal_to_replace(there.provenance, document.provenance) if there else None
        if refusal:
            gaps.append(Gap(stage="index", subject=document.document_id, **refusal._asdict()))
        else:
            kept.append(document)
            rows.append(own)
    superseded = tuple(
        earlier
        for document in kept
        if (earlier := earlier_ids[document.document_id]) in recorded
        and recorded[earlier].provenance.source == "submission"
    )
    if gaps:
        vectors = np.concatenate([vectors[:0], *rows])
        batch = batch.model_copy(update={"documents": tuple(kept), "tokens": None})
    return Admitted(batch, vectors, superseded, tuple(gaps))


def _earlier_id(document: ChunkedDocument) -> str | None:
    """The id that versions before 0.4 gave to a submission without an id: that of the page at the claimed address."""
    source = document.url or document.file_path
    provenance = document.provenance
    if provenance.source != "submission" or source is None:
        return None
    is_derived = document.document_id == submission_id_for(provenance.submitted_by, source)
    return document_id_for(source) if is_derived else None


def select_documents(selection: Selection, writer: Writer) -> list[DocumentFacts]:
    """The facts of every document of the corpus that is meant, published or not."""
    return writer.select(lambda facts: is_selected(facts, selection))


def ids_meant(selection: Selection, found: Iterable[DocumentFacts]) -> tuple[str, ...]:
    """The ids of the documents that are meant: those found, and those that follow from the selection itself."""
    return tuple(dict.fromkeys((*(facts.document_id for facts in found), *selection.document_ids)))


def entries_for(found: Iterable[DocumentFacts]) -> list[tuple[ForgottenKind, str]]:
    """What the negative list says of documents that a filter chose: their ids, and the addresses that were crawled."""
    entries: list[tuple[ForgottenKind, str]] = []
    for facts in found:
        entries.append(("document_id", facts.document_id))
        if facts.url is not None and facts.provenance.origin == "crawled":
            entries.append(("url", facts.url))
    return entries


def erase_quarantine(
    corpus: str, document_ids: Sequence[str], selection: Selection, ledger: Ledger, blobs: BlobStore
) -> None:
    """Remove what the quarantine holds of the documents. Blobs first: a row that is left leads to its blob again."""
    held = ledger.quarantine.of(corpus, document_ids, selection)
    remove_blobs(filter(None, held.values()), blobs)
    ledger.quarantine.forget(held)


def erase_leftovers(
    corpus: str, document_ids: Sequence[str], selection: Selection, ledger: Ledger, blobs: BlobStore
) -> tuple[bool, tuple[Gap, ...]]:
    """Forget the pages of the documents and remove their blobs; whether events of theirs are still open, and gaps."""
    left = ledger.erasure.leftovers(corpus, document_ids, selection, check_cancelled)
    if left.open_events:
        return True, ()
    remove_blobs(left.removable, blobs)
    ledger.erasure.forget_pages(corpus, document_ids, selection)
    if not left.parked:
        return False, ()
    why = f"{len(left.parked)} blobs of forgotten documents are kept, as dead letters need them"
    lift = "replay or purge the letters (`sluice dead list`), then forget once more"
    return False, (Gap(stage="index", subject="blobs", reason="still_needed", detail=why, lifted_by=lift),)


def remove_blobs(hashes: Iterable[str], blobs: BlobStore) -> None:
    """Remove blobs now, however lately they were put."""
    for sha256 in hashes:
        blobs.remove_unused(sha256, since=time.time() + 1)
