"""Events of the index, of the memory and the graph that follow it, and of the answer.

A feature's journal holds the truth on an agent's memory and the corpus's journal that on a graph: their events say what
of it is to be indexed or read.
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
    """Whether nothing may be left of what was removed: no older generation, no record of the journal."""
    crawled_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    """When the first of the pages among them was fetched; None where no page was crawled."""


class SnapshotPublished(Body):
    """A generation became current. Query workers are woken; the pointer on disk is the truth."""

    generation: str
    journal_offset: int
    document_count: int
    chunk_count: int


EntryIds = Annotated[tuple[str, ...], Field(max_length=1_000)]


class IterationRecorded(Body, queue="chunk"):
    """Iterations stand in a feature's journal, to be distilled and indexed. `entry_ids` are entries of it."""

    project: ProjectPath
    feature: FeatureName
    entry_ids: EntryIds


class LearningChanged(Body, queue="chunk"):
    """Learnings of a feature were added, edited, reviewed or pruned: the index is to hold them as they stand."""

    project: ProjectPath
    feature: FeatureName
    learning_ids: EntryIds


class GraphDirected(Body, queue="graph"):
    """Read these documents into the graph as the index has them at `journal_offset` or later.

    One that the index does not hold leaves the graph. Without documents only the published graph is brought up to date.
    """

    document_ids: Annotated[tuple[str, ...], Field(max_length=1_000)]
    journal_offset: Annotated[int, Field(ge=0)]


class GraphPublished(Body):
    """A generation of the graph became current. Who walks it looks at the pointer on disk."""

    generation: str
    covers: Annotated[int, Field(ge=0)]
    """Changes of the corpus's graph that it covers."""
    nodes: Annotated[int, Field(ge=0)]
    edges: Annotated[int, Field(ge=0)]


class AnswerDirected(Body, queue="query"):
    """Answer the run's question now, from a generation that covers `minimum_journal_offset`."""

    minimum_journal_offset: int = 0
    reason: Literal["closed", "deadline"] = "closed"


NO_TEXT = "(The site asks that no text of this page be shown; it can be read there.)"
"""Replaces the text of a page with `nosnippet`."""


class Citation(Value):
    """Where `[number]` of the context points: `source` is `path:start-end` or `url:start-end`."""

    number: int
    chunk_id: str
    source: str
    url: str | None = None
    title: str | None = None
    match: float
    author: LaterText = None
    published_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    licence: LaterText = None
    """An address or a name, as the page gives it: what may be done with what is cited."""
    site_name: LaterText = None
    origin: Annotated[Origin | None, Field(exclude_if=is_none)] = None
    """How the cited document got here. Of a submission `url` is only what its sender claims."""
    trust: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    confidence: Annotated[float | None, Field(ge=0, le=1, exclude_if=is_none)] = None
    """Calibrated probability that the passage answers the question."""
    warnings: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Rules of the guard that mark the passage."""
    link: LaterText = None
    """An address that opens at the passage: with the heading's anchor or the PDF's page, and a text fragment."""
    insights: Annotated[PassageInsights | None, Field(exclude_if=is_none)] = None
    """What the profile has passages checked for; None where it asks for nothing or nothing was found."""
    code: Annotated[CodeSample | None, Field(exclude_if=is_none)] = None
    """Of a passage with code, where the profile asks: what a tool must know before it runs any of it."""
    graph_path: LaterText = None
    """By which edges the graph led to the passage, as `test_login.py REFERS_TO Session DEFINED_IN session.py`."""


class Answer(Value):
    """Cited context for an agent. `context` carries `[n]` marks; `missing` names what could not be had."""

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
    """What the reader should know of the answer's limits, where its confidence is low."""
    trust_scores: Annotated[tuple[TrustScore, ...], Field(exclude_if=is_empty)] = ()
    """One for each cited chunk, in the order of `chunks`."""
    checks: Annotated[tuple[GateCheck, ...], Field(exclude_if=is_empty)] = ()
    insights: Annotated[AnswerInsights | None, Field(exclude_if=is_none)] = None
    """What the profile has whole answers checked for."""


class AnswerReady(Body):
    """The answer of the run, whole."""

    answer: Answer
    duration_ms: float
    prompt: Prompt = ()
    profile: LaterText = None
    """The gate's profile that it was asked by."""
    unseen_seconds: Annotated[tuple[float, ...], Field(exclude_if=is_empty)] = ()
    """Of each document that is cited, how long ago it was read last or seen to be as it was."""


class StaleCitation(Value):
    """A citation of an answer whose passage its source does not have any more."""

    citation: int
    """Its number in the answer."""
    chunk_id: str
    document_id: str
    url: str | None = None
    what: Literal["changed", "gone"]
    """Whether the document is there with another text, or is not there at all."""
    changed_at: Moment
    """When the document's new text was read, or its going was seen."""


class AnswerStale(Body):
    """Passages that the run's answer cites are no longer so at their source. Comes after the run's end."""

    citations: tuple[StaleCitation, ...]


class RunFinished(Body):
    """Nothing of the run is open any more, or its deadline has passed and it was answered."""

    status: Literal["finished", "failed", "cancelled"]
    missing: tuple[Gap, ...] = ()
    spend: Spend = Spend()
