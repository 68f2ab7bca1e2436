"""What the server answers on: everything else. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sluice_client.models.base import Model
from sluice_client.models.answers import Defence, EdgeType, Finding, GraphPath, NodeLabel, Origin, Plan


class AbReport(Model):  # One model's report
    model_version: str
    model_sha256: str
    status: str
    share: float
    since: datetime
    headline: str
    verdict: StageVerdict
    stage_runs: int
    expected_runs: int | None
    arms: dict[str, ArmSize]
    plans: PlanDifferences

class AgeGroup(Model):  # Documents of one age: since they were fetched, or last seen unchanged.
    days: int | None
    documents: int

class ApiKey(Model):  # An API key, without its secret.
    expires_at: datetime | None = None
    requests_per_minute: int | None = None
    name: str
    role: Literal['agent', 'operator'] | str = 'agent'
    corpora: list[str] = []
    id: str
    created_at: datetime
    revoked_at: datetime | None = None

class ArmSize(Model):  # The size of an arm: its runs, its units of the draw, and the runs that ended, failed and were
    runs: int
    units: int
    ended: int
    failed: int
    judged: int

class Artefact(Model):  # A file of the instance under `/v1/artefacts/{id}`.
    id: str
    bytes: int
    manifest: ExportManifest

class CorpusPolicyView(Model):  # What a corpus may take in, by the instance's settings and its own together.
    search: bool
    crawl: bool
    sources: list[str] | None
    forbidden_patterns: int

class CorpusSettings(Model):  # Settings of one corpus
    description: str = ''
    search: bool = True
    crawl: bool = True
    sources: list[str] = []

class CorpusState(Model):  # `GET /v1/corpora/{corpus}/state`: what is behind the figures of a corpus.
    corpus: str
    generations: list[Generation]
    journal_end: int
    journal_lag: int
    ages: list[AgeGroup]
    looked_at: int
    held: int
    freshness_job_at: datetime | None
    graph_behind: int | None

class CorpusView(Model):  # One corpus as it is served now
    name: str
    version: int
    created_at: datetime | None
    created_by: str | None
    settings: CorpusSettings
    policy: CorpusPolicyView
    engine: str
    documents: int
    chunks: int
    generation: str | None
    journal_offset: int
    bytes: int
    embedding_model: str | None

class CrawlDecision(Model):  # One decision about a page.
    about: str
    what: str

class CypherResult(Model):  # Rows of a Cypher question, and the generation of the graph that they come from
    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool = False
    generation: str
    behind: int = 0
    duration_ms: float

class DeadLetterFilter(Model):  # A filter of dead letters; all given conditions must hold
    corpora: list[str] | None = None
    stage: Literal['gate', 'search', 'crawl', 'chunk', 'embed', 'index', 'query', 'graph'] | str | None = None
    reason: Literal['exhausted', 'poison', 'malformed', 'unroutable', 'policy', 'timeout', 'discarded'] | str | None = None
    kind: str | None = None
    fingerprint: str | None = None
    run_id: str | None = None
    replay_id: str | None = None
    up_to: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    status: Literal['parked', 'replayed', 'purged'] | str | Literal['any'] | str = 'parked'

class DeadLetterGroup(Model):  # Letters with one fingerprint: one failure, many times
    fingerprint: str
    position: str
    count: int
    stage: str
    exception_type: str
    reasons: list[Literal['exhausted', 'poison', 'malformed', 'unroutable', 'policy', 'timeout', 'discarded'] | str]
    kinds: list[str]
    first_seen: datetime
    last_seen: datetime
    example_id: str
    message: str
    code_versions: list[str] = []
    by_hour: list[int] = []

class DeadLetterSummary(Model):  # A dead letter in a list
    id: str
    position: str
    event_id: str | None
    cause_id: str | None
    run_id: str | None
    corpus: str | None
    stage: str
    kind: str | None
    schema_version: int | None
    code_version: str
    idempotency_key: str | None
    reason: Literal['exhausted', 'poison', 'malformed', 'unroutable', 'policy', 'timeout', 'discarded'] | str
    exception_type: str
    message: str
    fingerprint: str
    attempts: int
    deliveries: int
    first_seen: datetime
    last_seen: datetime
    worker: str | None
    traceparent: str | None
    sha256: str
    replay_count: int
    status: Literal['parked', 'replayed', 'purged'] | str
    replayed_as: str | None
    replay_id: str | None
    operator: str | None
    note: str | None

class DefenceView(Model):  # One defence of the gate for a profile, a corpus and an owner ("*" for all)
    name: Literal['satisfaction', 'freshness', 'latency', 'cost'] | str
    profile: str
    corpus: str = '*'
    owner: str = '*'
    pinned: Literal['on', 'off'] | str | None = None
    stands: Defence | None = None
    configuration: str | None = None
    falls_back_to: str | None = None
    windows: list[str] = []

class Evaluation(Model):  # `GET /v1/evaluation`: how the runs did that were decided from `since` to before `until`.
    since: datetime
    until: datetime
    by: Literal['plan', 'profile', 'model', 'flags'] | str
    rows: list[EvaluationRow]
    total: Summary

class EvaluationRow(Model):  # The runs of one profile; grouped by plan, model or flags, of one plan, of one model and
    profile: str
    plan: Plan | None = None
    model_version: str | None = None
    arm: Literal['shadow', 'canary', 'control', 'default', 'promoted'] | str | None = None
    flags: str | None = None
    summary: Summary

class ExplainedCrawl(Model):  # `POST /v1/crawl/explain`: each decision about one page
    url: str
    ended: str
    decisions: list[CrawlDecision]

class ExportManifest(Model):  # What an exported corpus holds, with the hashes of its two files as they are in the tar.
    format: Literal[1] = 1
    corpus: str
    exported_at: datetime
    generation: str | None
    journal_offset: int
    documents: int
    chunks: int
    model: str | None
    dimension: int
    files: dict[str, str]

class Filters(Model):  # Conditions that a chunk must all meet: a short form of `where`
    document_ids: list[str] = []
    url_prefix: str | None = None
    path_prefix: str | None = None
    domains: list[str] = []
    languages: list[str] = []
    sources: list[str] = []
    fetched_after: datetime | None = None
    metadata: dict[str, str | int | float | bool] | None = None

class FlagResult(Model):  # The resulting flag
    state: FlagState
    run_id: str | None = None
    purged: int = 0

class FlagState(Model):  # The current state of a feature flag, and its source
    name: Literal['gate_weights', 'search', 'crawl', 'hybrid', 'rerank', 'learned_gate', 'ragas', 'graph', 'memory'] | str
    enabled: bool
    share: float | None = None
    decided_by: Literal['kill_switch', 'policy', 'environment', 'stored', 'default'] | str
    why: str = ''
    changed_at: datetime | None = None
    operator: str | None = None
    note: str = ''

class ForgetProof(Model):  # The remaining traces of forgotten documents, by place.
    corpus: str
    selection: Selection
    traces: list[Trace]

class ForgottenEntry(Model):  # An entry of the negative list.
    id: str
    corpus: str
    kind: Literal['url', 'url_prefix', 'document_id', 'run_id', 'submitted_by', 'checksum'] | str
    value: str
    at: datetime
    operator: str
    note: str

class GateProfile(Model):  # A profile of the gate: the scores from which a run searches, and crawls too, and when it
    name: str
    version: int
    config_hash: str
    search: float
    full_loop: float
    skip: float
    weights: dict[str, float]
    is_former: bool = False

class Generation(Model):  # One generation of a corpus on the disk of this instance.
    name: str
    is_current: bool
    journal_offset: int
    documents: int
    chunks: int
    bytes: int
    sha256: str
    created_at: datetime | None
    problem: str = ''

class GraphProof(Model):  # The graph rebuilt from the journal, compared with the incremental one: by `sluice graph
    corpus: str
    documents: int
    edges: int
    grown_sha256: str
    rebuilt_sha256: str
    differing: list[str] = []

class GraphServerHealth(Model):  # Whether the graph server answers
    status: Literal['healthy', 'unhealthy'] | str
    message: str

class GraphStatus(Model):  # The state of a corpus's graph
    corpus: str
    documents: int
    edges: int
    version: int
    graph_sha256: str
    parser_version: str
    generation: str | None
    published_version: int
    published_nodes: int = 0
    published_edges: int = 0
    published_at: datetime | None = None
    cypher_version: int | None = None
    server_version: int | None = None
    problem: str | None = None

class Health(Model):  # `/healthz`: 200 when every part is well, 503 otherwise.
    ok: bool
    version: str
    checks: dict[str, HealthCheck]

class HealthCheck(Model):  # One part of `/healthz`.
    ok: bool
    detail: str = ''
    facts: dict[str, Any] | None = None

class HostView(Model):  # `GET /v1/hosts`: the crawl's counters for one host over the requested days.
    requests: int = 0
    pages: int = 0
    failures: int = 0
    robots_refusals: int = 0
    egress_refusals: int = 0
    received_bytes: int = 0
    rendered: int = 0
    waited_seconds: float = 0.0
    host: str
    interval_seconds: float = 0.0
    refusals: dict[str, int] | None = None
    success_share: float
    render_share: float

class Interval(Model):  # An estimate of `count` observations and the ends of its interval.
    estimate: float
    low: float
    high: float
    count: int

class LetterAttempt(Model):  # A claim on a letter's event: `ready_at` is since when it waited, `ending` how it ended
    epoch: int
    worker: str
    ready_at: datetime
    claimed_at: datetime
    ended_at: datetime | None
    ending: str | None
    why: str | None

class Linked(Model):  # Documents linked to a failing test that touches a module.
    module: str
    tests: list[NodeView]
    documents: list[LinkedDocument]
    generation: str

class LinkedDocument(Model):  # A document that is linked to the requested module, and the path to it
    document: NodeView
    kind: Literal['docs', 'code', 'tests'] | str = 'docs'
    score: float
    path: GraphPath

class MarkedPassage(Model):  # A passage of a corpus with what is said against it.
    chunk_id: str
    document_id: str
    url: str | None = None
    doubt: float
    reasons: dict[str, int]
    keys: int
    last_at: datetime

class MetricComparison(Model):  # One metric in both arms
    metric: Literal['satisfaction', 'usd', 'milliseconds', 'external_calls'] | str
    canary: float | None
    control: float | None
    canary_count: int
    control_count: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None

class NearDocument(Model):  # A document near to a question
    document_id: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    score: float

class NearLink(Model):  # A document that a near one refers or links to, by `shared` names; `names` are some of them.
    from_document_id: str
    document_id: str
    path: str | None = None
    url: str | None = None
    title: str | None = None
    names: list[str]
    shared: int

class NearestDocuments(Model):  # The documents that a graph server ranks nearest to a question, and the documents
    documents: list[NearDocument]
    linked: list[NearLink]
    by_vector_index: bool

class NeighbourView(Model):  # A node next to another, and the edge between them.
    node: NodeView
    edge: EdgeType
    direction: Literal['out', 'in'] | str
    origin: Origin
    lines: list[int] = []
    detail: str = ''
    candidates: int = 1

class Neighbours(Model):  # A node and its neighbours, the surest edges first.
    node: NodeView
    neighbours: list[NeighbourView]
    total: int
    generation: str

class NodeView(Model):  # A node: `id` is its label and key, like `Symbol:python:shop.cart.Cart`; `name` is for people.
    id: str
    label: NodeLabel
    name: str
    path: str | None = None
    url: str | None = None
    title: str | None = None

class OpenRun(Model):  # A run that is not finished.
    run_id: str
    kind: str
    corpus: str
    query: str | None = None
    created_at: datetime
    retrying: int = 0

class OperatorAction(Model):  # An operator's action on a dead letter or a bulk replay.
    at: datetime
    operator: str
    action: str
    note: str

class Overview(Model):  # The state of an instance
    at: datetime
    ok: bool
    version: str
    stages: list[StageNow]
    checks: dict[str, HealthCheck]
    open_breakers: list[str] = []
    letters: dict[str, int]
    letters_today: int = 0
    oldest_runs: list[OpenRun] = []
    spending: list[Spending] = []
    generations: dict[str, str | None]
    last_backup_at: datetime | None = None
    last_backup: str | None = None
    missing: list[str] = []

class PassedEvent(Model):  # The latest event of a letter's kind and corpus that was handled, to compare the letter's
    event_id: str
    run_id: str
    payload: Payload

class PastPayload(Model):  # A payload that an operator replaced at `at`.
    at: datetime
    operator: str
    sha256: str
    payload: Payload

class Payload(Model):  # Received bytes: as text if they are UTF-8, else in base64.
    encoding: Literal['utf-8', 'base64'] | str
    text: str

class PlanDifference(Model):  # Runs for which the gate's weights choose one plan and the model another.
    heuristic: Plan
    model: Plan
    runs: int

class PlanDifferences(Model):  # The model's plans compared with those of the profile's weights for the same runs.
    asked: int = 0
    alike: int = 0
    differences: list[PlanDifference] = []
    usd_difference: float | None = None

class PlanHour(Model):  # The decisions of one hour, by plan.
    at: datetime
    plans: dict[str, int]

class PlannedGroup(Model):  # The planned bulk replay of the letters with one fingerprint.
    fingerprint: str
    replayable: int
    skips: dict[str, int]

class PromptView(Model):  # A template of prompts, which `prompt` of a question or a search may name: by its name, or
    name: str
    version: int
    full_name: str
    summary: str

class Purged(Model):  # Number of letters that the filter matched, and number that were emptied
    matching: int
    purged: int
    up_to: str | None = None

class QuarantinedChunk(Model):  # A chunk in a list
    id: str
    position: str
    corpus: str
    document_id: str
    document_sha256: str
    chunk_id: str
    checksum: str
    url: str | None
    file_path: str | None
    origin: Literal['crawled', 'searched', 'submitted', 'operator', 'file'] | str
    submitted_by: str | None
    findings: list[Finding]
    inspected_by: str | None
    run_id: str | None
    held_at: datetime
    state: Literal['held', 'released', 'purged'] | str
    operator: str | None
    decided_at: datetime | None
    note: str | None

class Rebuilt(Model):  # The number of runs whose outcomes were made again from their events.
    runs: int

class Redelivered(Model):  # Number of deliveries that will be sent again; at most 10,000 at once, the oldest first.
    replayed: int

class Released(Model):  # A chunk was released
    id: str
    run_id: str | None
    waits_for: str | None = None

class ReplayPlan(Model):  # The response to a dry run
    total: int
    up_to: str
    replayable: int
    skips: dict[str, int]
    groups: list[PlannedGroup]

class ReplayView(Model):  # A bulk replay and its progress. Of `total` letters, `replayed` were replayed and `skips`
    id: str
    status: Literal['running', 'paused', 'done', 'aborted'] | str
    why: str | None
    filter: DeadLetterFilter
    per_second: float
    force: bool
    operator: str
    note: str
    created_at: datetime
    updated_at: datetime
    total: int
    replayed: int
    skips: dict[str, int]
    open: int
    succeeded: int
    parked_again: int
    cancelled: int
    abort_above: float = 0.2
    judged_from: int = 20

class Replayed(Model):  # A dead letter was replayed as `event_id`: a new id if its payload was edited.
    dead_letter_id: str
    event_id: str
    run_id: str

class RetrievalStats(Model):  # The contents of an engine for one corpus
    engine: str
    corpus: str
    generation: str | None
    journal_offset: int
    document_count: int
    chunk_count: int
    model_fingerprint: str | None

class RobotsFile(Model):  # The robots.txt of a site as the crawl keeps it, and what it says of one address, where one
    origin: str
    outcome: Literal['rules', 'open', 'closed'] | str
    reason: str
    expires_at: datetime
    text: str
    url: str | None = None
    allowed: bool | None = None
    line: str | None = None

class Rollout(Model):  # The current rollout of one model. The model decides `share` of the units, and as many are its
    model_version: str
    model_sha256: str
    unit: Literal['run', 'session'] | str = 'session'
    status: Literal['shadow', 'canary', 'promoted', 'stopped'] | str
    stages: list[float] = []
    expected_runs: list[int] = []
    share: float
    began_at: datetime
    stage_began_at: datetime
    changed_at: datetime
    operator: str
    history: list[RolloutStep] = []

class RolloutStep(Model):  # One change of a rollout, to a new state and share
    at: datetime
    operator: str
    verdict: Literal['promote', 'stop', 'continue', 'inconclusive'] | str | None = None
    why: str = ''
    canary_runs: int = 0
    control_runs: int = 0
    status: Literal['shadow', 'canary', 'promoted', 'stopped'] | str
    share: float

class Scaled(Model):  # What was recorded, and who brings it about.
    stage: Literal['gate', 'search', 'crawl', 'chunk', 'embed', 'index', 'query', 'graph'] | str
    workers_wanted: int
    is_scaled_here: bool
    how: str

class Schedule(Model):  # A schedule with its request, and how it went last
    id: str
    name: str
    crawl: dict[str, Any] | None = None
    map: dict[str, Any] | None = None
    scrape: dict[str, Any] | None = None
    documents: dict[str, Any] | None = None
    gate: dict[str, Any] | None = None
    corpus: str
    every: str | None
    cron: str | None
    time_zone: str
    owner: str
    created_at: datetime
    next_at: datetime | None
    stopped_because: str | None
    last_at: datetime | None
    last_run_id: str | None
    last_problem: str | None

class Selection(Model):  # A selection of documents: exactly one field is set.
    url: str | None = None
    url_prefix: str | None = None
    document_id: str | None = None
    run_id: str | None = None
    submitted_by: str | None = None
    filters: Filters | None = None
    where: dict[str, Any] | None = None
    everything: Literal[True] | None = None

class SettingView(Model):  # A setting in force
    setting: str
    value: Any
    source: str
    line: int | None = None

class Spending(Model):  # What all runs of this UTC day used, against its ceiling; null: none.
    unit: str
    used: float
    ceiling: float | None = None

class StageBacklog(Model):  # The work of one stage, for whoever decides how many workers it gets: a number of events
    ready: int
    claimed: int
    due_soon: int
    open: int

class StageFigures(Model):  # What a stage did over some hours.
    stage: Literal['gate', 'search', 'crawl', 'chunk', 'embed', 'index', 'query', 'graph'] | str
    minutes_each: int
    figures: list[StageMinute]

class StageMinute(Model):  # What a stage did in one minute
    at: datetime
    entered: int = 0
    handled: int = 0
    failed: int = 0
    parked: int = 0
    mean_wait_ms: float = 0.0
    mean_work_ms: float = 0.0
    longest_wait_ms: float = 0.0

class StageVerdict(Model):  # The verdict on a stage, with its reason and figures. `sample_ratio_p` is of the numbers
    kind: Literal['promote', 'stop', 'continue', 'inconclusive'] | str
    why: str
    canary_runs: int
    control_runs: int
    sample_ratio_p: float
    feedback_ratio_p: float
    metrics: list[MetricComparison]

class StageView(Model):  # One stage: its waiting events, and whether it is paused
    stage: Literal['gate', 'search', 'crawl', 'chunk', 'embed', 'index', 'query', 'graph'] | str
    ready: int
    claimed: int
    waiting: int
    oldest_ready_seconds: float
    paused_because: str | None = None
    paused_by: str | None = None
    paused_since: datetime | None = None
    probe_at: datetime | None = None

class Summary(Model):  # The figures of some runs
    runs: int = 0
    judged: int = 0
    coverage: float = 0.0
    satisfaction: Interval | None = None
    signals: dict[str, Interval] | None = None
    freshness_gain_seconds: Interval | None = None
    cited_age_seconds: float | None = None
    usd: Interval | None = None
    total_usd: float = 0.0
    usd_per_success: Interval | None = None
    mean_milliseconds: Interval | None = None
    p50_milliseconds: float | None = None
    p95_milliseconds: float | None = None
    external_calls: Interval | None = None
    precision_at_k: Interval | None = None
    token_spend: float | None = None
    crawl_success_rate: Interval | None = None
    failed: int = 0

class Trace(Model):  # A searched place, the number of items searched, and the traces found.
    place: str
    looked_at: int
    found: list[str] = []
    detail: str | None = None

class Webhook(Model):  # A webhook, and how its deliveries fare.
    id: str
    url: str
    types: list[str]
    corpora: list[str]
    description: str
    owner: str
    created_at: datetime
    disabled_at: datetime | None
    disabled_because: str | None
    failures: int
    failing_since: datetime | None
    paused_until: datetime | None
    pending: int

class WebhookDelivery(Model):  # One event for one webhook, and its last attempt.
    id: str
    type: str
    run_id: str | None
    corpus: str | None
    created_at: datetime
    status: Literal['pending', 'delivered', 'failed'] | str
    attempts: int
    next_attempt_at: datetime | None
    delivered_at: datetime | None
    http_status: int | None
    milliseconds: int | None
    answer: str | None
    error: str | None
    position: str

class WebhookSecret(Model):  # A new secret, shown this once
    id: str
    secret: str
    old_until: datetime

class WouldForget(Model):  # `POST /v1/forget?dry_run=true`: what would be forgotten of what is served now.
    corpus: str
    documents: int
    examples: list[str]

class DeadLetterView(DeadLetterSummary):  # A complete dead letter.
    stack: str
    payload: Payload
    payload_history: list[PastPayload] = []
    actions: list[OperatorAction] = []
    tries: list[LetterAttempt] = []
    passed: PassedEvent | None = None

class HostState(HostView):  # `GET /v1/hosts/{host}`: what the crawl did to a host, and how it stands.
    next_turn_at: datetime | None = None
    closed_until: datetime | None = None
    slow_seconds: float = 0.0
    circuit_opened_at: datetime | None = None
    robots: list[RobotsFile] = []
    rests: list[OperatorAction] = []

class MadeKey(ApiKey):  # A key that was just made, with its secret.
    key: str

class QuarantinedText(QuarantinedChunk):  # A complete chunk
    text: str | None
    section_path: list[str] = []
    actions: list[OperatorAction] = []

class RecordedAction(OperatorAction):  # An action on a subject
    position: str
    subject: str

class StageNow(StageView):  # One stage, with its pool and its last hour.
    workers: int
    workers_wanted: int
    is_scaled_here: bool
    minutes: list[StageMinute] = []

class WebhookMade(Webhook):  # A new webhook
    secret: str
