"""The quarantine, as far as a caller may see it, and operators' decisions on its chunks.

A caller of some corpora sees and touches their chunks alone. Every change records who made it, when and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from sluice.contracts.base import BlobRef, shared_fields
from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument
from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.event import AFTERWARDS, Next
from sluice.contracts.ingest import DocumentChunked
from sluice.contracts.operations.dead_letters import DeadLetterPage, OperatorAction
from sluice.contracts.operations.quarantine import QuarantinedChunk, QuarantinedText, QuarantinePage, Released
from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk
from sluice.contracts.trust import Verdict
from sluice.ledger.events.outbox import Entry
from sluice.otel.context import current_traceparent
from sluice.trust.gates import JudgedRetrieval, check_poisoning, check_source_trust
from sluice.trust.source_trust import source_trust_of
from sluice.workers.broker.direct_query import ask_query_pool
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller
from sluice.workers.service.service import Service


class QuarantineDesk:
    """The quarantine of one instance.

    Every method on one chunk raises `NotFound` if it does not exist or the caller may not see it, and `Conflict` if its
    state does not allow the change.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = Service(context)
        self._held = context.ledger.quarantine

    def some(self, wanted: QuarantinePage, caller: Caller) -> Sequence[QuarantinedChunk]:
        """Return chunks that meet every given filter, the latest first."""
        for corpus in wanted.corpora or ():
            caller.may_touch(corpus)
        return self._held.list(wanted.within(caller.corpora))

    def one(self, held_id: str, caller: Caller) -> QuarantinedText:
        """Return one chunk with its text, and what operators did to it."""
        held, blob, actions = self._seen(held_id, caller)
        batch = self._batch(blob) if held.state != "purged" else None
        chunks = (chunk for document in batch.documents for chunk in document.chunks) if batch else ()
        chunk = next((chunk for chunk in chunks if chunk.checksum == held.checksum), None)
        return QuarantinedText(
            **dict(held),
            text=chunk.text if chunk else None,
            section_path=chunk.section_path if chunk else (),
            actions=tuple(actions),
        )

    def release(self, held_id: str, caller: Caller, note: str) -> Released:
        """Let the text through from now on. A run indexes it at once unless `waits_for` names an obstacle."""
        held, blob, _ = self._seen(held_id, caller)
        batch = self._batch(blob)
        waits_for = self._obstacle(held) if batch else "its text was removed; it is let through when it comes again"
        if batch is None or blob is None or waits_for:
            self._held.release(held_id, caller.owner, note)
            return Released(id=held_id, run_id=None, waits_for=waits_for)
        run = self._service.new_run("documents", held.corpus, owner=caller.owner)
        texts = batch.embedding_texts()
        reserve = self._context.embedding.reserve(texts, held.corpus, run.ceilings)
        first = self._service.event_of(Next(DocumentChunked.of(batch, blob)), run)
        created = self._held.release(held_id, caller.owner, note, run, [Entry(first, reserve=reserve)])
        if created is not None:
            self._service.send(created.events)
        return Released(id=held_id, run_id=run.run_id)

    def purge(self, held_id: str, caller: Caller, note: str) -> QuarantinedText:
        """Remove the text for good and keep the facts. The same text is blocked again, and not kept."""
        self._context.ledger.require_no_backup("purging")
        held, blob, _ = self._seen(held_id, caller)
        if held.state == "held" and held.run_id and self._is_open(held.run_id):
            raise Conflict(f"run {held.run_id}, which brought chunk {held_id}, is still open: wait for its end")
        for sha256 in self._held.purge(held_id, caller.owner, note, self._rest_of(held, blob)):
            self._context.blobs.remove_unused(sha256)
        self._held.emptied(held_id)
        return self.one(held_id, caller)

    def _seen(self, held_id: str, caller: Caller) -> tuple[QuarantinedChunk, BlobRef | None, Sequence[OperatorAction]]:
        held, blob, actions = self._held.show(held_id)
        if not caller.may_see(held.corpus):
            raise NotFound(f"no chunk {held_id} in quarantine")
        return held, blob, actions

    def _obstacle(self, held: QuarantinedChunk) -> str | None:
        """Return why the document's version cannot be brought in now; None if it can."""
        corpus, url = held.corpus, held.url
        if url and held.origin == "crawled" and self._context.page_memory.withdrawn(corpus, url):
            return "its page was withdrawn; it is let through when the page is crawled again"
        facts = self._context.readers.reader(corpus).document(held.document_id)
        if facts is not None and facts.checksum != held.document_sha256:
            return "the corpus has another version of its document; it is let through when it comes again"
        return None

    def _rest_of(self, held: QuarantinedChunk, blob: BlobRef | None) -> BlobRef | None:
        """Store the document's batch without the text if other chunks of it are in quarantine; None if none is."""
        batch = self._batch(blob)
        alike = QuarantinePage(corpora=(held.corpus,), document_id=held.document_id, state="any")
        if batch is None or all(one.id == held.id or one.state == "purged" for one in self._held.list(alike)):
            return None
        [document] = batch.documents
        chunks = tuple(chunk for chunk in document.chunks if chunk.checksum != held.checksum)
        rest = ChunkBatch(documents=(document.model_copy(update={"chunks": chunks}),))
        return self._context.blobs.put(rest.model_dump_json().encode())

    def _is_open(self, run_id: str) -> bool:
        """Return whether the run may still need the batch that the chunk came in. The graph reads the index instead."""
        ledger = self._context.ledger
        try:
            is_ended = ledger.open_by_queue(run_id).keys() <= AFTERWARDS
        except NotFound:
            return False
        letters = ledger.dead_letters.list(DeadLetterPage(run_id=run_id, limit=100))
        return not is_ended or any(letter.stage not in AFTERWARDS for letter in letters)

    def _batch(self, blob: BlobRef | None) -> ChunkBatch | None:
        """Return the document as it was chunked; None if its text is gone."""
        if blob is None:
            return None
        try:
            return ChunkBatch.model_validate_json(self._context.blobs.get(blob))
        except NotFound:
            return None


def judge_runs(context: Context, corpus: str, most: int) -> Iterator[JudgedRetrieval]:
    """Judge the newest finished runs of the corpus that were answered with passages, the latest first."""
    for run in context.ledger.runs(most, corpus=corpus, status="finished"):
        view = context.ledger.run(run.run_id) if run.kind == "gate" else None
        if view is not None and view.answer is not None and view.answer.chunks:
            now = view.finished_at or view.created_at
            yield _judged(context, corpus, view.answer.query, view.answer.chunks, now, run_id=view.run_id)


def judge_questions(context: Context, corpus: str, questions: Iterable[str]) -> Iterator[JudgedRetrieval]:
    """Query the pool with each question and judge what it finds. Raises what a direct query does."""
    seconds = context.settings.query_timeout_seconds
    for question in questions:
        query = Query(query=question, corpus=corpus)
        found = Retrieval.model_validate_json(ask_query_pool(context.transport, query, current_traceparent(), seconds))
        dropped = found.metadata.guard_dropped
        yield _judged(context, corpus, question, found.chunks, datetime.now(UTC), dropped=dropped)


def _judged(
    context: Context,
    corpus: str,
    question: str,
    chunks: Sequence[RetrievedChunk],
    now: datetime,
    *,
    dropped: int = 0,
    run_id: str | None = None,
) -> JudgedRetrieval:
    """Judge served passages by the rules, lists and decisions of today. `dropped` counts blocked ones not served."""
    trust = source_trust_of(context.settings.trust)
    served = tuple(_inspected(context, chunk, corpus) for chunk in chunks)
    scores = tuple(trust.score(chunk.url, chunk.provenance, chunk.chunk_id, now) for chunk in served)
    checks = check_source_trust(scores), check_poisoning(served, dropped)
    return JudgedRetrieval(query=question, run_id=run_id, checks=checks, chunks=served, scores=scores)


def _inspected(context: Context, chunk: RetrievedChunk, corpus: str) -> RetrievedChunk:
    """Return the chunk with today's verdict if it is blocked today and no operator has released it."""
    own = Chunk(ordinal=0, **shared_fields(Chunk, chunk))
    alone = ChunkedDocument(chunks=(own,), **shared_fields(ChunkedDocument, chunk))
    today = context.inspector.inspect(alone).chunks[0].inspection
    if today is None or today.verdict is not Verdict.BLOCKED:
        return chunk
    decided = context.ledger.quarantine.decisions(corpus, chunk.document_id)
    return chunk if decided.get(chunk.checksum) == "released" else chunk.model_copy(update={"inspection": today})
