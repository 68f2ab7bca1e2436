"""Events of the gate: request, coverage probe, decision, feedback."""

from __future__ import annotations

from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Moment, Switch, Value, is_empty, is_none
from sluice.contracts.budget import Ceiling, Ceilings, LaterAmount, LaterCount
from sluice.contracts.event import Body
from sluice.contracts.ingest import AskedRender, Vertical
from sluice.contracts.learning.control import Control, Judgement
from sluice.contracts.learning.run_outcome import DEFAULT_SIGNAL, OUTCOME_VALUES, FeedbackOutcome, Response, Signal
from sluice.contracts.memory.names import MemoryScope
from sluice.contracts.plan import Plan
from sluice.contracts.profiles import DomainMeasures
from sluice.contracts.retrieval import PromptMessage, QueryText, SearchOptions

ProfileName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]


SessionId = Annotated[str | None, Field(min_length=1, max_length=128, exclude_if=is_none)]
"""The agent's own name of its session. While a model is rolled out, all requests of a session get the same gate."""


class Message(PromptMessage):
    """One message of the agent's session so far."""

    content: Annotated[str, Field(max_length=32_000)]


class Limits(Value):
    """Ceilings of one run. None takes the configured default; a request may lower it, never raise it. `max_tokens`
    limits embedded tokens, `max_milliseconds` the time of searching and fetching pages."""

    max_pages: Annotated[int, Field(ge=0)] | None = None
    max_depth: Annotated[int, Field(ge=0, le=5)] | None = None
    max_bytes: Annotated[int, Field(ge=0)] | None = None
    max_usd: Annotated[float, Field(ge=0)] | None = None
    max_tokens: LaterCount = None
    max_milliseconds: LaterAmount = None


Site = Annotated[str, Field(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", max_length=253)]


class SearchWishes(Value):
    """What a request asks of web search. It narrows what the settings allow, and widens nothing."""

    locale: Annotated[str | None, Field(pattern=r"^[a-z]{2,3}(-[A-Z]{2})?$")] = None
    """Language, and country where results should come from there: `de`, `pt-BR`. None takes the configured one."""
    top_k: Annotated[int | None, Field(ge=1, le=50)] = None
    """Number of results of one search, within the configured cost of one. None takes the configured number."""
    sites: Annotated[tuple[Site, ...], Field(max_length=10)] = ()
    """Domains that alone may be found, with those below them; empty for all. The settings' own list holds besides."""
    after: date | None = None
    """Results that say that they are from an earlier day are left out."""
    before: date | None = None
    """Results that say that they are from a later day are left out."""
    freshness: Literal["day", "week", "month", "year"] | None = None
    """Another way to say `after`: within the last day, week, month or year."""

    @property
    def filters(self) -> dict[str, str]:
        """Return the filters that a search directive holds."""
        told = {
            "site": ",".join(self.sites),
            "after": self.after and self.after.isoformat(),
            "before": self.before and self.before.isoformat(),
            "freshness": self.freshness,
        }
        return {name: value for name, value in told.items() if value}


AskedMemory = Annotated[MemoryScope | None, Field(exclude_if=is_none)]
"""The feature whose memory counts beside the session's messages, if `memory.in_gate` and the flag `memory` are on."""


class GateOptions(SearchOptions):
    """An agent's request to the gate. `plan` overrides the score (never a veto), and the run keeps to it whatever the
    answer is; `seeds` are URLs to crawl first."""

    profile: ProfileName = "default"
    session: Annotated[tuple[Message, ...], Field(max_length=64)] = ()
    limits: Limits = Limits()
    plan: Plan | None = None
    seeds: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    max_tokens: Annotated[int, Field(ge=1, le=200_000)] = 4_000
    render: AskedRender = None
    screenshot: Switch = False
    session_id: SessionId = None
    memory: AskedMemory = None
    search: Annotated[SearchWishes | None, Field(exclude_if=is_none)] = None
    """What web search, if the gate chooses it, has to heed."""


class GateRequested(GateOptions, Body, queue="query"):
    """An agent sent a request to the gate."""

    deadline_at: Moment | None = None


class ProbeHit(Value):
    """One candidate of the probe. `dense_similarity` is a cosine in [-1, 1], `lexical_score` a BM25 score."""

    chunk_id: str
    document_id: str
    url: str | None = None
    dense_similarity: float | None = None
    lexical_score: float | None = None
    fetched_at: Moment
    published_at: Moment | None = None


class QueryTerm(Value):
    """A content word of the query: its inverse document frequency here, and whether the top hits hold it."""

    term: str
    idf: float
    covered: bool


class ProbeSentence(Value):
    """A sentence of a top hit, and its match with the question."""

    chunk_id: str
    term_coverage: Annotated[float, Field(ge=0, le=1)]
    """Share of the question's idf mass found in it, the sentence before it and its headings."""
    similarity: float | None = None
    """Its cosine to the question, in [-1, 1]; None where the question has no vector, or no cosine changes the plan."""


class CoverageProbed(Body, queue="gate"):
    """The coverage of the query by the local corpus: all measurements that the gate decides by."""

    generation: str | None
    journal_offset: int = 0
    chunk_count: int = 0
    model_fingerprint: str
    hits: tuple[ProbeHit, ...] = ()
    terms: tuple[QueryTerm, ...] = ()
    intent_similarity: dict[str, float] = Field(default_factory=dict)
    """Cosine of the query to the nearest prototype of each intent."""
    heads: Annotated[dict[str, float], Field(default_factory=dict, exclude_if=is_empty)]
    """What the query's words and vector tell (`gate.heads`); empty in older probes."""
    session_similarity: tuple[float, ...] = ()
    """Cosine of the query to each message of the session, in order."""
    session_term_coverage: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the query's idf mass found in the session's messages."""
    probed_at: Moment
    embedder_down: Annotated[str | None, Field(exclude_if=is_none)] = None
    """The reason why the question has no vector. The hits are then those of BM25, and no new text can be embedded."""
    judgement: Annotated[Judgement | None, Field(exclude_if=is_none)] = None
    """The judge's verdict on whether the passages answer the question; None where the gate did not call it."""
    sentences: Annotated[tuple[ProbeSentence, ...], Field(exclude_if=is_empty)] = ()
    """The sentences of the top hits that hold most of the question's words, best first; older probes have none."""
    memory_similarity: Annotated[tuple[float, ...], Field(exclude_if=is_empty)] = ()
    """Cosine of the query to each text of the agent's memory that can hold an answer; their words count in
    `session_term_coverage`. Empty where memory was not read."""
    domain: Annotated[DomainMeasures | None, Field(exclude_if=is_none)] = None
    """Further measurements of the profile's domain; None where the profile gives them no weight."""
    answerable: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Probability that the corpus answers the query: the confidence of the answer that it would give now. None in older
    probes."""
    abstained: LaterText = None
    """Why the answer would have cited nothing: set in the probe of a run's second decision."""


class Contribution(Value):
    """The contribution of one feature to the score: `weight * value`. `raw` is the measurement behind `value`."""

    feature: str
    value: float
    weight: float
    contribution: float
    raw: str = ""


class Veto(Value):
    """A rule or ceiling that lowered the plan, the plans before and after, and the change that would lift it."""

    name: str
    lowered_from: Plan
    lowered_to: Plan
    why: str
    lifted_by: str


class PolicyState(Value):
    """The actions that the owner's rules allowed at the time of the decision, and why the others were off."""

    search_allowed: bool
    crawl_allowed: bool
    search_reason: str = ""
    crawl_reason: str = ""


class BudgetState(Value):
    """The budget left to the run and its UTC day at the decision, and the most that a search uses. None: no ceiling."""

    run_usd_left: Annotated[float, Field(ge=0)] | None = None
    day_usd_left: Annotated[float, Field(ge=0)] | None = None
    run_pages_left: Annotated[int, Field(ge=0)] | None = None
    day_pages_left: Annotated[int, Field(ge=0)] | None = None
    search_usd_estimate: float = 0.0
    """The most that one search may cost, with every fail-over."""
    run_bytes_left: LaterCount = None
    day_bytes_left: LaterCount = None
    run_tokens_left: LaterCount = None
    day_tokens_left: LaterCount = None
    run_milliseconds_left: LaterAmount = None
    day_milliseconds_left: LaterAmount = None
    search_milliseconds_estimate: Annotated[float, Field(ge=0, exclude_if=is_empty)] = 0.0
    """The longest that one search may take, with every fail-over."""

    @classmethod
    def of(cls, left: Ceilings, *, search_usd: float, search_milliseconds: float) -> BudgetState:
        """Return the state for the amounts left, and for the most that one search uses."""
        amounts = {f"{whose}_{unit}_left": amount for whose, ceiling in left for unit, amount in ceiling}
        return cls(search_usd_estimate=search_usd, search_milliseconds_estimate=search_milliseconds, **amounts)

    @property
    def left(self) -> Ceilings:
        """Return the amounts that may still be reserved."""
        run, day = ({unit: getattr(self, f"{whose}_{unit}_left") for unit in Ceiling.model_fields} for whose in _WHOSE)
        return Ceilings(run=Ceiling(**run), day=Ceiling(**day))


_WHOSE = ("run", "day")


class SearchAim(Value):
    """Target of one search query: the part of the web and the filters (as in `SearchDirected`)."""

    vertical: Vertical = "web"
    filters: dict[str, str] = Field(default_factory=dict)


class DecisionFields(Value):
    """The plan, and all inputs of the decision."""

    plan: Plan
    scored_plan: Plan
    requested_plan: Plan | None = None
    score: float
    threshold_search: float
    threshold_full_loop: float
    contributions: tuple[Contribution, ...]
    vetoes: tuple[Veto, ...] = ()
    search_seeds: tuple[str, ...] = ()
    search_aims: Annotated[tuple[SearchAim, ...], Field(exclude_if=is_empty)] = ()
    """One for each of `search_seeds`, in their order; left out where all of them search the whole web."""
    crawl_seeds: tuple[str, ...] = ()
    intent: str
    profile: str
    profile_version: int
    config_hash: str
    coverage_probability: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Probability that the corpus answers the question, by the profile's calibration; None without a calibration."""
    generation: str | None = None
    policy: PolicyState
    budget: BudgetState
    control: Annotated[Control | None, Field(exclude_if=is_none)] = None
    """The controls beside the profile that took part in the decision; None where there were none."""
    decided_at: Moment


class GateDecided(DecisionFields, Body):
    """The plan, and all inputs of the decision. Recomputing it from its recorded signals gives the same bytes."""


class Directives(Value):
    """The orders of a decision as three switches, and the contribution of each feature to the score."""

    use_retrieval: bool
    use_search: bool
    use_crawl: bool
    justification: dict[str, float]
    """Contribution (weight x value) by feature; a feature without a weight contributes 0."""

    @staticmethod
    def fields_of(decided: DecisionFields) -> dict[str, object]:
        """Return the values of these fields for `decided`."""
        return {
            "use_retrieval": decided.plan is not Plan.SKIP,
            "use_search": decided.plan in (Plan.SEARCH, Plan.FULL_LOOP) and bool(decided.search_seeds),
            "use_crawl": decided.plan is Plan.FULL_LOOP,
            "justification": {part.feature: part.contribution for part in decided.contributions},
        }


class Decision(Directives, DecisionFields):
    """A decision for agents: the recorded one, and its orders."""

    @classmethod
    def of(cls, decided: GateDecided) -> Decision:
        """Return the recorded decision with its orders."""
        return cls(**dict(decided), **cls.fields_of(decided))


class RagDirectivesEvaluated(Directives, Body):
    """The gate's orders for one question, recorded and handled by no queue. The envelope's `run_id` serves as the
    task's id. `gate_model_version` is the version of the learned model that chose the plan, or `heuristic`."""

    kind: ClassVar[str] = "rag_directives_evaluated"

    query: QueryText
    plan: Plan
    profile: str
    search_seeds: tuple[str, ...] = ()
    crawl_seeds: tuple[str, ...] = ()
    gate_model_version: str

    @classmethod
    def of(cls, request: GateRequested, decided: GateDecided, gate_model_version: str) -> RagDirectivesEvaluated:
        """Return the orders of `decided` for `request`."""
        return cls(
            query=request.query,
            plan=decided.plan,
            profile=decided.profile,
            search_seeds=decided.search_seeds,
            crawl_seeds=decided.crawl_seeds,
            gate_model_version=gate_model_version,
            **cls.fields_of(decided),
        )


class Feedback(Value):
    """Feedback on an answer: the chunks used, the outcome, a rating from 0 to 1."""

    chunk_ids_used: tuple[str, ...] = ()
    outcome: FeedbackOutcome = "unknown"
    rating: Annotated[float, Field(ge=0, le=1)] | None = None
    note: Annotated[str, Field(max_length=4_000)] = ""
    signal: Signal = DEFAULT_SIGNAL
    response: Response = None
    """The text that the agent produced from the answer."""


class FeedbackGiven(Feedback, Body, queue="gate"):
    """An agent gave feedback on an answer."""

    @property
    def value(self) -> float | None:
        """Return the value of the answer in [0, 1]: the rating, else the value of the outcome; None if unknown."""
        return OUTCOME_VALUES.get(self.outcome) if self.rating is None else self.rating
