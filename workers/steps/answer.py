"""The cited answer of a run, what it lacks, and later which of its citations no longer hold at their source.

The check of citations reads what the index holds now: however a document changed or went, and however often this is
done, a citation is reported exactly if its chunk is not in its document any more. A chunk that only moved within its
document stands.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import structlog
from tokenizers import Tokenizer

from sluice.contracts.api import RunView
from sluice.contracts.base import fields_of, shared_fields
from sluice.contracts.budget import Spend
from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.event import AFTERWARDS, Done, Event, Gap, Next
from sluice.contracts.gate import CoverageProbed, GateRequested, Veto
from sluice.contracts.index import Answer, AnswerDirected, AnswerReady, StaleCitation
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.learning.control import FlagName
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import PromptMessage, Query, Retrieval, RetrievalMetadata, SearchOptions, Strategy
from sluice.gate.decide import may_reconsider
from sluice.gate.profile import Profile
from sluice.gate.veto import lifted_by
from sluice.index.search.compose_answer import compose_answer
from sluice.index.settings import RerankSettings
from sluice.ingest.embed.tokens import count_tokens
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.ledger import Ledger
from sluice.ledger.trust.citations import CitedChunk
from sluice.otel import metrics
from sluice.workers.runtime.observers import utc_now
from sluice.workers.steps.domain import add_insights, preferred_passages
from sluice.workers.steps.retrieve import GRAPH_FLAG_OFF, Retriever, make_prompt
from sluice.workers.wiring.corpora import CorpusReaders, Reader
from sluice.workers.wiring.inject import Step

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answering(Step):
    """Answers the questions of runs."""

    ledger: Ledger
    retriever: Retriever
    tokenizer: Tokenizer
    profiles: Mapping[str, Profile]
    page_memory: PageMemory

    def answer(self, event: Event) -> Done:
        """Emit the cited answer of a run, with the gaps that show only now.

        It comes from a generation that covers what the run has indexed. If the settings allow it and the profile says
        so, passages are searched by the graph too; a graph that should exist and does not becomes a gap.
        """
        run_id, corpus, directed = event.run_id, event.corpus, event.body_as(AnswerDirected)
        started, settings = time.perf_counter(), self.retriever.settings
        run = self.ledger.run(run_id)
        request = self.ledger.events_of_kind(run_id, GateRequested.kind)[0].body_as(GateRequested)
        plan = run.decision.plan if run.decision else Plan.RETRIEVE
        profile = self.profiles.get(request.profile)
        query = _query(request, corpus, directed, settings.trust.confidence_floor, self.retriever.strategy(profile))
        flags_off = run.decision.control.flags_off if run.decision and run.decision.control else ()
        may_rerank = query.rerank and "rerank" not in flags_off and plan is not Plan.SKIP
        unpaid = _unpaid_reranking(run_id, settings.rerank, self.ledger) if may_rerank else ()
        if unpaid:
            query = query.model_copy(update={"rerank": False})
        found, spend = _nothing() if plan is Plan.SKIP else self._found(query, flags_off)
        if probed := self._probe_again(event, run, request, found):
            return Done((Next(probed, "second probe"),), spend=spend)
        gaps = (
            *unpaid,
            *_shortfalls(found, corpus, self.ledger),
            *(_lowered(veto) for veto in (run.decision.vetoes if run.decision else ())),
            *_unfinished(run_id, directed, self.ledger),
            *_unused_seeds(run_id, request, plan, self.ledger),
        )
        if found.metadata.behind:
            why = f"{found.metadata.behind} records of the journal are not in generation {found.generation} yet"
            gaps = (*gaps, Gap(stage="query", subject=corpus, reason="index_behind", detail=why, lifted_by="ask again"))
        if plan is not Plan.SKIP and found.generation is None:
            gaps = (*gaps, Gap(stage="query", subject=corpus, reason="empty_corpus", detail="nothing is indexed here"))
        answer = compose_answer(
            request.query,
            corpus,
            plan,
            found,
            request.max_tokens,
            (*run.missing, *gaps),
            count_tokens=self._count_tokens,
            is_preferred=preferred_passages(profile),
        )
        left_out = _left_out(found, answer, corpus)
        complete = answer.model_copy(update={"missing": (*answer.missing, *left_out)})
        complete = add_insights(complete, request, profile, self.retriever.readers)
        prompt: tuple[PromptMessage, ...] = ()
        if request.prompt is not None:
            prompt = make_prompt(request.prompt, request.session, complete, request.max_tokens, self._count_tokens)
        ready = AnswerReady(
            answer=complete,
            duration_ms=(time.perf_counter() - started) * 1e3,
            prompt=prompt,
            profile=request.profile,
            unseen_seconds=unseen_seconds(complete, self.page_memory, utc_now()),
            evidence=found.metadata.evidence,
        )
        return Done((Next(ready),), (*gaps, *left_out), spend)

    def _found(self, query: Query, flags_off: Sequence[FlagName]) -> tuple[Retrieval, Spend]:
        """Search a generation that covers the query's offset; the newest one, which says how far it is behind, if none
        that does was pulled in time."""
        try:
            return self.retriever.retrieve(query, flags_off)
        except Unavailable:
            readers, wanted = self.retriever.readers, query.minimum_journal_offset
            if not readers.behind(query.corpus, readers.reader(query.corpus).journal_offset) or not wanted:
                raise
        return self.retriever.retrieve(query.model_copy(update={"minimum_journal_offset": 0}), flags_off)

    def _probe_again(
        self, event: Event, run: RunView, request: GateRequested, found: Retrieval
    ) -> CoverageProbed | None:
        """Return the probe for a second decision where the answer would cite nothing: once for a run, before its
        deadline, and if the first decision kept it inside."""
        is_in_time = run.status == "answering" and event.body_as(AnswerDirected).reason == "closed"
        if found.chunks or not is_in_time or run.decision is None or not may_reconsider(request, run.decision):
            return None
        last = self.ledger.events_of_kind(run.run_id, CoverageProbed.kind)[-1].body_as(CoverageProbed)
        if last.abstained is not None:
            return None
        metadata, confidence = found.metadata, found.metadata.confidence or 0.0
        why = f"{confidence:.2f} is below the floor" if metadata.confidence_dropped else "nothing was found"
        measured = {"generation": found.generation, "journal_offset": found.journal_offset, "answerable": confidence}
        told = {"abstained": f"the answer would have abstained: {why}", "embedder_down": metadata.embedder_down}
        return last.model_copy(update={**measured, **told, "judgement": None, "probed_at": utc_now()})

    def _count_tokens(self, text: str) -> int:
        return count_tokens(text, self.tokenizer)


def _query(request: GateRequested, corpus: str, directed: AnswerDirected, floor: float, strategy: Strategy) -> Query:
    options = fields_of(SearchOptions, request) | {"prompt": None}  # the prompt is made from the answer
    if request.confidence_floor is None:
        filters = request.filters  # where pages or documents to read are named, their passages are what is sought
        names_documents = request.seeds or filters.document_ids or filters.url_prefix or filters.path_prefix
        options["confidence_floor"] = None if names_documents else floor
    offset = directed.minimum_journal_offset
    return Query(**options, corpus=corpus, strategy=strategy, minimum_journal_offset=offset)


def _unpaid_reranking(run_id: str, rerank: RerankSettings, ledger: Ledger) -> tuple[Gap, ...]:
    """Return a gap for each ceiling that leaves less than the price of reranking."""
    if rerank.provider == "none" or not rerank.usd_per_search:
        return ()
    short = ledger.budget_left(run_id).missing_for(Spend(usd=rerank.usd_per_search))
    why = "reranking costs more than is left"
    return tuple(
        Gap(stage="query", subject="rerank", reason="budget_exhausted", detail=why, lifted_by=lifted_by(ceiling))
        for ceiling in short
    )


def _shortfalls(found: Retrieval, corpus: str, ledger: Ledger) -> Iterator[Gap]:
    """Yield a gap for each method of search that was not used: by meaning, reranked, by the graph."""
    metadata, use = found.metadata, found.metadata.graph
    if why := metadata.embedder_down:
        lift = "the embedding model answers again"
        why = f"answered from the index of {metadata.fallback_model}: {why}" if metadata.fallback_model else why
        yield Gap(stage="query", subject=corpus, reason="embedder_down", detail=why, lifted_by=lift)
    if why := metadata.rerank_failure:
        yield Gap(stage="query", subject=corpus, reason="not_reranked", detail=why)
    if use is None or not use.abstained or use.generation is not None:
        return
    if use.abstained == GRAPH_FLAG_OFF:
        lift = "sluice flags graph --on"
    elif ledger.graph.totals(corpus).documents:
        lift = "the graph is published again"
    else:
        return
    yield Gap(stage="query", subject=corpus, reason="graph_not_searched", detail=use.abstained, lifted_by=lift)


def _lowered(veto: Veto) -> Gap:
    """Return the gap of a veto that lowered the plan."""
    return Gap(stage="gate", subject=veto.lowered_from, reason=veto.name, detail=veto.why, lifted_by=veto.lifted_by)


def _unfinished(run_id: str, directed: AnswerDirected, ledger: Ledger) -> Iterator[Gap]:
    """Yield a gap for each stage that the deadline cut off, with why it is paused; not for stages after the answer."""
    if directed.reason != "deadline":
        return
    paused = {pause.stage: pause.why for pause in ledger.paused()}
    for stage, count in ledger.open_by_queue(run_id).items():
        others = count - (stage == AnswerDirected.queue)  # this answer is an open event itself
        if others and stage not in AFTERWARDS:
            detail = f"the stage is paused: {paused[stage]}" if stage in paused else "still going on"
            lift = f"sluice stages {stage} --resume" if stage in paused else "more time"
            yield Gap(stage=stage, subject=f"{others} events", reason="deadline", detail=detail, lifted_by=lift)


def _unused_seeds(run_id: str, request: GateRequested, plan: Plan, ledger: Ledger) -> Iterator[Gap]:
    if not request.seeds:
        return
    if plan is Plan.FULL_LOOP:
        why, lift = "the run's pages go to the seeds before it", "a higher crawl.max_pages, or fewer seeds"
    else:
        why, lift = f"plan {plan} crawls nothing", "plan full_loop in the request"
    crawled = {event.body_as(CrawlDirected).url for event in ledger.events_of_kind(run_id, CrawlDirected.kind)}
    for url in dict.fromkeys(request.seeds):
        if url not in crawled:
            yield Gap(stage="gate", subject=url, reason="seed_not_crawled", detail=why, lifted_by=lift)


def _left_out(found: Retrieval, answer: Answer, corpus: str) -> tuple[Gap, ...]:
    """Return a gap with the reason why nothing is cited although the corpus is not empty."""
    if found.generation is None or answer.citations:
        return ()
    reason = "nothing_found"
    if found.chunks:
        reason, lift = "max_tokens", "a higher max_tokens"
        why = f"none of the {len(found.chunks)} passages found fits max_tokens"
    elif found.metadata.confidence_dropped:
        why = f"the best of {found.metadata.confidence_dropped} passages found answers with a probability of "
        why += f"{found.metadata.confidence or 0.0:.2f}, which is below the floor"
        lift = "a lower confidence_floor, or more documents on this"
    else:
        why, lift = "no passage meets the question, its filters and its trust threshold", "wider filters"
    return (Gap(stage="query", subject=corpus, reason=reason, detail=why, lifted_by=lift),)


def _nothing() -> tuple[Retrieval, Spend]:
    metadata = RetrievalMetadata(strategy=Strategy.HYBRID, fusion="none", duration_ms=0.0, total_candidates=0)
    return Retrieval(generation=None, journal_offset=0, chunks=(), metadata=metadata), Spend()


AT_ONCE = 1_000
"""Cited chunks that are checked between two reads of the ledger."""


class _Held(NamedTuple):
    """A document in the index: the ids of its chunks and the checksums of their texts."""

    ids: frozenset[str]
    checksums: frozenset[str]
    fetched_at: datetime | None
    """None if the index does not hold the document."""

    def has(self, cited: CitedChunk) -> bool:
        """Return whether the cited text stands in the document."""
        return cited.chunk_id in self.ids or (cited.checksum is not None and cited.checksum in self.checksums)


def tell_stale_answers(
    corpus: str, ledger: Ledger, readers: CorpusReaders, now: datetime, *, covering: int = 0
) -> tuple[str, ...]:
    """Record stale citations on the runs whose answers have them; return these runs' ids. May be done at any time.

    The index is read once it covers the journal offset `covering`. If that cannot be done now, a warning is logged, and
    the next call does it.
    """
    told: list[str] = []
    try:
        reader, second = readers.existing(corpus), readers.fallback(corpus)
        served_offset = max(reader.journal_offset, covering)
        while due := ledger.unchecked_citations(corpus, served_offset, most=AT_ONCE):
            told += _tell(due, ledger, _held(due, reader, second, covering), now)
            if len(due) < AT_ONCE:
                break
    except SluiceError as error:
        log.warning("stale_answers_not_told", corpus=corpus, error=repr(error))
    return tuple(told)


def _held(due: Iterable[CitedChunk], own: Reader, second: Reader | None, covering: int) -> Mapping[str, _Held]:
    """Read the cited documents in the index; those that still wait for the corpus's model in its second one."""
    found: dict[str, _Held] = {}
    for document_id in {cited.document_id for cited in due}:
        chunks, facts = own.chunks(document_id, covering), own.document(document_id)
        if facts is None and second is not None:
            chunks, facts = second.chunks(document_id), second.document(document_id)
        found[document_id] = _Held(
            frozenset(chunk.chunk_id for chunk in chunks),
            frozenset(chunk.checksum for chunk in chunks),
            facts.provenance.fetched_at if facts else None,
        )
    return found


def _tell(due: Iterable[CitedChunk], ledger: Ledger, held: Mapping[str, _Held], now: datetime) -> Iterable[str]:
    standing: list[CitedChunk] = []
    stale: defaultdict[str, dict[int, StaleCitation]] = defaultdict(dict)
    for cited in due:
        document = held[cited.document_id]
        if document.has(cited):
            standing.append(cited)
        else:
            stale[cited.run_id].setdefault(cited.citation, _stale(cited, document, now))
    ledger.pass_citations(standing)
    for run_id, citations in stale.items():
        event = ledger.tell_stale(run_id, tuple(citations.values()))
        if event is not None:
            yield run_id
            for one in citations.values():
                metrics.STALE_CITATIONS.labels(one.what).inc()


def _stale(cited: CitedChunk, document: _Held, now: datetime) -> StaleCitation:
    what = "gone" if document.fetched_at is None else "changed"
    facts = shared_fields(StaleCitation, cited)
    return StaleCitation(what=what, changed_at=document.fetched_at or now, **facts)


def unseen_seconds(answer: Answer, page_memory: PageMemory, now: datetime) -> tuple[float, ...]:
    """Return, for each cited document of the web, the seconds since it was last read or seen unchanged.

    Submitted documents and files have no source that could be requested again.
    """
    read_at = {
        chunk.document_id: chunk.provenance.fetched_at
        for chunk in answer.chunks
        if chunk.provenance.source in ("crawl", "search")
    }
    seen_at = page_memory.seen_at(answer.corpus, tuple(read_at))
    latest = (max(moment, seen_at.get(document_id, moment)) for document_id, moment in read_at.items())
    return tuple(round(max(0.0, (now - moment).total_seconds()), 3) for moment in latest)
