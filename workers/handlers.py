"""The pipeline: one short function per event kind, and the table at the foot that is the architecture.

A handler loads what its event refers to, calls one domain function, stores large bodies as blobs
and returns the next events. What it needs beside its event stands in its signature, each thing by its
name in `workers.context.Context`. Every handler may run twice; what makes that harmless stands in its
first line. None of them publishes, and none settles its own event: `workers.task` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import structlog

from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.event import Done, Event, Next, Outcome, Postponable
from sluice.contracts.gate import BudgetState, CoverageProbed, FeedbackGiven, GateRequested, RagDirectivesEvaluated
from sluice.contracts.index import Answer
from sluice.contracts.learning.events import ResponseJudged, ResponseJudgementDirected
from sluice.evaluation.ragas.bridge import RagasBridge
from sluice.evaluation.ragas.environment import AnsweredQuestion
from sluice.gate.decide import decide, deciding_model
from sluice.gate.directives import CrawlLimits, make_directives
from sluice.gate.profile import Profile, choose_profile
from sluice.index.folder import CorpusLayout
from sluice.index.journal.journal import read_last_offset
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.workers import graph_handlers, index_handlers, memory_handlers, page_handlers, transfer
from sluice.workers.context import Context
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.settings import Settings
from sluice.workers.steps.answer import Answering
from sluice.workers.steps.probe import GateMemory, Probe
from sluice.workers.wiring.inject import with_dependencies
from sluice.workers.wiring.steering import Steering

log = structlog.get_logger(__name__)

Handler = Callable[[Event, "Context"], Outcome | Postponable]


def on_gate_requested(event: Event, profiles: Mapping[str, Profile], gate_memory: GateMemory, probe: Probe) -> Outcome:
    """Probe the local corpus, and the agent's memory where it may count. Only reads: a second run measures again."""
    request = event.body_as(GateRequested)
    profile = choose_profile(profiles, request.profile)
    probed, spend = probe.cover(request, event, profile, gate_memory.recall(request))
    return Done((Next(probed),), spend=spend)


def on_coverage_probed(
    event: Event, ledger: Ledger, blobs: BlobStore, steering: Steering, crawl_limits: CrawlLimits
) -> Outcome:
    """Decide by the requested profile, or by the profile that the gate has stepped back to; at most twice for a run.

    Keeps the profile under its hash, so that the decision can always be recomputed.
    """
    request = ledger.events_of_kind(event.run_id, GateRequested.kind)[0].body_as(GateRequested)
    steered = steering.of(event.run_id, event.corpus, request)
    blobs.put(steered.profile.canonical_bytes())
    decided = decide(
        request,
        event.body_as(CoverageProbed),
        steered.profile,
        policy=steered.policy,
        budget=BudgetState.of(
            ledger.budget_left(event.run_id),
            search_usd=crawl_limits.search_usd,
            search_milliseconds=crawl_limits.search_milliseconds,
        ),
        decided_at=event.occurred_at,
        control=steered.control,
        model=steered.model,
    )
    ordered = RagDirectivesEvaluated.of(request, decided, deciding_model(decided))
    return Done((Next(decided), Next(ordered), *make_directives(request, decided, crawl_limits)))


def on_answer_directed(event: Event, answering: Answering) -> Outcome:
    """Answer the run's question from the corpus, and name what is missing. Only reads."""
    return answering.answer(event)


def on_feedback_given(event: Event, ledger: Ledger, flags: FlagReader, settings: Settings) -> Outcome:
    """Compare feedback with its answer, and have a sample judged. Its event records it; metrics may count twice."""
    feedback = event.body_as(FeedbackGiven)
    answer = ledger.run(event.run_id).answer
    metrics.FEEDBACK.labels(feedback.outcome).inc()
    if answer and answer.chunks:
        used = {chunk.chunk_id for chunk in answer.chunks} & set(feedback.chunk_ids_used)
        metrics.PRECISION_AT_K.observe(len(used) / len(answer.chunks))
    is_judged = feedback.response and is_sampled(event.run_id, settings.judge.sample) and flags.enabled("ragas")
    return Done((Next(ResponseJudgementDirected()),) if is_judged else ())


def on_response_judgement_directed(event: Event, ledger: Ledger, ragas: RagasBridge) -> Outcome:
    """Judge the response that an agent made of an answer. If it runs twice, one of the judgements is recorded."""
    answer = ledger.run(event.run_id).answer
    if answer is None:
        return Done()
    return Done((Next(_judge_response(ledger.event(event.cause_id or "").body_as(FeedbackGiven), answer, ragas)),))


_SALT = "response-judgement:"
"""Salt of this draw alone, so that no other sample of the runs is the same."""


def is_sampled(run_id: str, share: float) -> bool:
    """Return whether the run is in the `share` of runs whose responses are judged. Always the same for a run."""
    draw = hashlib.sha256(f"{_SALT}{run_id}".encode()).digest()[:8]
    return int.from_bytes(draw) / 2**64 < share


def _judge_response(feedback: FeedbackGiven, answer: Answer, bridge: RagasBridge) -> ResponseJudged:
    """Judge the feedback's response and count the judgement. Raises `SluiceError` as the bridge's judge does."""
    asked = AnsweredQuestion(answer.query, tuple(chunk.text for chunk in answer.chunks), feedback.response or "")
    [score] = bridge.score([asked])
    for figure, value in (("groundedness", score.groundedness), ("faithfulness", score.faithfulness)):
        if value is not None:
            metrics.RESPONSE_JUDGED.labels(figure).observe(value)
    return ResponseJudged(
        groundedness=score.groundedness, faithfulness=score.faithfulness, method=bridge.method, failures=score.failures
    )


PIPELINE: dict[str, Callable[..., Outcome | Postponable]] = {
    "GateRequested": on_gate_requested,
    "CoverageProbed": on_coverage_probed,
    "SearchDirected": page_handlers.on_search_directed,
    "SearchCompleted": page_handlers.on_search_completed,
    "CrawlDirected": page_handlers.on_crawl_directed,
    "PageCrawled": page_handlers.on_page_crawled,
    "DocumentsSubmitted": page_handlers.on_documents_submitted,
    "FilesReceived": page_handlers.on_files_received,
    "DocumentChunked": index_handlers.on_document_chunked,
    "ChunksPartlyEmbedded": index_handlers.on_chunks_partly_embedded,
    "ChunksEmbedded": index_handlers.on_chunks_embedded,
    "DocumentAmended": index_handlers.on_document_amended,
    "ForgetDirected": index_handlers.on_forget_directed,
    "DocumentsRemoved": index_handlers.on_documents_removed,
    "ErasureDirected": index_handlers.on_erasure_directed,
    "PageWithdrawn": index_handlers.on_page_withdrawn,
    "DocumentIndexed": index_handlers.on_document_indexed,
    "ExportDirected": transfer.on_export_directed,
    "ImportDirected": transfer.on_import_directed,
    "GraphDirected": graph_handlers.on_graph_directed,
    "IterationRecorded": memory_handlers.on_iteration_recorded,
    "LearningChanged": memory_handlers.on_learning_changed,
    "AnswerDirected": on_answer_directed,
    "FeedbackGiven": on_feedback_given,
    "ResponseJudgementDirected": on_response_judgement_directed,
}


HANDLERS: dict[str, Handler] = {kind: with_dependencies(handler) for kind, handler in PIPELINE.items()}
"""Handlers by event kind, each with what its signature names, from the context of the process that runs it."""


def append_again(context: Context) -> None:
    """Handle the settled events again whose records an owner of the index did not live to ship, in their order.

    The journal of each corpus then ends where runs have been told that it does. Raises `Unavailable` where something
    they need does not answer; what cannot be handled any more, as its text was forgotten, is left out and logged.
    """
    index, known = context.ledger.index, context.ledger.index.published()
    for corpus, reached in context.ledger.written_offsets().items():
        end = read_last_offset(CorpusLayout(context.settings.index_root, corpus))
        if end >= reached or (corpus in known and end < known[corpus].journal_offset):
            continue  # of the latter the store lacks what was published: `CorpusTruth` refuses to write there
        with context.writers.writing(corpus) as writer:
            end = writer.journal_offset
            for offset, event in index.appended_beyond(corpus, end):
                try:
                    HANDLERS[event.kind](event, context)
                except Unavailable:
                    raise
                except SluiceError as error:
                    log.error("not_appended_again", event_id=event.id, kind=event.kind, error=repr(error))
                writer.pad(offset)
            writer.pad(reached)
            writer.publish()
        log.info("appended_again", corpus=corpus, beyond=end, until=reached)
        context.index_owner.publish(corpus, tells=True)
