"""Events of the index, of the memory and the graph that follow it, and of the answer.

A feature's journal is the source of truth for an agent's memory, and the corpus's journal for a graph: these events
name the entries and documents to index or read.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Moment, Switch, Value, is_empty, is_none
from sluice.contracts.budget import Spend
from sluice.contracts.event import Body, Gap
from sluice.contracts.memory.names import FeatureName, ProjectPath
from sluice.contracts.plan import Plan
from sluice.contracts.profiles import AnswerInsights, CodeSample, PassageInsights
from sluice.contracts.retrieval import Prompt, RetrievedChunk
from sluice.contracts.trust import GateCheck, Origin, TrustScore


class DocumentIndexed(Body, queue="index"):
    """The journal holds these documents up to `journal_offset`. Settled once a published generation covers it."""

    document_ids: tuple[str, ...]
    chunk_count: int
    journal_offset: int
    erase: Switch = False
    """Whether every trace of removed documents must go: from older generations and from the journal's records."""
    crawled_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    """When the first of the pages among them was fetched; None where no page was crawled."""


class SnapshotPublished(Body):
    """A generation became current. Wakes query workers; the pointer on disk is authoritative."""

    generation: str
    journal_offset: int
    document_count: int
    chunk_count: int


EntryIds = Annotated[tuple[str, ...], Field(max_length=1_000)]


class IterationRecorded(Body, queue="chunk"):
    """A feature's journal holds new iterations, to be distilled and indexed. `entry_ids` are its entries."""

    project: ProjectPath
    feature: FeatureName
    entry_ids: EntryIds


class LearningChanged(Body, queue="chunk"):
    """Learnings of a feature were added, edited, reviewed or pruned; the index must be updated."""

    project: ProjectPath
    feature: FeatureName
    learning_ids: EntryIds


class GraphDirected(Body, queue="graph"):
    """Read these documents into the graph, from the index at `journal_offset` or later.

    A document that the index does not hold leaves the graph. Without documents only the published graph is updated.
    """

    document_ids: Annotated[tuple[str, ...], Field(max_length=1_000)]
    journal_offset: Annotated[int, Field(ge=0)]


class GraphPublished(Body):
    """A generation of the graph became current. Readers of the graph follow the pointer on disk."""

    generation: str
    covers: Annotated[int, Field(ge=0)]
    """Changes of the corpus's graph that the generation covers."""
    nodes: Annotated[int, Field(ge=0)]
    edges: Annotated[int, Field(ge=0)]


class AnswerDirected(Body, queue="query"):
    """Answer the run's question now, from a generation that covers `minimum_journal_offset`."""

    minimum_journal_offset: int = 0
    reason: Literal["closed", "deadline"] = "closed"


NO_TEXT = "(The site asks that no text of this page be shown; it can be read there.)"
"""Replaces the text of a page with `nosnippet`."""


class Citation(Value):
    """The source of `[number]` in the context.

    `source` is the path, the URL or the id, with the lines of the file (`docs/guide.md:10-24`), the page of a PDF
    (`paper.pdf:page 3`), or the heading in HTML and XML (`guide.html § Install`), which are read as another text.
    """

    number: int
    chunk_id: str
    source: str
    url: str | None = None
    title: str | None = None
    match: float
    author: LaterText = None
    published_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    licence: LaterText = None
    """An address or a name, as the page gives it: the terms of use of the cited source."""
    site_name: LaterText = None
    origin: Annotated[Origin | None, Field(exclude_if=is_none)] = None
    """The origin of the cited document. For a submission `url` is only the sender's claim."""
    trust: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Calibrated probability that the passage answers the question."""
    warnings: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Rules of the guard that mark the passage."""
    link: LaterText = None
    """An address that opens at the passage: with the heading's anchor or the PDF's page, and a text fragment."""
    insights: Annotated[PassageInsights | None, Field(exclude_if=is_none)] = None
    """Results of the profile's checks on the passage; None without checks or findings."""
    code: Annotated[CodeSample | None, Field(exclude_if=is_none)] = None
    """For a passage with code, if the profile requests it: facts that a tool needs before it runs the code."""
    graph_path: LaterText = None
    """The edges by which the graph led to the passage, as `test_login.py REFERS_TO Session DEFINED_IN session.py`."""


class Answer(Value):
    """Cited context for an agent. `context` carries `[n]` marks; `missing` names the parts that were unobtainable."""

    query: str
    corpus: str
    plan: Plan
    generation: str | None
    journal_offset: int
    context: str
    citations: tuple[Citation, ...]
    chunks: tuple[RetrievedChunk, ...]
    missing: tuple[Gap, ...] = ()
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Calibrated probability that the context answers the question."""
    limits: LaterText = None
    """The limits of the answer, for the reader, where its confidence is low."""
    trust_scores: Annotated[tuple[TrustScore, ...], Field(exclude_if=is_empty)] = ()
    """One for each cited chunk, in the order of `chunks`."""
    checks: Annotated[tuple[GateCheck, ...], Field(exclude_if=is_empty)] = ()
    insights: Annotated[AnswerInsights | None, Field(exclude_if=is_none)] = None
    """Results of the profile's checks on the whole answer."""


class AnswerReady(Body):
    """The complete answer of the run."""

    answer: Answer
    duration_ms: float
    prompt: Prompt = ()
    profile: LaterText = None
    """The gate's profile of the request."""
    unseen_seconds: Annotated[tuple[float, ...], Field(exclude_if=is_empty)] = ()
    """For each cited document, the seconds since it was last read or found unchanged."""
    evidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """The answer's confidence without the shift by the corpus's own outcomes; None where it is the same."""


class StaleCitation(Value):
    """A citation of an answer whose passage is no longer at its source."""

    citation: int
    """Its number in the answer."""
    chunk_id: str
    document_id: str
    url: str | None = None
    what: Literal["changed", "gone"]
    """Whether the document has another text now, or no longer exists."""
    changed_at: Moment
    """When the document's new text was read, or its removal was seen."""


class AnswerStale(Body):
    """Passages that the run's answer cites have changed at their source. Comes after the run's end."""

    citations: tuple[StaleCitation, ...]


class RunFinished(Body):
    """The run has no open work left, or its deadline passed and it was answered."""

    status: Literal["finished", "failed", "cancelled"]
    missing: tuple[Gap, ...] = ()
    spend: Spend = Spend()
