"""`sluice eval guard`: the gates over source trust and poisoning, for answers given or for questions asked now.

Every text that was served is inspected again by the rules of today, so that gate P fails for what was let through by
those of yesterday. Trust is counted by the lists of today, as of the day of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.contracts.document import Chunk, ChunkedDocument
from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk
from sluice.contracts.trust import Verdict
from sluice.otel.context import current_traceparent
from sluice.trust.gates import JudgedRetrieval, check_poisoning, check_source_trust
from sluice.trust.source_trust import source_trust_of
from sluice.workers.broker.direct_query import ask_query_pool

if TYPE_CHECKING:
    from sluice.workers.context import Context


def judge_runs(context: Context, corpus: str, most: int) -> Iterator[JudgedRetrieval]:
    """The newest finished runs of the corpus that were answered with passages, the latest first."""
    judging = _Judging(context)
    for run in context.ledger.runs(most, corpus=corpus, status="finished"):
        view = context.ledger.run(run.run_id) if run.kind == "gate" else None
        if view is None or view.answer is None or not view.answer.chunks:
            continue
        now = view.finished_at or view.created_at
        served = judging.inspected(view.answer.chunks, corpus)
        yield judging.judged(view.answer.query, served, 0, now, view.run_id)


def judge_questions(context: Context, corpus: str, questions: Iterable[str]) -> Iterator[JudgedRetrieval]:
    """Each question, asked of the query pool now.

    Raises:
        TimedOut, NotFound, Unavailable: as a direct query does.
    """
    judging = _Judging(context)
    for question in questions:
        raw = ask_query_pool(
            context.transport,
            Query(query=question, corpus=corpus),
            current_traceparent(),
            context.settings.query_timeout_seconds,
        )
        found = Retrieval.model_validate_json(raw)
        served = judging.inspected(found.chunks, corpus)
        yield judging.judged(question, served, found.metadata.guard_dropped, datetime.now(UTC))


class _Judging:
    """Judges by the rules, the lists and the decisions of today."""

    def __init__(self, context: Context) -> None:
        self._trust = source_trust_of(context.settings.trust)
        self._inspector = context.inspector
        self._quarantine = context.ledger.quarantine

    def inspected(self, chunks: Sequence[RetrievedChunk], corpus: str) -> tuple[RetrievedChunk, ...]:
        """The chunks, with today's verdict on those that are blocked today and that no operator has released."""
        return tuple(self._inspect(chunk, corpus) for chunk in chunks)

    def judged(
        self, question: str, served: Sequence[RetrievedChunk], dropped: int, now: datetime, run_id: str | None = None
    ) -> JudgedRetrieval:
        """What the gates say of what was served; `dropped` blocked passages were not."""
        scores = tuple(self._trust.score(chunk.url, chunk.provenance, chunk.chunk_id, now) for chunk in served)
        checks = check_source_trust(scores), check_poisoning(served, dropped)
        return JudgedRetrieval(query=question, run_id=run_id, checks=checks, chunks=tuple(served), scores=scores)

    def _inspect(self, chunk: RetrievedChunk, corpus: str) -> RetrievedChunk:
        today = self._inspector.inspect(_alone(chunk)).chunks[0].inspection
        if today is None or today.verdict is not Verdict.BLOCKED:
            return chunk
        decided = self._quarantine.decisions(corpus, chunk.document_id)
        return chunk if decided.get(chunk.checksum) == "released" else chunk.model_copy(update={"inspection": today})


def _alone(chunk: RetrievedChunk) -> ChunkedDocument:
    """A document of this chunk alone."""
    own = Chunk(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        ordinal=0,
        text=chunk.text,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        section_path=chunk.section_path,
        symbol_path=chunk.symbol_path,
        language=chunk.language,
        token_estimate=chunk.token_estimate,
        checksum=chunk.checksum,
    )
    return ChunkedDocument(
        document_id=chunk.document_id,
        checksum=chunk.checksum,
        url=chunk.url,
        file_path=chunk.file_path,
        title=chunk.title,
        language=chunk.language,
        provenance=chunk.provenance,
        chunks=(own,),
    )
