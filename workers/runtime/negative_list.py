"""Applies the negative list at every entrance: forgotten documents are not crawled or ingested; each leaves a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.contracts.document import ChunkBatch, ChunkedDocument, Document, document_id_for
from sluice.contracts.event import Event, Gap
from sluice.ledger.trust.forgotten import Forgotten, Named


def named(document: Document | ChunkedDocument) -> Named:
    """Return the fields by which the negative list may name the document."""
    provenance, checksum = document.provenance, None
    if isinstance(document, ChunkedDocument):
        document_id, checksum = document.document_id, document.checksum
    else:
        document_id = document.id
    return Named(
        url=document.url,
        document_id=document_id,
        run_id=provenance.run_id,
        submitted_by=provenance.submitted_by,
        checksum=checksum,
    )


def refused_gap(stage: str, subject: str, kind: str) -> Gap:
    """Return the gap of a document that the negative list keeps out."""
    return Gap(
        stage=stage,
        subject=subject,
        reason="forgotten",
        detail=f"the negative list keeps it out, by its {kind}",
        lifted_by="`sluice forget --list`, then `sluice forget --allow ID`",
    )


def forgotten_page(url: str, event: Event, forgotten: Forgotten) -> Gap | None:
    """Return the gap of a page that the negative list keeps out; None for any other."""
    told = Named(url=url, document_id=document_id_for(url), run_id=event.run_id)
    kind = forgotten.about(event.corpus, [told]).names(told)
    return refused_gap("crawl", url, kind) if kind else None


def without_forgotten(
    documents: Sequence[Document], corpus: str, stage: str, forgotten: Forgotten
) -> tuple[list[Document], list[Gap]]:
    """Return the documents that are not forgotten, and a gap for each other one."""
    names = [named(document) for document in documents]
    refusals = forgotten.about(corpus, names)
    kept: list[Document] = []
    gaps: list[Gap] = []
    for document, told in zip(documents, names, strict=True):
        kind = refusals.names(told)
        if kind is None:
            kept.append(document)
        else:
            gaps.append(refused_gap(stage, document.source, kind))
    return kept, gaps


def batch_without_forgotten(
    batch: ChunkBatch, stage: str, refusals: Mapping[str, str]
) -> tuple[ChunkBatch, tuple[Gap, ...]]:
    """Return the batch without the documents that the negative list names (`refusals`), and a gap for each of them."""
    return batch_without(
        batch,
        {
            one.document_id: refused_gap(stage, one.source, refusals[one.document_id])
            for one in batch.documents
            if one.document_id in refusals
        },
    )


def batch_without(batch: ChunkBatch, gaps: Mapping[str, Gap]) -> tuple[ChunkBatch, tuple[Gap, ...]]:
    """Return the batch without the documents that have a gap, by id, and these gaps."""
    return (batch.select(lambda chunk: chunk.document_id not in gaps) if gaps else batch), tuple(gaps.values())


def refused_documents(batch: ChunkBatch, corpus: str, forgotten: Forgotten) -> dict[str, str]:
    """Return the ids of the documents that the negative list names, each with the kind of entry that does."""
    names = [named(document) for document in batch.documents]
    refusals = forgotten.about(corpus, names)
    found = (
        (document.document_id, refusals.names(told)) for document, told in zip(batch.documents, names, strict=True)
    )
    return {document_id: kind for document_id, kind in found if kind is not None}
