"""Turns documents into events: extracts and chunks them, as many as their run can pay to embed.

An event holds what is embedded in about a second, or one document; a longer document is embedded in steps.

The reading of one document has bounded processor time, and stops once its run is cancelled. A timer looks several times
a second, and interrupts Python code. C code that does not return to Python is out of its reach: the kernel ends the
process there (RLIMIT_CPU), and its claims are released like those of any process that dies.
"""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import NamedTuple

import structlog
from tokenizers import Tokenizer

from sluice.contracts.budget import Spend
from sluice.contracts.document import ChunkBatch, ChunkedDocument, Document, Provenance, snippet_id_for
from sluice.contracts.errors import InvalidInput, PolicyRefused, SluiceError
from sluice.contracts.event import Done, Event, Gap, Next
from sluice.contracts.ingest import CrawlPurpose, DocumentChunked, SearchCompleted
from sluice.gate.veto import fit_within
from sluice.ingest.chunk.chunk import chunk_to_limit
from sluice.ingest.embed.batching import Portion, in_portions
from sluice.ingest.extract.extract import extract_document
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.claims import check_cancelled, is_cancelled
from sluice.workers.runtime.negative_list import without_forgotten
from sluice.workers.settings import Settings
from sluice.workers.wiring.inject import Step
from sluice.workers.wiring.models import EmbeddingService

log = structlog.get_logger(__name__)


class _Priced(NamedTuple):
    """A chunked document, and the most that embedding it may take."""

    document: ChunkedDocument
    price: Spend


@dataclass(frozen=True, slots=True)
class EmbeddingDirector(Step):
    """Directs the embedding of documents, and shares out what their run may spend on it."""

    embedding: EmbeddingService
    ledger: Ledger
    blobs: BlobStore

    def direct(self, documents: Sequence[ChunkedDocument], event: Event, purpose: CrawlPurpose = "index") -> Done:
        """Emit batches of the documents that the run can pay to embed, and a gap for each other one. What is only to be
        shown costs nothing."""
        if purpose == "read":
            return Done(tuple(self._next((_Priced(one, Spend()),), purpose) for one in documents))
        left = self.ledger.budget_left(event.run_id)
        priced = [_Priced(one, self.embedding.reserve(one.embedding_texts(), event.corpus, left)) for one in documents]
        costly = ((one, one.price) for one in priced)
        payable = fit_within(left, costly, stage="embed", subject=lambda one: one.document.source)
        chunks_of = [one.document.chunks for one in payable.items]
        sizes = [Portion(len(chunks), sum(one.token_estimate for one in chunks)) for chunks in chunks_of]
        parts = [payable.items[part] for part in in_portions(sizes, self.embedding.portion(event.corpus))]
        return Done(tuple(self._next(part, purpose) for part in parts), payable.gaps)

    def _next(self, part: Sequence[_Priced], purpose: CrawlPurpose) -> Next:
        batch = ChunkBatch(documents=tuple(one.document for one in part))
        blob = self.blobs.put(batch.model_dump_json().encode())
        return Next(DocumentChunked.of(batch, blob, purpose), reserve=sum((one.price for one in part), Spend()))


@dataclass(frozen=True, slots=True)
class Chunker(Step):
    """Splits documents into chunks, and directs their embedding."""

    settings: Settings
    tokenizer: Tokenizer
    director: EmbeddingDirector
    ledger: Ledger
    blobs: BlobStore

    def chunk(self, documents: Sequence[Document], event: Event, purpose: CrawlPurpose = "index") -> Done:
        """Extract and split documents, and direct the embedding that the run can pay for; the rest become gaps."""
        settings, chunked = self.settings.chunk, list[ChunkedDocument]()
        documents, gaps = without_forgotten(documents, event.corpus, "chunk", self.ledger.forgotten)
        for document in documents:
            check_cancelled()
            try:
                with bounded_reading(cpu_seconds_for(document.size)):
                    extracted = extract_document(document)
                    result = chunk_to_limit(document, extracted, settings, self.tokenizer)
            except SluiceError as refusal:
                if not isinstance(refusal, InvalidInput | PolicyRefused):
                    raise
                gaps.append(gap_of(refusal, "chunk", document.source))
                continue
            except (Exception, ReadingStopped) as error:
                check_cancelled()
                log.error("document_unread", document_id=document.id, source=document.source, exc_info=error)
                gaps.append(_unread(document, error))
                continue
            if result.document.chunks:
                chunked.append(result.document)
            else:
                gaps.append(Gap(stage="chunk", subject=document.source, reason="no_text"))
            if result.characters_left_out:
                gaps.append(_cut(document, result.characters_left_out, settings.max_document_tokens))
        directed = self.director.direct(chunked, event, purpose)
        return replace(directed, gaps=(*gaps, *directed.gaps))


def documents_of_snippets(completed: SearchCompleted, run_id: str) -> tuple[Document, ...]:
    """Return one document per snippet. Its id differs from its page's, so that a snippet never replaces a page."""
    return tuple(
        Document(
            id=snippet_id_for(result.url),
            url=result.url,
            media_type="text/plain",
            title=result.title or None,
            text=result.snippet,
            provenance=Provenance(
                source="search",
                fetched_at=completed.searched_at,
                search_query=completed.query,
                provider=completed.provider,
                published_at=result.published_at,
                run_id=run_id,
            ),
        )
        for result in completed.results
        if result.snippet.strip()
    )


def _unread(document: Document, error: BaseException) -> Gap:
    """Return the gap of a document that takes too much time or memory to read, or that no reader was written for."""
    reason, why, lift = (
        "unreadable",
        f"its reader failed: {error!r}"[:500],
        "convert the document, and report the error",
    )
    if isinstance(error, MemoryError):
        reason, why, lift = "memory", "reading it takes more memory than a worker may have", "split the document"
    elif isinstance(error, ReadingStopped):
        seconds = cpu_seconds_for(document.size)
        reason, why, lift = "time", f"reading it takes more than {seconds} s of processor time", "split the document"
    return Gap(stage="chunk", subject=document.source, reason=reason, detail=why, lifted_by=lift)


def _cut(document: Document, characters_left_out: int, most_tokens: int) -> Gap:
    why = f"its last {characters_left_out:,} characters were left out: a document has {most_tokens:,} tokens at most"
    lift = "split the document"
    return Gap(stage="chunk", subject=document.source, reason="document_cut", detail=why, lifted_by=lift)


def gap_of(refusal: SluiceError, stage: str, subject: str) -> Gap:
    """Return the gap that a refusal leaves: `subject` (a URL, a query), and why."""
    if isinstance(refusal, PolicyRefused):
        return Gap(
            stage=stage, subject=subject, reason=refusal.rule, detail=refusal.problem, lifted_by=refusal.lifted_by
        )
    return Gap(stage=stage, subject=subject, reason=refusal.code, detail=str(refusal))


CPU_SECONDS, CPU_SECONDS_PER_MEGABYTE, MOST_CPU_SECONDS = 8, 4, 40
"""Processor time of any document, for each megabyte of it, and at most: three times what the slowest pages take."""
GRACE_SECONDS = 10
"""Time that code which cannot be interrupted has in addition: the tokenizer takes four seconds for ten megabytes."""
LOOK_SECONDS = 0.25


class ReadingStopped(BaseException):
    """The document took too long, or its run was cancelled. No `Exception`: parsers swallow those."""


def cpu_seconds_for(size_bytes: int) -> int:
    """Return how much processor time the reading of a document of that size may take."""
    return min(MOST_CPU_SECONDS, CPU_SECONDS + CPU_SECONDS_PER_MEGABYTE * size_bytes // 1_000_000)


@contextmanager
def bounded_reading(cpu_seconds: float) -> Iterator[None]:
    """Raise `ReadingStopped` in the block once it has used that much processor time, or its run was cancelled.

    Bounds nothing outside of the main thread, which alone can be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    until = time.process_time() + cpu_seconds
    is_reading = True

    def look(_number: int, _frame: FrameType | None) -> None:
        if is_reading and (time.process_time() > until or is_cancelled()):
            raise ReadingStopped

    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limits = (int(until) + 1 + GRACE_SECONDS, soft, hard)
    signal.signal(signal.SIGALRM, look)  # and never back to its default: a last alarm may be on its way to a thread
    resource.setrlimit(resource.RLIMIT_CPU, (min(one for one in limits if one != resource.RLIM_INFINITY), hard))
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        is_reading = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
