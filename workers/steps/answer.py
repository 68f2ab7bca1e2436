"""Answers: the run's question, or a direct query, put to the current generation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.base import fields_of
from sluice.contracts.budget import Spend
from sluice.contracts.errors import Unavailable
from sluice.contracts.event import AFTERWARDS, Gap
from sluice.contracts.gate import DecisionFields, GateRequested
from sluice.contracts.graph.retrieval import GraphUse
from sluice.contracts.index import Answer, AnswerDirected
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.learning.control import FlagName
from sluice.contracts.plan import Plan
from sluice.contracts.prompt import PromptMessage
from sluice.contracts.retrieval import Query, Retrieval, RetrievalMetadata, RetrievalPort, SearchOptions, Strategy
from sluice.gate.budget import lifted_by
from sluice.gate.profile import Profile
from sluice.index.search.compose_answer import compose_answer
from sluice.index.settings import RerankSettings
from sluice.ingest.embed.tokens import count_tokens
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.trust.confidence import Asked
from sluice.trust.prompts.catalogue import template_named
from sluice.trust.settings import TrustSettings
from sluice.workers.broker.direct_query import good_reply
from sluice.workers.steps.insights import add_insights, preferred_passages
from sluice.workers.steps.prompts import make_prompt, with_prompt
from sluice.workers.steps.trust.question import describe_question
from sluice.workers.steps.trust.trusted import apply_trust, count_gates
from sluice.workers.wiring.corpora import CorpusReaders
from sluice.workers.wiring.embedding import EmbeddingService

if TYPE_CHECKING:
    from tokenizers import Tokenizer


GRAPH_FLAG_OFF = "the flag graph is off"


class Answered(NamedTuple):
    """An answer, the gaps that only show now that it is given, what embedding its question and reranking cost, the
    prompt that was asked for, and the gate's profile."""

    answer: Answer
    gaps: tuple[Gap, ...]
    spend: Spend
    prompt: tuple[PromptMessage, ...] = ()
    profile: str | None = None


def read(
    query: Query,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    rerank: RerankSettings,
    trust: TrustSettings,
    tokenizer: Tokenizer,
    flags_off: Sequence[FlagName],
) -> bytes:
    """The reply to a direct query.

    Raises:
        InvalidInput: it asks for a prompt that there is not.
        NotFound: nothing was written to the corpus yet.
        SluiceError: as `retrieve`.
    """
    if query.prompt is not None:
        template_named(query.prompt)
    readers.existing(query.corpus)
    found, _ = retrieve(query, readers, embedding, rerank, trust, flags_off)
    shown = with_prompt(found, query, lambda text: count_tokens(text, tokenizer))
    return good_reply(shown.model_dump_json().encode())


def retrieve(
    query: Query,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    rerank: RerankSettings,
    trust: TrustSettings,
    flags_off: Sequence[FlagName] = (),
) -> tuple[Retrieval, Spend]:
    """Search one corpus, measured, what may not be served left out; and what embedding and reranking cost.

    What a flag has switched off is done without: a hybrid query finds by vectors alone, the fused order stands, and the
    graph is not searched. The result's metadata says so.
    """
    started = time.perf_counter()
    wanted, query = query, _allowed(query, flags_off)
    ranked, spend = _searched(query, readers, embedding)
    if wanted.rerank and not query.rerank and rerank.provider != "none":
        ranked = _with_metadata(ranked, rerank_failure="the flag rerank is off")
    if wanted.strategy is Strategy.HYBRID_GRAPH and "graph" in flags_off:
        ranked = _with_metadata(ranked, graph=GraphUse(abstained=GRAPH_FLAG_OFF))
    found = apply_trust(ranked, query, trust, _describe(query, ranked, readers), readers.top_passages(query.corpus))
    metrics.FUSION_SECONDS.observe(found.metadata.duration_ms / 1e3)
    count_gates(found.metadata)
    metrics.QUERY_SECONDS.labels(query.strategy).observe(time.perf_counter() - started)
    reranking = Spend(usd=rerank.usd_per_search if found.metadata.rerank_asked else 0.0)
    return found, spend + reranking


def _allowed(query: Query, flags_off: Sequence[FlagName]) -> Query:
    """The query without what is switched off."""
    changes: dict[str, object] = {}
    if "hybrid" in flags_off and query.strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH):
        changes["strategy"] = Strategy.VECTOR
    elif "graph" in flags_off and query.strategy is Strategy.HYBRID_GRAPH:
        changes["strategy"] = Strategy.HYBRID
    if "rerank" in flags_off:
        changes["rerank"] = False
    return query.model_copy(update=changes) if changes else query


def _with_metadata(found: Retrieval, **changes: object) -> Retrieval:
    return found.model_copy(update={"metadata": found.metadata.model_copy(update=changes)})


def _describe(query: Query, found: Retrieval, readers: CorpusReaders) -> Asked | None:
    """The question as its corpus sees it; None where nothing was found that could be judged by it."""
    if not found.chunks:
        return None
    stats = readers.retrieval(query.corpus).stats()
    return describe_question(query, found, stats, readers.reader(query.corpus).document_frequency)


def _searched(query: Query, readers: CorpusReaders, embedding: EmbeddingService) -> tuple[Retrieval, Spend]:
    """The result, and what embedding the query cost: twice where the corpus got another model meanwhile."""
    port = readers.retrieval(query.corpus)
    if query.strategy is Strategy.BM25:
        return port.retrieve(query), Spend()
    try:
        embedded = embedding.embed_question([query.query], embedding.fingerprint(query.corpus))
    except Unavailable as error:
        return _searched_by_words(query, port, str(error)), Spend()
    found = port.retrieve(query, embedded.vectors[0])
    if readers.reader(query.corpus).model_fingerprint in (None, embedded.fingerprint):
        return found, embedded.spend
    again, spend = _searched(query, readers, embedding)
    return again, embedded.spend + spend


def _searched_by_words(query: Query, port: RetrievalPort, why: str) -> Retrieval:
    """What BM25 alone finds, and why."""
    found = port.retrieve(query.model_copy(update={"strategy": Strategy.BM25}))
    return _with_metadata(found, embedder_down=why)


def answer_question(
    run_id: str,
    corpus: str,
    directed: AnswerDirected,
    *,
    ledger: Ledger,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    tokenizer: Tokenizer,
    rerank: RerankSettings,
    trust: TrustSettings,
    profiles: Mapping[str, Profile],
    may_search_graph: bool = False,
) -> Answered:
    """The cited answer of a run.

    It comes from a generation that covers what the run has indexed. Where it `may_search_graph` and the profile wants
    it, passages are searched by the graph too; where there should be a graph and is none, a gap says so.
    """
    run = ledger.run(run_id)
    request = ledger.events_of_kind(run_id, GateRequested.kind)[0].body_as(GateRequested)
    plan = run.decision.plan if run.decision else Plan.RETRIEVE
    strategy = _strategy_of(profiles.get(request.profile)) if may_search_graph else Strategy.HYBRID
    query = _query(request, corpus, directed, trust.confidence_floor, strategy)
    flags_off = run.decision.control.flags_off if run.decision and run.decision.control else ()
    may_rerank = query.rerank and "rerank" not in flags_off and plan is not Plan.SKIP
    unpaid = _unpaid_reranking(run_id, rerank, ledger) if may_rerank else ()
    if unpaid:
        query = query.model_copy(update={"rerank": False})
    found, spend = _nothing() if plan is Plan.SKIP else retrieve(query, readers, embedding, rerank, trust, flags_off)
    gaps = (
        *unpaid,
        *_without_vector(found, corpus),
        *_not_reranked(found, corpus),
        *_without_graph(found, corpus, ledger),
        *_lowered(run.decision),
        *_unfinished(run_id, directed, ledger),
        *_unused_seeds(run_id, request, plan, ledger),
    )
    if plan is not Plan.SKIP and found.generation is None:
        gaps = (*gaps, Gap(stage="query", subject=corpus, reason="empty_corpus", detail="nothing is indexed here"))
    answer = compose_answer(
        request.query,
        corpus,
        plan,
        found,
        request.max_tokens,
        (*run.missing, *gaps),
        count_tokens=lambda text: count_tokens(text, tokenizer),
        is_preferred=preferred_passages(profiles.get(request.profile)),
    )
    left_out = _left_out(found, answer, corpus)
    complete = answer.model_copy(update={"missing": (*answer.missing, *left_out)})
    complete = add_insights(complete, request, profiles.get(request.profile), readers)
    return Answered(complete, (*gaps, *left_out), spend, _prompt(request, complete, tokenizer), request.profile)


def _prompt(request: GateRequested, answer: Answer, tokenizer: Tokenizer) -> tuple[PromptMessage, ...]:
    if request.prompt is None:
        return ()
    return make_prompt(
        request.prompt, request.session, answer, request.max_tokens, lambda text: count_tokens(text, tokenizer)
    )


def _strategy_of(profile: Profile | None) -> Strategy:
    return profile.retrieval.strategy if profile is not None and profile.retrieval is not None else Strategy.HYBRID


def _query(request: GateRequested, corpus: str, directed: AnswerDirected, floor: float, strategy: Strategy) -> Query:
    options = fields_of(SearchOptions, request) | {"prompt": None}  # the prompt is made of the answer
    if request.confidence_floor is None:
        options["confidence_floor"] = _floor_of(request, floor)
    offset = directed.minimum_journal_offset
    return Query(**options, corpus=corpus, strategy=strategy, minimum_journal_offset=offset)


def _floor_of(request: GateRequested, floor: float) -> float | None:
    """None where the agent names the pages or documents to read: what is found there is what was asked for."""
    filters = request.filters
    names_documents = request.seeds or filters.document_ids or filters.url_prefix or filters.path_prefix
    return None if names_documents else floor


def _unpaid_reranking(run_id: str, rerank: RerankSettings, ledger: Ledger) -> tuple[Gap, ...]:
    """What keeps the run from having its passages reranked: a ceiling that leaves less than the price of it."""
    if rerank.provider == "none" or not rerank.usd_per_search:
        return ()
    short = ledger.budget_left(run_id).missing_for(Spend(usd=rerank.usd_per_search))
    why = "reranking costs more than is left"
    return tuple(
        Gap(stage="query", subject="rerank", reason="budget_exhausted", detail=why, lifted_by=lifted_by(ceiling))
        for ceiling in short
    )


def _without_vector(found: Retrieval, corpus: str) -> tuple[Gap, ...]:
    """What keeps the answer from being searched by meaning."""
    why = found.metadata.embedder_down
    if why is None:
        return ()
    lift = "the embedding model answers again"
    return (Gap(stage="query", subject=corpus, reason="embedder_down", detail=why, lifted_by=lift),)


def _not_reranked(found: Retrieval, corpus: str) -> tuple[Gap, ...]:
    failure = found.metadata.rerank_failure
    return (Gap(stage="query", subject=corpus, reason="not_reranked", detail=failure),) if failure else ()


def _without_graph(found: Retrieval, corpus: str, ledger: Ledger) -> tuple[Gap, ...]:
    """What keeps the answer from being searched by the graph: the flag, or files that are away while there are rows."""
    use = found.metadata.graph
    if use is None or not use.abstained or use.generation is not None:
        return ()
    if use.abstained == GRAPH_FLAG_OFF:
        lift = "sluice flags on graph"
    elif ledger.graph.totals(corpus).documents:
        lift = "the graph is published again"
    else:
        return ()
    return (Gap(stage="query", subject=corpus, reason="graph_not_searched", detail=use.abstained, lifted_by=lift),)


def _lowered(decision: DecisionFields | None) -> tuple[Gap, ...]:
    """What the plan would have fetched, had no veto lowered it."""
    return tuple(
        Gap(stage="gate", subject=veto.lowered_from, reason=veto.name, detail=veto.why, lifted_by=veto.lifted_by)
        for veto in (decision.vetoes if decision else ())
    )


def _unfinished(run_id: str, directed: AnswerDirected, ledger: Ledger) -> tuple[Gap, ...]:
    """The work that the deadline cut off, and where its stage rests, why; but for what no answer waits for."""
    if directed.reason != "deadline":
        return ()
    paused = {pause.stage: pause.why for pause in ledger.paused()}
    gaps: list[Gap] = []
    for stage, count in ledger.open_by_queue(run_id).items():
        others = count - (stage == AnswerDirected.queue)  # this answer is an open event itself
        if others and stage not in AFTERWARDS:
            detail = f"the stage is paused: {paused[stage]}" if stage in paused else "still going on"
            lift = f"sluice stages resume {stage}" if stage in paused else "more time"
            gaps.append(Gap(stage=stage, subject=f"{others} events", reason="deadline", detail=detail, lifted_by=lift))
    return tuple(gaps)


def _unused_seeds(run_id: str, request: GateRequested, plan: Plan, ledger: Ledger) -> tuple[Gap, ...]:
    if not request.seeds:
        return ()
    if plan is Plan.FULL_LOOP:
        why, lift = "the run's pages go to the seeds before it", "a higher crawl.max_pages, or fewer seeds"
    else:
        why, lift = f"plan {plan} crawls nothing", "plan full_loop in the request"
    crawled = {event.body_as(CrawlDirected).url for event in ledger.events_of_kind(run_id, CrawlDirected.kind)}
    return tuple(
        Gap(stage="gate", subject=url, reason="seed_not_crawled", detail=why, lifted_by=lift)
        for url in dict.fromkeys(request.seeds)
        if url not in crawled
    )


def _left_out(found: Retrieval, answer: Answer, corpus: str) -> tuple[Gap, ...]:
    """Why there is nothing to cite although the corpus is not empty."""
    if found.generation is None or answer.citations:
        return ()
    if found.chunks:
        why = f"none of the {len(found.chunks)} passages found fits max_tokens"
        return (Gap(stage="query", subject=corpus, reason="max_tokens", detail=why, lifted_by="a higher max_tokens"),)
    if found.metadata.confidence_dropped:
        why = f"the best of {found.metadata.confidence_dropped} passages found answers with a probability of "
        why += f"{found.metadata.confidence or 0.0:.2f}, which is below the floor"
        lift = "a lower confidence_floor, or more documents on this"
        return (Gap(stage="query", subject=corpus, reason="nothing_found", detail=why, lifted_by=lift),)
    why = "no passage meets the question, its filters and its trust threshold"
    return (Gap(stage="query", subject=corpus, reason="nothing_found", detail=why, lifted_by="wider filters"),)


def _nothing() -> tuple[Retrieval, Spend]:
    metadata = RetrievalMetadata(strategy=Strategy.HYBRID, fusion="none", duration_ms=0.0, total_candidates=0)
    return Retrieval(generation=None, journal_offset=0, chunks=(), metadata=metadata), Spend()
