"""The pipeline: one short function per event kind, and the table at the foot that is the architecture.

A handler loads what its event refers to, calls one domain function, stores what is large as a blob
and returns the next events. What it needs beside its event stands in its signature, each thing by its
name in `workers.context.Context`. Every handler may run twice; what makes that harmless stands in its
first line. None of them publishes, and none settles its own event: `workers.task` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event
from sluice.contracts.gate import BudgetState, CoverageProbed, FeedbackGiven, GateRequested, RagDirectivesEvaluated
from sluice.contracts.index import AnswerReady
from sluice.contracts.learning.events import ResponseJudgementDirected
from sluice.contracts.outcome import Done, Next, Outcome, Postponable
from sluice.gate.decide import decide, deciding_model
from sluice.gate.directives import make_directives
from sluice.gate.profile import choose_profile
from sluice.otel import metrics
from sluice.workers.graph_handlers import on_graph_directed
from sluice.workers.index_handlers import (
    on_chunks_embedded,
    on_chunks_partly_embedded,
    on_document_chunked,
    on_document_indexed,
    on_documents_removed,
    on_erasure_directed,
    on_forget_directed,
    on_page_withdrawn,
)
from sluice.workers.memory_handlers import on_iteration_recorded, on_learning_changed
from sluice.workers.page_handlers import (
    on_crawl_directed,
    on_documents_submitted,
    on_page_crawled,
    on_search_completed,
    on_search_directed,
)
from sluice.workers.steps.answer import answer_question
from sluice.workers.steps.citations import unseen_seconds
from sluice.workers.steps.judge import is_sampled, judge_response
from sluice.workers.steps.probe import GateMemory, Probe
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.steps.steering import Steering
from sluice.workers.wiring.inject import with_dependencies
from sluice.workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from sluice.contracts.gate import PolicyState
    from sluice.evaluation.ragas.bridge import RagasBridge
    from sluice.gate.directives import CrawlLimits
    from sluice.gate.profile import Profile
    from sluice.ledger.known_pages import PageMemory
    from sluice.ledger.ledger import Ledger
    from sluice.workers.context import Context
    from sluice.workers.runtime.blob_store import BlobStore
    from sluice.workers.runtime.flags import FlagReader
    from sluice.workers.settings import Settings


Handler = Callable[[Event, "Context"], Outcome | Postponable]


def on_gate_requested(event: Event, profiles: Mapping[str, Profile], gate_memory: GateMemory, probe: Probe) -> Outcome:
    """Probe the local corpus, and the agent's memory where it may count. A read: a second run measures again."""
    request = event.body_as(GateRequested)
    profile = choose_profile(profiles, request.profile)
    probed, spend = probe.cover(request, event, profile, gate_memory.recall(request))
    return Done((Next(probed),), spend=spend)


def on_coverage_probed(
    event: Event, ledger: Ledger, blobs: BlobStore, steering: Steering, crawl_limits: CrawlLimits, policy: PolicyState
) -> Outcome:
    """Decide, by the profile asked for or the one that the gate has stepped back to.

    The profile is kept under its hash, so that the decision can always be recomputed.
    """
    request = _cause_of(event, ledger).body_as(GateRequested)
    steered = steering.of(event.run_id, request)
    blobs.put(steered.profile.canonical_bytes())
    decided = decide(
        request,
        event.body_as(CoverageProbed),
        steered.profile,
        policy=policy,
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


def _cause_of(event: Event, ledger: Ledger) -> Event:
    if event.cause_id is None:
        raise NotFound(f"event {event.id} has no cause")
    return ledger.event(event.cause_id)


def on_answer_directed(
    event: Event,
    ledger: Ledger,
    retriever: Retriever,
    tokenizer: Tokenizer,
    profiles: Mapping[str, Profile],
    page_memory: PageMemory,
) -> Outcome:
    """Answer the run's question with what is there, naming what is not. A read."""
    started = time.perf_counter()
    answered = answer_question(event, ledger, retriever, tokenizer, profiles)
    duration_ms = (time.perf_counter() - started) * 1e3
    ready = AnswerReady(
        answer=answered.answer,
        duration_ms=duration_ms,
        prompt=answered.prompt,
        profile=answered.profile,
        unseen_seconds=unseen_seconds(answered.answer, page_memory, utc_now()),
    )
    return Done((Next(ready),), answered.gaps, answered.spend)


def on_feedback_given(event: Event, ledger: Ledger, flags: FlagReader, settings: Settings) -> Outcome:
    """Weigh feedback against the answer that it is about. Recorded by its event; metrics may count twice."""
    feedback = event.body_as(FeedbackGiven)
    answer = ledger.run(event.run_id).answer
    metrics.FEEDBACK.labels(feedback.outcome).inc()
    if answer and answer.chunks:
        used = {chunk.chunk_id for chunk in answer.chunks} & set(feedback.chunk_ids_used)
        metrics.PRECISION_AT_K.observe(len(used) / len(answer.chunks))
    is_judged = feedback.response and is_sampled(event.run_id, settings.judge.sample) and flags.enabled("ragas")
    return Done((Next(ResponseJudgementDirected()),) if is_judged else ())


def on_response_judgement_directed(event: Event, ledger: Ledger, ragas: RagasBridge) -> Outcome:
    """Judge what an agent made of an answer. Run twice, only one of the judgements is recorded."""
    answer = ledger.run(event.run_id).answer
    if answer is None:
        return Done()
    return Done((Next(judge_response(_cause_of(event, ledger).body_as(FeedbackGiven), answer, ragas)),))


PIPELINE: dict[str, Callable[..., Outcome | Postponable]] = {
    "GateRequested": on_gate_requested,
    "CoverageProbed": on_coverage_probed,
    "SearchDirected": on_search_directed,
    "SearchCompleted": on_search_completed,
    "CrawlDirected": on_crawl_directed,
    "PageCrawled": on_page_crawled,
    "DocumentsSubmitted": on_documents_submitted,
    "DocumentChunked": on_document_chunked,
    "ChunksPartlyEmbedded": on_chunks_partly_embedded,
    "ChunksEmbedded": on_chunks_embedded,
    "ForgetDirected": on_forget_directed,
    "DocumentsRemoved": on_documents_removed,
    "ErasureDirected": on_erasure_directed,
    "PageWithdrawn": on_page_withdrawn,
    "DocumentIndexed": on_document_indexed,
    "GraphDirected": on_graph_directed,
    "IterationRecorded": on_iteration_recorded,
    "LearningChanged": on_learning_changed,
    "AnswerDirected": on_answer_directed,
    "FeedbackGiven": on_feedback_given,
    "ResponseJudgementDirected": on_response_judgement_directed,
}


HANDLERS: dict[str, Handler] = {kind: with_dependencies(handler) for kind, handler in PIPELINE.items()}
"""Each handler with what its signature names, from the context of the process that runs it."""
