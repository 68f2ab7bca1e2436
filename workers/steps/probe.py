"""The coverage probe: one look at the corpus and at the agent's memory, measured for the gate's decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import structlog

from sluice.contracts.base import shared_fields
from sluice.contracts.budget import Spend
from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.event import Event
from sluice.contracts.gate import CoverageProbed, GateRequested, Message, ProbeHit, ProbeSentence, QueryTerm
from sluice.contracts.learning.control import Judgement
from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.model import IterationOutcome
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Retrieval
from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
from sluice.gate import decide
from sluice.gate import probe as measures
from sluice.gate.profile import Profile
from sluice.gate.signals import read_signals
from sluice.index.search.reader import RawHit
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
from sluice.workers.wiring.corpora import CorpusReaders
from sluice.workers.wiring.inject import Step
from sluice.workers.wiring.memories import IndexSearch, ProjectMemories
from sluice.workers.wiring.models import EmbeddingService

log = structlog.get_logger(__name__)

PROBE_HITS = 10
"""Hits that the gate looks at: an answer rarely cites more."""
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
    readers: CorpusReaders
    page_memory: PageMemory
    judge: GateJudge
    retriever: Retriever
    flags: FlagReader

    def cover(
        self, request: GateRequested, event: Event, profile: Profile, remembered: Sequence[str] = ()
    ) -> tuple[CoverageProbed, Spend]:
        """Measure what the event's corpus has on the question, how probably it answers, and a judge's verdict; return
        the cost too.

        `remembered` holds texts of the agent's memory, which count beside the session's messages.
        """
        probed, passages, spend = self.measure(request, event.corpus, profile, remembered)
        if profile.weights.unanswered is not None:
            strategy = self.retriever.strategy(profile)
            answerable, more = self.retriever.answerable(request, event.corpus, strategy, self.flags.switched_off())
            probed, spend = probed.model_copy(update={"answerable": answerable}), spend + more
        judged, more = self.judge.ask(probed, passages, request, profile, event.run_id)
        return judged, spend + more

    def measure(
        self, request: GateRequested, corpus: str, profile: Profile, remembered: Sequence[str] = ()
    ) -> tuple[CoverageProbed, Sequence[str], Spend]:
        """Measure what corpus, session and memory have on the question; return the passages read and the cost too.

        Where the embedding model is out of reach, the second index is probed, or the corpus by words alone, and the
        event says why.
        """
        embedding, fingerprint, meant, why = self.embedding, self.embedding.fingerprint(corpus), None, None
        reader, question, asked = self.readers.reader(corpus), request.query, measures.question_terms(request.query)
        try:
            meant = _embed(request, remembered, profile, fingerprint, embedding)
        except Unavailable as error:
            why, second = str(error), self.readers.fallback(corpus)
            if second is not None and second.model_fingerprint is not None:
                reader, fingerprint = second, second.model_fingerprint
                meant = _embed(request, remembered, profile, fingerprint, embedding)
        spend = meant.spend if meant else Spend()
        vector, threshold = meant.question if meant else None, request.trust_threshold
        probe = reader.probe(question, vector, PROBE_HITS, asked, threshold, request.filters)
        if meant and reader.model_fingerprint not in (None, fingerprint):  # the corpus got another model meanwhile
            again, passages_again, more = self.measure(request, corpus, profile, remembered)
            return again, passages_again, spend + more
        words = measures.question_terms(question, probe.function_words | measures.question_words(probe.language))
        headings = ("\n".join(part for part in (hit.title, *hit.section_path) if part) for hit in probe.hits)
        read = zip(probe.hits[:READ_HITS], headings, strict=False)
        passages = [measures.Passage(hit.chunk_id, heading, hit.text, hit.analyse) for hit, heading in read]
        terms = measures.term_coverage(words, probe.document_frequency, probe.chunk_count, passages)
        sentences = measures.choose_sentences(terms, passages, 1, measures.enough_mass(probe.chunk_count))
        seen_at = self.page_memory.seen_at(corpus, [hit.document_id for hit in probe.hits])
        held = _Held()
        if meant and (request.session or remembered):
            held = _measure_held(meant, terms, request.session, remembered)
        probed = CoverageProbed(
            generation=probe.generation,
            journal_offset=probe.journal_offset,
            chunk_count=probe.chunk_count,
            model_fingerprint=fingerprint,
            hits=tuple(_hit(hit, seen_at.get(hit.document_id)) for hit in probe.hits),
            terms=terms,
            intent_similarity=measures.intent_similarity(meant.question, meant.prototypes) if meant else {},
            session_similarity=held.session_similarity,
            session_term_coverage=held.coverage,
            memory_similarity=held.memory_similarity,
            probed_at=utc_now(),
            embedder_down=why,
            sentences=tuple(ProbeSentence(chunk_id=one.chunk_id, term_coverage=one.term_coverage) for one in sentences),
            domain=measure_domain(request, profile, corpus, reader, utc_now()),
        )
        return probed, [f"{passage.heading}\n{passage.text}" for passage in passages], spend


class _Meant(NamedTuple):
    """Vectors of the question (d,), of the session's messages and the remembered texts (n, d), of each intent's
    prototypes; and their cost."""

    question: Vectors
    held: Vectors
    prototypes: Mapping[str, Vectors]
    spend: Spend


class _Held(NamedTuple):
    """Similarities of session and memory to the question, and their coverage of its terms."""

    session_similarity: tuple[float, ...] = ()
    memory_similarity: tuple[float, ...] = ()
    coverage: float = 0.0


def _measure_held(
    meant: _Meant, terms: Sequence[QueryTerm], session: Sequence[Message], remembered: Sequence[str]
) -> _Held:
    told = [Message(role="assistant", content=text) for text in remembered]
    similarity, coverage = measures.session_measures(meant.question, meant.held, terms, [*session, *told])
    asked = [entry.term for entry in terms]
    of_memory = zip(told, similarity[len(session) :], strict=True)
    informing = tuple(cosine for message, cosine in of_memory if measures.is_informative(message, asked))
    return _Held(similarity[: len(session)], informing, coverage)


def _embed(
    request: GateRequested, remembered: Sequence[str], profile: Profile, fingerprint: str, embedding: EmbeddingService
) -> _Meant:
    texts = [request.query, *(message.content for message in request.session), *remembered]
    embedded = embedding.embed_question(texts, fingerprint)
    prototypes = embedding.prototypes(profile, fingerprint)
    return _Meant(embedded.vectors[0], embedded.vectors[1:], prototypes, embedded.spend)


def _hit(hit: RawHit, seen_at: datetime | None) -> ProbeHit:
    """Return a hit as the gate sees it: a page that was found unchanged is as fresh as if it had been read then."""
    fetched_at = max(hit.fetched_at, seen_at or hit.fetched_at)
    return ProbeHit(**shared_fields(ProbeHit, hit) | {"fetched_at": fetched_at})


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
            return self.retriever.retrieve(query, self.flags.switched_off())[0]

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
