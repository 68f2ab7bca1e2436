"""The coverage probe: one look at the corpus and at the agent's memory, measured for the gate's decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import structlog

from sluice.contracts.budget import Spend
from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.event import Event
from sluice.contracts.gate import CoverageProbed, GateRequested, Message, ProbeHit, QueryTerm
from sluice.contracts.learning.control import FlagName, Judgement
from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.model import IterationOutcome
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk
from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
from sluice.gate import decide
from sluice.gate import probe as measures
from sluice.gate.heads import read_heads
from sluice.gate.profile import Profile
from sluice.gate.signals import read_signals
from sluice.index.search.reader import find_function_words
from sluice.index.terms.analysis import analysis_language, passage_terms
from sluice.ingest.embed.minilm import FINGERPRINTS
from sluice.ingest.embed.port import Vectors
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.ledger import Ledger
from sluice.memory.embedded.guarded import sanitise_with_trust
from sluice.memory.find import cleaned, rank
from sluice.memory.qdrant_schema import collection_name
from sluice.otel import metrics
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.runtime.observers import utc_now
from sluice.workers.settings import Settings
from sluice.workers.steps.domain import measure_domain
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.wiring.inject import Step
from sluice.workers.wiring.memories import IndexSearch, ProjectMemories
from sluice.workers.wiring.models import EmbeddingService

log = structlog.get_logger(__name__)

READ_HITS = 5
"""Hits whose texts are searched for the question's words: what the profiles' weights were fitted on."""


@dataclass(frozen=True, slots=True)
class GateJudge(Step):
    """A language model that the gate consults where its score is in doubt."""

    judge: ChatEndpoint | None
    settings: Settings
    ledger: Ledger

    def ask(
        self, probed: CoverageProbed, passages: Sequence[str], request: GateRequested, profile: Profile, run_id: str
    ) -> tuple[CoverageProbed, Spend]:
        """Add the judge's verdict to `probed` if the judge is consulted and answers; return its cost too.

        It is consulted if the settings enable it, the score is in doubt, the request names no plan and the run can pay.
        """
        judge, settings = self.judge, self.settings.gate
        if not settings.judge or judge is None or request.plan is not None or not passages:
            return probed, Spend()
        signals = read_signals(request, probed, profile)
        score = decide.compute_score(signals, profile)
        is_skipped = decide.choose_plan(score, signals, profile) is Plan.SKIP or signals.talk is not None
        if is_skipped or not decide.is_in_doubt(score, profile, settings.judge_margin):
            return probed, Spend()
        system, user = decide.write_messages(request.query, passages)
        messages: list[ChatMessage] = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        left = self.ledger.budget_left(run_id).least("usd")
        if left is not None and judge.cost_at_most(messages, decide.MOST_TOKENS) > left:
            metrics.JUDGE_CALLS.labels("no_budget").inc()
            return probed, Spend()
        try:
            reply = judge.ask(messages, max_tokens=decide.MOST_TOKENS, as_json=True)
        except SluiceError as error:
            metrics.JUDGE_CALLS.labels("failed").inc()
            log.warning("judge_failed", run_id=run_id, error=str(error))
            return probed, Spend()
        verdict, words = decide.read_verdict(reply.text)
        metrics.JUDGE_CALLS.labels(verdict).inc()
        judgement = Judgement(
            verdict=verdict, words=words, model=reply.model, usd=reply.usd, milliseconds=reply.milliseconds
        )
        return probed.model_copy(update={"judgement": judgement}), Spend(usd=reply.usd)


@dataclass(frozen=True, slots=True)
class Probe(Step):
    """Measures what a corpus has on a question."""

    embedding: EmbeddingService
    page_memory: PageMemory
    judge: GateJudge
    retriever: Retriever
    flags: FlagReader

    def cover(
        self, request: GateRequested, event: Event, profile: Profile, remembered: Sequence[str] = ()
    ) -> tuple[CoverageProbed, Spend]:
        """Measure what the event's corpus has on the question, with a judge's verdict; return the cost too.

        `remembered` holds texts of the agent's memory, which count beside the session's messages.
        """
        flags_off = self.flags.switched_off(event.run_id)
        probed, passages, spend = self.measure(request, event.corpus, profile, remembered, flags_off)
        judged, more = self.judge.ask(probed, passages, request, profile, event.run_id)
        return judged, spend + more

    def measure(
        self,
        request: GateRequested,
        corpus: str,
        profile: Profile,
        remembered: Sequence[str] = (),
        flags_off: Sequence[FlagName] = (),
    ) -> tuple[CoverageProbed, Sequence[str], Spend]:
        """Measure what corpus, session and memory have on the question, and how probably the corpus answers it; return
        the passages read and the cost too.

        The corpus is searched as for an answer, so that both judge the same passages. Where the embedding model is out
        of reach, that is the second index, or the corpus by words alone, and the event says why.
        """
        strategy, asked = self.retriever.strategy(profile), measures.question_terms(request.query)
        found, spend, reader = self.retriever.look(request, corpus, strategy, flags_off)
        why, second = found.metadata.embedder_down, found.metadata.fallback_model
        fingerprint, meant = second or reader.model_fingerprint or self.embedding.fingerprint(corpus), None
        if why is None or second is not None:
            meant = _embed(request, remembered, profile, fingerprint, self.embedding)
            spend += meant.spend
        language, function_words = find_function_words(request.query, asked, reader.languages)
        words = measures.question_terms(request.query, function_words | measures.question_words(language))
        passages = [_passage(chunk) for chunk in found.chunks[:READ_HITS]]
        count = reader.chunk_count
        terms = measures.term_coverage(words, reader.document_frequency(words), count, passages)
        seen_at = self.page_memory.seen_at(corpus, [chunk.document_id for chunk in found.chunks])
        held = {}
        if meant and (request.session or remembered):
            held = _measure_held(meant, terms, request.session, remembered)
        probed = CoverageProbed(
            generation=found.generation,
            journal_offset=found.journal_offset,
            chunk_count=count,
            model_fingerprint=fingerprint,
            hits=tuple(_hit(chunk, seen_at.get(chunk.document_id)) for chunk in found.chunks),
            terms=terms,
            intent_similarity=measures.intent_similarity(meant.question, meant.prototypes) if meant else {},
            heads=read_heads(request.query, meant.question if meant and fingerprint in FINGERPRINTS.values() else None),
            probed_at=utc_now(),
            embedder_down=why,
            domain=measure_domain(request, profile, corpus, reader, utc_now()),
            answerable=found.metadata.confidence or 0.0,
            **held,
        )
        return probed, [f"{passage.heading}\n{passage.text}" for passage in passages], spend


class _Meant(NamedTuple):
    """Vectors of the question (d,), of the session's messages and the remembered texts (n, d), of each intent's
    prototypes; and their cost."""

    question: Vectors
    held: Vectors
    prototypes: Mapping[str, Vectors]
    spend: Spend


def _measure_held(
    meant: _Meant, terms: Sequence[QueryTerm], session: Sequence[Message], remembered: Sequence[str]
) -> dict[str, Any]:
    """Return the similarities of session and memory to the question, and their coverage of its terms."""
    told = [Message(role="assistant", content=text) for text in remembered]
    similarity, coverage = measures.session_measures(meant.question, meant.held, terms, [*session, *told])
    asked = [entry.term for entry in terms]
    of_memory = zip(told, similarity[len(session) :], strict=True)
    informing = tuple(cosine for message, cosine in of_memory if measures.is_informative(message, asked))
    return {
        "session_similarity": similarity[: len(session)],
        "memory_similarity": informing,
        "session_term_coverage": coverage,
    }


def _embed(
    request: GateRequested, remembered: Sequence[str], profile: Profile, fingerprint: str, embedding: EmbeddingService
) -> _Meant:
    texts = [request.query, *(message.content for message in request.session), *remembered]
    embedded = embedding.embed_question(texts, fingerprint)
    prototypes = embedding.prototypes(profile, fingerprint)
    return _Meant(embedded.vectors[0], embedded.vectors[1:], prototypes, embedded.spend)


def _passage(chunk: RetrievedChunk) -> measures.Passage:
    """Return a passage as the gate reads it, with the analysis of its language."""
    heading = "\n".join(part for part in (chunk.title, *chunk.section_path) if part)
    language = analysis_language(chunk.language)
    return measures.Passage(chunk.chunk_id, heading, chunk.text, partial(passage_terms, language=language))


def _hit(chunk: RetrievedChunk, seen_at: datetime | None) -> ProbeHit:
    """Return a hit as the gate sees it: a page that was found unchanged is as fresh as if it had been read then."""
    far, fetched_at = chunk.dense_distance, chunk.provenance.fetched_at
    return ProbeHit(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        url=chunk.url,
        dense_similarity=None if far is None else round(1.0 - far, measures.DECIMALS),
        lexical_score=chunk.lexical_score,
        fetched_at=max(fetched_at, seen_at or fetched_at),
        published_at=chunk.provenance.published_at,
    )


MOST_TEXTS = 8
SEARCH_DEPTH = 50


@dataclass(frozen=True, slots=True)
class GateMemory(Step):
    """Recalls what an agent's memory holds on a question, as texts that the gate may count beside the session's.

    They show whether the agent knows enough, and are never cited. As they may lower the plan, each text is sanitised
    once more. A text in which a command is found counts for nothing, as do what looks like harmful advice and was not
    reviewed, a learning from which another differs, and an iteration that did not succeed.
    """

    memories: ProjectMemories
    retriever: Retriever
    flags: FlagReader

    def recall(self, request: GateRequested) -> tuple[str, ...]:
        """Return the best texts of the memory that the request names; none if it names none or `memory` is off."""
        scope = request.memory
        if scope is None or not self.flags.enabled("memory"):
            return ()

        def ask(query: Query) -> Retrieval:
            self.retriever.readers.existing(query.corpus)
            return self.retriever.retrieve(query, self.flags.switched_off(query.query))[0]

        state = self.memories.of(scope.project).journal(scope.feature).read()
        try:
            hits = IndexSearch(ask).search(collection_name(scope.project, scope.feature), request.query, SEARCH_DEPTH)
        except Unavailable:
            hits = None
        found = rank(state, hits, request.query, top_k=MOST_TEXTS, task_id=None)
        plain = (one for one in found if _is_settled(one) and not sanitise_with_trust(one.text).commands)
        return tuple(one.text for one in cleaned(plain, sanitise_with_trust) if not one.to_review)


def _is_settled(found: Recollection) -> bool:
    if found.learning is not None:
        return not found.learning.conflicts_with
    return found.outcome is IterationOutcome.SUCCESS
