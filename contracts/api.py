"""Requests and responses of the HTTP interface. The command line and the Python client use the same."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field, model_validator

from sluice.contracts.base import CorpusName, Moment, Switch, Value, is_empty, is_none, told, untold
from sluice.contracts.budget import Spend
from sluice.contracts.document import Scalar
from sluice.contracts.event import Event, Gap, Queue
from sluice.contracts.gate import Decision, Feedback, GateOptions, Limits
from sluice.contracts.index import Answer, StaleCitation
from sluice.contracts.ingest import AskedRender, UploadedFile
from sluice.contracts.learning.control import Defence, DefenceName, Pin
from sluice.contracts.learning.passages import PassageFeedback
from sluice.contracts.retrieval import Prompt, Query, QueryText
from sluice.contracts.trust import Origin, Signature

CreateCorpus = Annotated[bool, Field(exclude_if=is_empty)]
"""Whether to make the corpus if it does not exist; else that is an error (404)."""


class GateRequest(GateOptions):
    """`POST /v1/gate`. With `wait` the answer comes with the response, within the deadline."""

    corpus: CorpusName = "default"
    deadline_seconds: Annotated[float, Field(gt=0, le=3_600)] | None = None
    seeds: Annotated[tuple[Annotated[str, Field(max_length=4_096)], ...], Field(max_length=64)] = ()
    wait: bool = False
    create_corpus: CreateCorpus = False


class QueryRequest(Query):
    """`POST /v1/query`: a search of one corpus, or of several in one order."""

    corpora: Annotated[tuple[CorpusName, ...], Field(max_length=16, exclude_if=is_empty)] = ()
    """The corpora to search, in place of `corpus`. Not with `prompt` or `minimum_journal_offset`, which are of one."""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> QueryRequest:
        if self.corpora and ("corpus" in self.model_fields_set or self.prompt or self.minimum_journal_offset):
            raise ValueError("corpora goes without corpus, prompt and minimum_journal_offset")
        if len(set(self.corpora)) < len(self.corpora):
            raise ValueError("corpora names one twice")
        return self


class CodeSearchRequest(Value):
    """`POST /v1/code_search`: code that has to do with a question or with a piece of code."""

    query: QueryText
    corpus: CorpusName = "default"
    repo_path: Annotated[str | None, Field(max_length=4_096, exclude_if=is_none)] = None
    """Beginning of the paths of its files: a repository as it was ingested, or a folder of it. None for every one."""
    language: Annotated[str | None, Field(max_length=64, exclude_if=is_none)] = None
    """Programming language, as `python`; None for all."""
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    max_tokens: Annotated[int | None, Field(ge=1, le=200_000)] = None


MOST_IN_BATCH = 100


class QueryBatch(Value):
    """`POST /v1/query/batch`. Each item is a request of `POST /v1/query`; a wrong one spoils no other."""

    queries: Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=MOST_IN_BATCH)]


class GateBatch(Value):
    """`POST /v1/gate/batch`. Each item is a request of `POST /v1/gate` without `wait`; a wrong one spoils no other."""

    requests: Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=MOST_IN_BATCH)]


def _one_content(schema: dict[str, Any]) -> None:
    text, html, data = (untold(*({"text", "html", "data"} - {one})) for one in ("text", "html", "data"))
    names = ("id", "url", "file_path")
    named = {"anyOf": [{"required": [one], "properties": {one: {"type": "string", "minLength": 1}}} for one in names]}
    schema["oneOf"] = [
        {"allOf": [told("url"), untold("text", "html", "data")]},
        {"allOf": [told("text"), text, named]},
        {"allOf": [told("html"), html, named]},
        {"allOf": [told("data", "media_type"), data, named]},
    ]


class SubmittedDocument(Value):
    """One document of `POST /v1/documents`: a URL to crawl, or content under an id, a URL or a path. `data` (base64) is
    for binary media such as PDF and needs `media_type`."""

    model_config = ConfigDict(json_schema_extra=_one_content)

    id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    url: Annotated[str, Field(max_length=4_096)] | None = None
    file_path: Annotated[str, Field(max_length=4_096)] | None = None
    title: Annotated[str, Field(max_length=2_000)] | None = None
    text: str | None = None
    html: str | None = None
    data: str | None = None
    media_type: str | None = None
    published_at: Moment | None = None
    author: str | None = None
    signature: Annotated[Signature | None, Field(exclude_if=is_none)] = None
    """The signature that `sluice sign --source` makes over the content and the claimed url or file_path."""
    metadata: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _complete(self) -> SubmittedDocument:
        contents = [part for part in (self.text, self.html, self.data) if part is not None]
        if len(contents) > 1:
            raise ValueError("give one of text, html and data, not several")
        if not contents and self.url is None:
            raise ValueError("give text, html or data, or a url to crawl")
        if contents and not (self.id or self.url or self.file_path):
            raise ValueError("give an id, a url or a file_path, so that a later version replaces this one")
        if self.data is not None and self.media_type is None:
            raise ValueError("data needs its media_type, for instance application/pdf")
        return self


class DocumentsRequest(Value):
    """`POST /v1/documents`."""

    corpus: CorpusName = "default"
    documents: Annotated[tuple[SubmittedDocument, ...], Field(min_length=1, max_length=1_000)]
    limits: Limits = Limits()
    render: AskedRender = None
    """Applies to the pages to crawl."""
    screenshot: Switch = False
    create_corpus: CreateCorpus = False


class Lines(Value):
    """Lines of a text, both inclusive, from 1."""

    start_line: int
    end_line: int


class DocumentText(Value):
    """`GET /v1/documents/{id}/text`: lines of the extracted text, numbered as citations number them.

    `text.split("\\n")[i]` is line `start_line + i`. `line_count` counts the lines of the whole text, without trailing
    white space. The lines in `left_out` are empty: the guard withholds their text.
    """

    document_id: str
    corpus: str
    url: str | None
    file_path: str | None
    title: str | None
    origin: Origin
    fetched_at: Moment
    start_line: int
    end_line: int
    line_count: int
    text: str
    left_out: tuple[Lines, ...] = ()


class FeedbackRequest(Feedback):
    """`POST /v1/feedback`: how useful the answer of `run_id` was."""

    run_id: str
    chunk_ids_used: Annotated[tuple[str, ...], Field(max_length=1_000)] = ()
    passages: Annotated[tuple[PassageFeedback, ...], Field(max_length=100, exclude_if=is_empty)] = ()
    """Passages of the answer that are bad evidence: they fall in later ones. Alone they say nothing of the answer."""


RunKind = Literal[
    "gate", "documents", "crawl", "scrape", "map", "deletion", "export", "import", "control", "memory", "graph"
]
"""Purpose of a run. A `memory` run brings an agent's memory into the index. A `control` run belongs to no request: it
records a change to the controls of the gate."""
RunStatus = Literal["open", "answering", "finished", "failed", "cancelled"]
ENDED: frozenset[RunStatus] = frozenset({"finished", "failed", "cancelled"})
"""The final states of a run."""


class RunAccepted(Value):
    """A run was recorded and will be carried out."""

    run_id: str
    status: RunStatus
    links: dict[str, str] = Field(default_factory=dict)


class Upload(Value):
    """`POST /v1/uploads` and `GET /v1/uploads/{id}`: what has become of each file. The id is that of its run."""

    id: str
    corpus: str
    status: RunStatus
    files: tuple[UploadedFile, ...]
    links: dict[str, str] = Field(default_factory=dict)


ToolName = Literal[
    "sluice_ask",
    "sluice_query",
    "sluice_read_document",
    "sluice_get_run",
    "sluice_list",
    "sluice_add_documents",
    "sluice_feedback",
    "code_search",
]


class NextStep(Value):
    """A tool to call next, with arguments as it has them over MCP. What the agent must fill in is empty or left out."""

    tool: ToolName
    """Its name over MCP; `code_search` is also a route."""
    arguments: dict[str, Any]
    """Its arguments by name."""
    why: str
    """What it is for, in this run."""


class PlanSummary(Value):
    """A run in words that an agent can act on: what was decided and done, what is missing, and what to call next."""

    decided: str
    """The plan, with its score, its thresholds and what lowered it."""
    done: tuple[str, ...] = ()
    """Searches, pages, and what the answer cites, in numbers."""
    missing: tuple[str, ...] = ()
    """Gaps with what lifts them, stale citations, hosts that were refused, open claims and the answer's limits."""
    next_steps: tuple[NextStep, ...] = ()
    """The most urgent first."""


class RunView(Value):
    """`GET /v1/runs/{id}`: the state of a run, with its decision, answer and spend."""

    run_id: str
    kind: RunKind
    corpus: str
    status: RunStatus
    query: str | None = None
    created_at: Moment
    deadline_at: Moment | None = None
    finished_at: Moment | None = None
    traceparent: str | None = None
    decision: Decision | None = None
    answer: Answer | None = None
    prompt: Prompt = ()
    missing: tuple[Gap, ...] = ()
    mended: Annotated[tuple[Gap, ...], Field(exclude_if=is_empty)] = ()
    """What it lacked until a dead letter was replayed with success."""
    spend: Spend = Spend()
    open_events: int = 0
    settled_events: int = 0
    dead_letters: int = 0
    journal_offset: int | None = None
    generation: str | None = None
    stale: Annotated[tuple[StaleCitation, ...], Field(exclude_if=is_empty)] = ()
    """Citations of the answer whose passages are no longer at their sources."""
    plan_summary: Annotated[PlanSummary | None, Field(exclude_if=is_none)] = None


class StageView(Value):
    """One stage: its waiting events, and whether it is paused. `paused_because` without `paused_by`: by its breaker."""

    stage: Queue
    ready: int
    claimed: int
    waiting: int
    oldest_ready_seconds: float
    paused_because: str | None = None
    paused_by: str | None = None
    paused_since: Moment | None = None
    probe_at: Moment | None = None


class StageBacklog(Value):
    """The work of one stage, for whoever decides how many workers it gets: a number of events each."""

    ready: int
    claimed: int
    due_soon: int
    """Events that wait and are due within a minute."""
    open: int
    """Events for which a worker is needed now: the sum; of a paused stage, only what is claimed and the next probe."""


class DefenceView(Value):
    """One defence of the gate for a profile, a corpus and an owner ("*" for all). `stands` is its fallback in force;
    None while it watches. `pinned`: an operator holds it on or off.

    `configuration` is watched: the hash of a profile, with "+" and a learned model's version where a model decides.
    `falls_back_to` is the configuration that replaces it, `windows` the latest measured windows, oldest first.
    """

    name: DefenceName
    profile: str
    corpus: str = "*"
    owner: str = "*"
    pinned: Pin | None = None
    stands: Defence | None = None
    configuration: str | None = None
    falls_back_to: str | None = None
    windows: tuple[str, ...] = ()


class WrongPart(Value):
    """One wrong part of a request, named by exactly one of a place in the body, a parameter and a header."""

    detail: str
    """What is wrong with it, as a sentence without a full stop."""
    pointer: str | None = None
    """Its place in the body: a JSON pointer (RFC 6901), "" for the whole of it."""
    parameter: str | None = None
    """The parameter of the path or the query."""
    header: str | None = None
    did_you_mean: str | None = None
    """The known name that is most like an unknown one."""


class Problem(Value):
    """Every error response, as RFC 9457 has it: `application/problem+json`."""

    type: str = ""
    """Address of a page about the code, relative to that of the request."""
    title: str = ""
    """What the code means, the same for each problem of it."""
    status: int = 0
    """The status of the response."""
    detail: str = ""
    """What happened to this request, for a person or an agent."""
    instance: str | None = None
    """The request's id, by which the log names it: `urn:sluice:request:` and `X-Request-Id`."""
    code: str
    """What happened, for programs: `invalid_input`, `not_found`, …"""
    remedy: str | None = None
    """What to change, where that is known."""
    retryable: bool = False
    """Whether the same request may succeed later; `Retry-After` says when."""
    errors: tuple[WrongPart, ...] = ()
    """Every wrong part of the request."""
    run_id: str | None = None
    message: str
    """The former name of `detail`; gone with the next version."""
    field: str | None = None
    """The first wrong part by its former name, with dots; gone with the next version."""


Item = TypeVar("Item")


class Page(Value, Generic[Item]):
    """A part of a list, in the list's order."""

    data: tuple[Item, ...]
    next_cursor: str | None = None
    """Send it as `cursor`, with the same filters, for what comes next; null at the end of the list."""


class PromptView(Value):
    """A template of prompts, which `prompt` of a question or a search may name: by its name, or with its version."""

    name: str
    version: int
    full_name: str
    summary: str


class EventsPart(Value):
    """The next events of a run, as JSON: what the stream of the same address tells, in parts."""

    data: tuple[Event, ...]
    """In the order in which they were recorded, at most 200."""
    last_event_id: str
    """Send it as `after`, for what comes next; "0" before the first event."""
    has_ended: bool
    """Whether the run has ended and these are its last events. `ResponseJudged` and `AnswerStale` may still come."""


class HealthCheck(Value):
    """One part of `/healthz`."""

    ok: bool
    detail: str = ""
    facts: dict[str, Any] = Field(default_factory=dict)


class Health(Value):
    """`/healthz`: 200 when every part is well, 503 otherwise."""

    ok: bool
    version: str
    checks: dict[str, HealthCheck]

    def without_facts(self) -> Health:
        """Return the health of each part without its details and facts."""
        bare = {name: HealthCheck(ok=check.ok) for name, check in self.checks.items()}
        return self.model_copy(update={"checks": bare})
