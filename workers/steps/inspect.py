"""Inspects chunks: those that the guard blocks go to quarantine and never get a vector.

A chunk is held once for each corpus, document and checksum of its text, so a second run holds the same. Text that an
operator released is let through; purged text is blocked and not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from sluice.contracts.base import BlobRef
from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, inspection_digest
from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event, Gap, Next
from sluice.contracts.ingest import DocumentChunked, DocumentsRemoved
from sluice.contracts.operations.quarantine import QuarantineState
from sluice.contracts.trust import Finding, Verdict
from sluice.contracts.trust import Inspection as Found
from sluice.ledger.ledger import Ledger
from sluice.ledger.trust.quarantine import HeldChunk
from sluice.otel import metrics
from sluice.trust.settings import CorpusPolicy
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.negative_list import batch_without, batch_without_forgotten, refused_documents
from sluice.workers.settings import Settings
from sluice.workers.steps.embed import load_chunks
from sluice.workers.wiring.corpora import CorpusReaders, policy_of
from sluice.workers.wiring.inject import Step
from sluice.workers.wiring.models import GuardedInspection

log = structlog.get_logger(__name__)

CHUNKS_AT_ONCE = 200
"""Chunks inspected by one event, about a second's work. A document has 10,000 at most."""


class Inspected(NamedTuple):
    """The batch that goes on, its blob, the gaps for what was left out, and the removal that follows."""

    batch: ChunkBatch
    blob: BlobRef
    gaps: tuple[Gap, ...] = ()
    removal: tuple[Next, ...] = ()
    """Removal of what the index holds of documents of which nothing was let through."""
    whole: ChunkBatch = ChunkBatch(documents=())
    """The batch with the chunks that are blocked."""
    up_to: int | None = None
    """Chunks of a long document that are inspected, where further ones are to be; nothing goes on yet."""


@dataclass(frozen=True, slots=True)
class Inspection(Step):
    """Looks for attacks and private data in chunks before they are embedded."""

    inspector: GuardedInspection
    readers: CorpusReaders
    ledger: Ledger
    blobs: BlobStore
    settings: Settings

    def inspect(self, chunked: DocumentChunked, event: Event) -> Inspected:
        """Inspect the chunks of a batch and keep those that are blocked in quarantine, with a gap for their documents.

        Documents that the negative list names, or whose source the corpus's policy does not allow, are left out, with
        a gap as well. Of a page that is only to be shown nothing is kept, nor removed from the index.
        """
        reference, quarantine = chunked.chunks_blob, self.ledger.quarantine
        batch = load_chunks(reference, self.blobs)
        refusals = refused_documents(batch, event.corpus, self.ledger.forgotten)
        batch, refused = batch_without_forgotten(batch, "embed", refusals)
        policy = policy_of(self.settings.trust, self.ledger, event.corpus)
        batch, foreign = _without_foreign(batch, event.corpus, policy)
        if len(batch.documents) == 1 and chunked.inspected < len(batch.documents[0].chunks) > CHUNKS_AT_ONCE:
            return self._inspect_next(batch, chunked.inspected)
        is_indexed = chunked.purpose != "read"
        documents: list[ChunkedDocument] = []
        held: list[HeldChunk] = []
        gaps: list[Gap] = [*refused, *foreign]
        for one in batch.documents:
            check_cancelled()
            found = _without_forbidden(one if chunked.inspected else self.inspector.inspect(one), policy)
            for span in (span for chunk in found.chunks if chunk.inspection for span in chunk.inspection.private):
                metrics.PRIVATE_FOUND.labels("secret" if span.is_secret else span.kind).inc()
            decided = quarantine.decisions(event.corpus, found.document_id) if _blocked(found.chunks) else {}
            document = _with_releases(found, decided)
            documents.append(document)
            if is_indexed and (blocked := _blocked(document.chunks)):
                to_keep = [chunk for chunk in blocked if chunk.checksum not in decided]
                held += _held_chunks(one, document, to_keep, reference, event, self.blobs)
                gaps.append(_quarantined(document, blocked))
        for chunk in quarantine.hold(held) if held else ():
            log.warning("chunk_quarantined", document_id=chunk.document_id, rules=[one.rule for one in chunk.findings])
            for rule in {finding.rule for finding in chunk.findings}:
                metrics.QUARANTINED.labels(rule).inc()
        whole = ChunkBatch(documents=tuple(documents))
        left = _as_inspected(whole.select(_is_let_through))
        emptied = [one for one in documents if not any(map(_is_let_through, one.chunks))]
        blob = self.blobs.put(left.model_dump_json().encode())
        return Inspected(left, blob, tuple(gaps), self._removal(emptied, event.corpus) if is_indexed else (), whole)

    def _inspect_next(self, batch: ChunkBatch, start: int) -> Inspected:
        """Inspect the next chunks of a long document, after those that are inspected."""
        [document], end = batch.documents, start + CHUNKS_AT_ONCE
        found = self.inspector.inspect(document.model_copy(update={"chunks": document.chunks[start:end]}))
        chunks = (*document.chunks[:start], *found.chunks, *document.chunks[end:])
        batch = batch.model_copy(update={"documents": (found.model_copy(update={"chunks": chunks}),)})
        blob = self.blobs.put(batch.model_dump_json().encode())
        return Inspected(batch, blob, up_to=min(end, len(chunks)))

    def _removal(self, emptied: Sequence[ChunkedDocument], corpus: str) -> tuple[Next, ...]:
        """Direct the removal of documents of which the corpus has no newer version: their sources changed."""
        try:
            held = self.readers.existing(corpus).documents([one.document_id for one in emptied]) if emptied else {}
        except NotFound:
            return ()
        fetched_at = {one.document_id: one.provenance.fetched_at for one in emptied}
        gone = tuple(name for name, facts in held.items() if facts.provenance.fetched_at <= fetched_at[name])
        return (Next(DocumentsRemoved(document_ids=gone)),) if gone else ()


def _without_foreign(batch: ChunkBatch, corpus: str, policy: CorpusPolicy) -> tuple[ChunkBatch, tuple[Gap, ...]]:
    """Return the batch without documents of sources that the corpus does not take in, and a gap for each of them."""
    detail, lift = f"the policy of corpus {corpus!r} does not list its source", "trust.corpora in sluice.toml"
    foreign = (one for one in batch.documents if not policy.takes(one))
    why = {"stage": "embed", "reason": "corpus_policy", "detail": detail, "lifted_by": lift}
    return batch_without(batch, {one.document_id: Gap(subject=one.source, **why) for one in foreign})


def _without_forbidden(document: ChunkedDocument, policy: CorpusPolicy) -> ChunkedDocument:
    """Return the document with those chunks blocked in whose text or title the policy finds a forbidden pattern."""

    def judged(chunk: Chunk) -> Chunk:
        matches = policy.find_forbidden(chunk.text)
        if not matches and policy.find_forbidden(document.title or ""):
            matches = (Finding(rule="forbidden"),)
        if not matches:
            return chunk
        before = chunk.inspection or Found()
        changes = {"verdict": Verdict.BLOCKED, "findings": (*before.findings, *matches)}
        return chunk.model_copy(update={"inspection": before.model_copy(update=changes)})

    return document.model_copy(update={"chunks": tuple(map(judged, document.chunks))}) if policy.forbidden else document


def _is_let_through(chunk: Chunk) -> bool:
    return chunk.inspection is None or chunk.inspection.verdict is not Verdict.BLOCKED


def _blocked(chunks: Iterable[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if not _is_let_through(chunk)]


def _with_releases(document: ChunkedDocument, decided: Mapping[str, QuarantineState]) -> ChunkedDocument:
    """Return the document with a new verdict on what an operator released. The findings in it stay."""
    if "released" not in decided.values():
        return document

    def judged(chunk: Chunk) -> Chunk:
        if _is_let_through(chunk) or decided.get(chunk.checksum) != "released":
            return chunk
        found = chunk.inspection or Found()
        return chunk.model_copy(update={"inspection": found.model_copy(update={"verdict": Verdict.PASSED})})

    return document.model_copy(update={"chunks": tuple(map(judged, document.chunks))})


def _as_inspected(batch: ChunkBatch) -> ChunkBatch:
    """Return the batch with the time and digest that tell two inspections of a document apart."""
    now = datetime.now(UTC)
    documents = (
        one.model_copy(update={"inspected_at": now, "inspection_sha256": inspection_digest(one.chunks)})
        for one in batch.documents
    )
    return batch.model_copy(update={"documents": tuple(documents)})


def _held_chunks(
    chunked: ChunkedDocument,
    inspected: ChunkedDocument,
    blocked: Iterable[Chunk],
    source: BlobRef,
    event: Event,
    blobs: BlobStore,
) -> list[HeldChunk]:
    """Return the blocked chunks of a document, with a batch of the document as it was chunked."""
    by_checksum = {chunk.checksum: chunk for chunk in blocked}
    if not by_checksum:
        return []
    whole = blobs.put(ChunkBatch(documents=(chunked,)).model_dump_json().encode())
    return [
        HeldChunk(
            corpus=event.corpus,
            document_id=inspected.document_id,
            document_sha256=inspected.checksum,
            chunk_id=chunk.chunk_id,
            checksum=checksum,
            url=inspected.url,
            file_path=inspected.file_path,
            origin=inspected.provenance.origin,
            submitted_by=inspected.provenance.submitted_by,
            findings=chunk.inspection.findings if chunk.inspection else (),
            inspected_by=inspected.inspected_by,
            run_id=event.run_id,
            fetched_at=inspected.provenance.fetched_at,
            blob=whole,
            source_sha256=source.sha256,
        )
        for checksum, chunk in by_checksum.items()
    ]


def _quarantined(document: ChunkedDocument, blocked: list[Chunk]) -> Gap:
    rules = sorted({finding.rule for chunk in blocked if chunk.inspection for finding in chunk.inspection.findings})
    many = "all of it" if len(blocked) == len(document.chunks) else f"{len(blocked)} of {len(document.chunks)} chunks"
    return Gap(
        stage="embed",
        subject=document.source,
        reason="quarantined",
        detail=f"the guard holds {many} back: {', '.join(rules) or 'blocked'}",
        lifted_by="look with `sluice quarantine`, then `sluice quarantine ID --release`",
    )
