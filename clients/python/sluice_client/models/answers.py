"""What the server answers on: /v1/gate, /v1/runs, /v1/query, /v1/documents, /v1/uploads, /v1/scrape, /v1/map. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sluice_client.models.base import Event, Model

EdgeType = Literal['REFERS_TO', 'LINKS_TO', 'DEFINED_IN', 'CITED_BY', 'RESOLVES_TO', 'ALIAS_OF', 'INHERITS', 'HAS_TYPE'] | str
NodeLabel = Literal['Document', 'Symbol', 'URL', 'Tool', 'Conversation'] | str
Origin = Literal['scope', 'import', 'self', 'definition', 'link', 'tool', 'run', 'test', 'name', 'mention'] | str
Plan = Literal['skip', 'retrieve', 'search', 'full_loop'] | str
Strategy = Literal['bm25', 'vector', 'hybrid', 'hybrid_graph'] | str
Verdict = Literal['passed', 'warned', 'blocked'] | str

class Answer(Model):  # Cited context for an agent
    query: str
    corpus: str
    plan: Plan
    generation: str | None
    journal_offset: int
    context: str
    citations: list[Citation]
    chunks: list[RetrievedChunk]
    missing: list[Gap] = []
    confidence: float | None = None
    limits: str | None = None
    trust_scores: list[TrustScore] = []
    checks: list[GateCheck] = []
    insights: AnswerInsights | None = None

class AnswerInsights(Model):  # Findings over the whole answer
    answer_voices: list[Voice] = []
    corpus_voices: list[Voice] = []
    channels: Channels | None = None

class BatchResult(Model):  # What came of each item of a batch, in order.
    results: list[BatchStatus]

class BatchStatus(Model):  # What came of one item of a batch: the status and the body that the item alone would have
    status: int
    body: dict[str, Any]

class BudgetState(Model):  # The budget left to the run and its UTC day at the decision, and the most that a search uses
    run_usd_left: float | None = None
    day_usd_left: float | None = None
    run_pages_left: int | None = None
    day_pages_left: int | None = None
    search_usd_estimate: float = 0.0
    run_bytes_left: int | None = None
    day_bytes_left: int | None = None
    run_tokens_left: int | None = None
    day_tokens_left: int | None = None
    run_milliseconds_left: float | None = None
    day_milliseconds_left: float | None = None
    search_milliseconds_estimate: float = 0.0

class Channels(Model):  # The variety of an answer's sources.
    passages: dict[str, int]
    domains: int
    diversity: float

class ChunkView(Model):  # A passage of a document
    chunk_id: str
    ordinal: int
    start_line: int
    end_line: int
    page: int | None
    anchor: str | None
    section_path: list[str]
    symbol_path: str | None
    language: str | None
    token_estimate: int
    text: str | None
    withheld: str | None = None

class Citation(Model):  # The source of `[number]` in the context. `source` is the path, the URL or the id, with the
    number: int
    chunk_id: str
    source: str
    url: str | None = None
    title: str | None = None
    match: float
    author: str | None = None
    published_at: datetime | None = None
    licence: str | None = None
    site_name: str | None = None
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str | None = None
    trust: float | None = None
    confidence: float | None = None
    warnings: list[str] = []
    link: str | None = None
    insights: PassageInsights | None = None
    code: CodeSample | None = None
    graph_path: str | None = None

class Claim(Model):  # Words of a passage that need proof before they may be repeated as true.
    rule: str
    text: str
    needs: str
    source: str
    cites_evidence: bool = False

class CodeSample(Model):  # Facts that a tool needs before it runs code from a passage
    language: str | None
    executed: Literal[False] = False
    policy: Literal['allowed', 'needs_approval', 'denied'] | str
    why: list[str] = []

class Contribution(Model):  # The contribution of one feature to the score: `weight * value`
    feature: str
    value: float
    weight: float
    contribution: float
    raw: str = ''

class Control(Model):  # The controls of one decision beside its profile
    observe: bool = False
    flags_off: list[Literal['gate_weights', 'search', 'crawl', 'hybrid', 'rerank', 'learned_gate', 'ragas', 'graph', 'memory'] | str] = []
    defences: list[Defence] = []
    is_trickle: bool = False
    fallback_from: str | None = None
    model: ModelUse | None = None

class CorpusSearched(Model):  # The part of one corpus in a search of several.
    corpus: str
    generation: str | None
    journal_offset: int
    metadata: RetrievalMetadata

class Decision(Model):  # A decision for agents: the recorded one, and its orders.
    plan: Plan
    scored_plan: Plan
    requested_plan: Plan | None = None
    score: float
    threshold_search: float
    threshold_full_loop: float
    contributions: list[Contribution]
    vetoes: list[Veto] = []
    search_seeds: list[str] = []
    search_aims: list[SearchAim] = []
    crawl_seeds: list[str] = []
    intent: str
    profile: str
    profile_version: int
    config_hash: str
    coverage_probability: float | None = None
    generation: str | None = None
    policy: PolicyState
    budget: BudgetState
    control: Control | None = None
    decided_at: datetime
    use_retrieval: bool
    use_search: bool
    use_crawl: bool
    justification: dict[str, float]

class Defence(Model):  # A fallback in force: its trigger with the figures, and the condition that ends it. It concerns
    name: Literal['satisfaction', 'freshness', 'latency', 'cost'] | str
    step: Literal['previous_configuration', 'lower_plan', 'retrieve_only'] | str
    profile: str
    corpus: str | None = None
    owner: str | None = None
    since: datetime
    why: str
    lifted_by: str

class Disclosure(Model):  # Whether a passage that speaks for a brand discloses it: clearly, in unclear words, or not
    status: Literal['marked', 'unclear', 'missing'] | str
    text: str
    rule: str
    source: str

class DocumentCount(Model):  # `GET /v1/documents/count`.
    corpus: str
    documents: int

class DocumentText(Model):  # `GET /v1/documents/{id}/text`: lines of the extracted text, numbered as citations number
    document_id: str
    corpus: str
    url: str | None
    file_path: str | None
    title: str | None
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str
    fetched_at: datetime
    start_line: int
    end_line: int
    line_count: int
    text: str
    left_out: list[Lines] = []

class DocumentView(Model):  # A document as it is served now, without its text.
    id: str
    corpus: str
    url: str | None
    file_path: str | None
    title: str | None
    language: str | None
    source: Literal['crawl', 'search', 'submission', 'file'] | str
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str
    trust: float
    fetched_at: datetime
    published_at: datetime | None
    author: str | None
    run_id: str | None
    submitted_by: str | None
    checksum: str
    metadata: dict[str, str | int | float | bool]
    chunks: int | None = None

class EventsPart(Model):  # The next events of a run, as JSON: what the stream of the same address tells, in parts.
    data: list[Event]
    last_event_id: str
    has_ended: bool

class EvidenceView(Model):  # `GET /v1/runs/{run_id}/evidence/{number}`: the citation `[number]` of the run's answer.
    run_id: str
    number: int
    corpus: str
    question: str
    sentence: str | None
    sentence_of: Literal['response', 'context'] | str | None
    snippet: str
    matched: list[Span]
    withheld: str | None
    standing: Literal['trusted', 'unknown', 'held back'] | str
    trust: float | None
    trust_parts: list[TrustPart]
    doubt: float
    confidence: float | None
    outcomes: int
    outcomes_needed: int
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str
    source: str
    title: str | None
    author: str | None
    licence: str | None
    url: str | None
    link: str | None
    fetched_at: datetime
    revalidated_at: datetime | None
    generation: str | None
    rules: list[FiredRule]
    others: list[OtherSource]
    stale: StaleCitation | None
    document_id: str
    chunk_id: str
    start_line: int
    end_line: int
    is_kept: bool
    said: Literal['wrong', 'harmful', 'outdated', 'off_topic', 'attack', 'duplicate'] | str | None
    marks: int

class Explanation(Model):  # A recorded decision of the gate, and the same one computed again from its recorded inputs.
    identical: bool
    recorded: dict[str, Any]
    recomputed: dict[str, Any]
    before: Explanation | None = None

class Finding(Model):  # A finding of the guard: a rule, and the characters of the chunk's text that it matched
    rule: str
    start: int = 0
    end: int = 0
    score: float | None = None

class FiredRule(Model):  # A rule of the guard that marks the passage, with the words that it matched.
    rule: str
    text: str
    score: float | None

class Gap(Model):  # A part that the answer lacks, and the reason, so that nothing is missing silently.
    stage: str
    subject: str
    reason: str
    detail: str = ''
    lifted_by: str = ''

class GateCheck(Model):  # The outcome of a gate over a whole retrieval, such as `gate-i-source-trust`.
    id: str
    passed: bool
    severity: Literal['P0', 'P1', 'P2'] | str
    value: float
    threshold: float
    minimum: float | None = None
    detail: str | None = None

class GraphPath(Model):  # The edges that connect a result with the start of the walk: a retrieved passage, or a node
    start: str
    start_label: NodeLabel
    steps: list[PathStep]

class GraphUse(Model):  # The graph's contribution to one search
    candidates: int = 0
    abstained: str = ''
    is_asked_for: bool = False
    generation: str | None = None
    duration_ms: float = 0.0

class Inspection(Model):  # Findings in a chunk at ingest
    verdict: Verdict = 'passed'
    findings: list[Finding] = []
    private: list[PrivateSpan] = []

class JoinedRetrieval(Model):  # The ranked chunks of several corpora in one order; each names its corpus.
    corpora: list[CorpusSearched]
    chunks: list[RetrievedChunk]

class Lines(Model):  # Lines of a text, both inclusive, from 1.
    start_line: int
    end_line: int

class LinkView(Model):  # A link of a document.
    url: str
    words: str
    line: int
    document_id: str | None

class Mapped(Model):  # The addresses of a site, the best first: of its sitemaps, and of the links of one page.
    run_id: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    url: str | None = None
    urls: list[str] = []
    url_count: int = 0
    missing: list[Gap] = []

class ModelUse(Model):  # The part of a learned model in one decision. `bucket` in [0, 1) is the draw of `unit`;
    version: str
    model_sha256: str
    arm: Literal['shadow', 'canary', 'control', 'default', 'promoted'] | str
    unit: Literal['run', 'session'] | str = 'run'
    bucket: float
    propensity: float
    probability: float | None = None
    plan: Plan | None = None

class NextStep(Model):  # A tool to call next, with arguments as it has them over MCP
    tool: Literal['sluice_ask', 'sluice_query', 'sluice_read_document', 'sluice_get_run', 'sluice_list', 'sluice_add_documents', 'sluice_feedback', 'code_search'] | str
    arguments: dict[str, Any]
    why: str

class OtherSource(Model):  # Another site with a passage that probably answers as well, by its best citation in the
    site: str
    number: int
    confidence: float

class PassageInsights(Model):  # Findings in one cited passage.
    sentiment: Sentiment | None = None
    disclosure: Disclosure | None = None
    claims: list[Claim] = []
    channel: Literal['news', 'press_release', 'social', 'forum', 'owned', 'other'] | str | None = None

class PathStep(Model):  # One edge of a path, in reading direction: from the previous node to `name`
    edge: EdgeType
    is_reverse: bool = False
    origin: Origin
    label: NodeLabel
    name: str
    line: int | None = None
    candidates: int = 1

class PlanSummary(Model):  # A run in words that an agent can act on: what was decided and done, what is missing, and
    decided: str
    done: list[str] = []
    missing: list[str] = []
    next_steps: list[NextStep] = []

class PolicyState(Model):  # The actions that the owner's rules allowed at the time of the decision, and why the others
    search_allowed: bool
    crawl_allowed: bool
    search_reason: str = ''
    crawl_reason: str = ''

class PrivateSpan(Model):  # Characters of a chunk's text that hold private data or a secret (`text[start:end]`); never
    kind: str
    start: int
    end: int

class PromptMessage(Model):  # One message of a chat: the speaker's role and the content.
    role: Literal['user', 'assistant', 'system', 'tool'] | str
    content: str

class Provenance(Model):  # The provenance of a document: kept with every chunk, shown with every citation.
    source: Literal['crawl', 'search', 'submission', 'file'] | str
    fetched_at: datetime
    search_query: str | None = None
    provider: str | None = None
    crawl_depth: int | None = None
    rendered: bool = False
    etag: str | None = None
    last_modified: str | None = None
    published_at: datetime | None = None
    author: str | None = None
    run_id: str | None = None
    nosnippet: bool = False
    max_snippet: int | None = None
    submitted_by: str | None = None
    by_operator: bool = False
    first_seen_at: datetime | None = None
    signed_by: str | None = None
    file_sha256: str | None = None
    repository: str | None = None
    commit: str | None = None
    branch: str | None = None

class Retrieval(Model):  # The ranked chunks of one query, and the generation they came from (None: the corpus is
    generation: str | None
    journal_offset: int
    chunks: list[RetrievedChunk]
    metadata: RetrievalMetadata
    prompt: list[PromptMessage] = []

class RetrievalMetadata(Model):  # Facts about the search behind the result
    strategy: Strategy
    fusion: str
    duration_ms: float
    total_candidates: int
    trust_dropped: int = 0
    budget_dropped: int = 0
    duplicates_dropped: int = 0
    domain_dropped: int = 0
    reranked: bool = False
    rerank_failure: str | None = None
    rerank_asked: bool = False
    embedder_down: str | None = None
    fallback_model: str | None = None
    trust_scores: list[TrustScore] = []
    checks: list[GateCheck] = []
    confidence: float | None = None
    evidence: float | None = None
    limits: str | None = None
    confidence_dropped: int = 0
    guard_dropped: int = 0
    behind: int = 0
    graph: GraphUse | None = None

class RetrievedChunk(Model):  # A chunk with all its scores and ranks
    chunk_id: str
    document_id: str
    url: str | None
    file_path: str | None
    start_line: int
    end_line: int
    language: str | None
    section_path: list[str]
    symbol_path: str | None
    title: str | None
    text: str
    token_estimate: int
    checksum: str
    metadata: dict[str, str | int | float | bool]
    provenance: Provenance
    dense_distance: float | None
    dense_rank: int | None
    lexical_score: float | None
    lexical_rank: int | None
    fused_score: float
    rank: int
    trust: float
    rerank_score: float | None = None
    duplicates: list[str] = []
    passage: list[str] = []
    anchor: str | None = None
    page: int | None = None
    inspection: Inspection | None = None
    inspected_by: str | None = None
    confidence: float | None = None
    corpus: str | None = None
    graph_score: float | None = None
    graph_path: GraphPath | None = None

class RunAccepted(Model):  # A run was recorded and will be carried out.
    run_id: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    links: dict[str, str] | None = None

class RunSummary(Model):  # A run in a list.
    run_id: str
    kind: Literal['gate', 'documents', 'crawl', 'scrape', 'map', 'deletion', 'export', 'import', 'control', 'memory', 'graph'] | str
    corpus: str
    owner: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    query: str | None
    created_at: datetime
    finished_at: datetime | None
    usd: float
    plan: str | None = None
    dead_letters: int = 0
    retrying: int = 0

class RunView(Model):  # `GET /v1/runs/{id}`: the state of a run, with its decision, answer and spend.
    run_id: str
    kind: Literal['gate', 'documents', 'crawl', 'scrape', 'map', 'deletion', 'export', 'import', 'control', 'memory', 'graph'] | str
    corpus: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    query: str | None = None
    created_at: datetime
    deadline_at: datetime | None = None
    finished_at: datetime | None = None
    traceparent: str | None = None
    decision: Decision | None = None
    answer: Answer | None = None
    prompt: list[PromptMessage] = []
    missing: list[Gap] = []
    mended: list[Gap] = []
    spend: Spend = Field(default_factory=lambda: Spend())
    open_events: int = 0
    settled_events: int = 0
    dead_letters: int = 0
    journal_offset: int | None = None
    generation: str | None = None
    stale: list[StaleCitation] = []
    plan_summary: PlanSummary | None = None

class Scraped(Model):  # A page that was to be read
    run_id: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    page: ScrapedPage | None = None
    missing: list[Gap] = []

class ScrapedPage(Model):  # A page as it was read and inspected
    url: str
    document_id: str
    title: str | None = None
    language: str | None = None
    markdown: str
    links: list[LinkView] = []
    metadata: dict[str, str | int | float | bool] | None = None
    author: str | None = None
    published_at: datetime | None = None
    fetched_at: datetime
    rendered: bool = False
    checksum: str
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str
    verdict: Verdict = 'passed'
    findings: list[ShownFinding] = []
    left_out: list[Lines] = []
    masked: int = 0
    inspected_by: str | None = None

class SearchAim(Model):  # Target of one search query: the part of the web and the filters (as in `SearchDirected`).
    vertical: Literal['web', 'news', 'code'] | str = 'web'
    filters: dict[str, str] | None = None

class Sentiment(Model):  # The tone of an English passage, from -1 to 1, by a word lexicon
    score: float
    label: Literal['positive', 'neutral', 'negative'] | str

class ShownFinding(Model):  # What the guard found in a passage: its rule, the passage's lines, and the verdict on it.
    rule: str
    start_line: int
    end_line: int
    verdict: Verdict

class Span(Model):  # Characters of a text: `text[start:end]`.
    start: int
    end: int

class Spend(Model):  # Usage of one event, of a run, or of a day.
    pages: int = 0
    bytes: int = 0
    tokens: int = 0
    milliseconds: float = 0.0
    usd: float = 0.0

class StaleCitation(Model):  # A citation of an answer whose passage is no longer at its source.
    citation: int
    chunk_id: str
    document_id: str
    url: str | None = None
    what: Literal['changed', 'gone'] | str
    changed_at: datetime

class Timeline(Model):  # `GET /v1/runs/{run_id}/trace`: the steps of a run.
    run_id: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    created_at: datetime
    now_ms: float
    is_over: bool
    sum_line: str
    sums: list[TimelineSum]
    rows: list[TimelineRow]
    rows_in_all: int
    cuts: list[TimelineCut] = []
    traceparent: str | None = None

class TimelineCut(Model):  # A stretch in which nothing happened, more than a fifth of the whole: it is drawn as a mark.
    begins_ms: float
    ends_ms: float

class TimelineRow(Model):  # One stretch of the life of one event, or several of one kind folded together.
    event_id: str
    cause_id: str | None = None
    kind: str
    stage: Literal['gate', 'search', 'crawl', 'chunk', 'embed', 'index', 'query', 'graph'] | str | None = None
    label: str
    depth: int
    doing: Literal['waits', 'works', 'failed', 'died', 'backs_off', 'detail'] | str
    begins_ms: float
    took_ms: float
    why: str = ''
    worker: str | None = None
    attempt: int | None = None
    is_critical: bool = False
    is_under_way: bool = False
    folded: int = 1
    shortest_ms: float | None = None
    longest_ms: float | None = None
    ends_ms: list[float] = []

class TimelineSum(Model):  # A part of the time from the run's beginning to its end, along the chain of causes that
    name: Literal['waiting', 'working', 'backing off', 'failing', 'lost to dead workers'] | str
    ms: float
    parts: dict[str, float]

class TrustFactors(Model):  # The factors of a trust score
    domainTrust: float | None = None
    signatureValid: bool | None = None
    timeFreshness: float = 1.0
    authorReputation: float | None = None
    feedback: float | None = None

class TrustPart(Model):  # A part of a trust score: what it adds to it, below 0 too
    name: str
    adds: float | None
    why: str

class TrustScore(Model):  # The trust in a chunk's source, in [0, 1], with its factors.
    chunkId: str
    score: float
    factors: TrustFactors
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str

class Upload(Model):  # `POST /v1/uploads` and `GET /v1/uploads/{id}`: what has become of each file
    id: str
    corpus: str
    status: Literal['open', 'answering', 'finished', 'failed', 'cancelled'] | str
    files: list[UploadedFile]
    links: dict[str, str] | None = None

class UploadedFile(Model):  # One file of an upload, or of an archive in it, and what has become of it.
    name: str
    sha256: str | None = None
    document_id: str | None = None
    status: Literal['accepted', 'unchanged', 'indexed', 'refused', 'failed'] | str
    reason: str | None = None

class Veto(Model):  # A rule or ceiling that lowered the plan, the plans before and after, and the change that would
    name: str
    lowered_from: Plan
    lowered_to: Plan
    why: str
    lifted_by: str

class Voice(Model):  # Mentions of one brand in a set of passages
    brand: str
    passages: int
    documents: int
    share: float
    channels: dict[str, int] | None = None
