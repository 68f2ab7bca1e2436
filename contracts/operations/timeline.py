"""Where the time of a run went: its steps as the ledger has them, and one line that says what it waited for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.api import RunStatus
from sluice.contracts.base import Moment, Value
from sluice.contracts.event import Queue

Doing = Literal["waits", "works", "failed", "died", "backs_off", "detail"]
"""What an event does in one row. `detail`: a part of the work in the row above it, from its span."""


SumName = Literal["waiting", "working", "backing off", "failing", "lost to dead workers"]


class TimelineRow(Value):
    """One stretch of the life of one event, or several of one kind folded together."""

    event_id: str
    cause_id: str | None = None
    """The event that caused this one."""
    kind: str
    stage: Queue | None = None
    label: str
    """What is drawn beside it: `CrawlDirected`, `crawl, attempt 2`."""
    depth: int
    """How far it is from the run's first event, by causes."""
    doing: Doing
    begins_ms: float
    """Since the run was created."""
    took_ms: float
    why: str = ""
    """Why it waits or failed, in words: `stage paused by ana: upgrade`, `behind 214 of this tenant`."""
    worker: str | None = None
    attempt: int | None = None
    is_critical: bool = False
    """Whether the run's end waited for it."""
    is_under_way: bool = False
    """Whether it goes on: it ends at `now_ms`."""
    folded: int = 1
    """Rows in this one; failures never fold."""
    shortest_ms: float | None = None
    longest_ms: float | None = None
    ends_ms: tuple[float, ...] = ()
    """When each of the folded rows ended."""


class TimelineCut(Value):
    """A stretch in which nothing happened, more than a fifth of the whole: it is drawn as a mark."""

    begins_ms: float
    ends_ms: float


class TimelineSum(Value):
    """A part of the time from the run's beginning to its end, along the chain of causes that ends it."""

    name: SumName
    ms: float
    parts: dict[str, float]
    """The milliseconds by stage, with the reason where it is known: `crawl (stage paused by ana)`."""


class Timeline(Value):
    """`GET /v1/runs/{run_id}/trace`: the steps of a run."""

    run_id: str
    status: RunStatus
    created_at: Moment
    now_ms: float
    """How long it takes so far, or took in all, with what went on after its end: the length of the time axis."""
    is_over: bool
    sum_line: str
    """Where the time went, as operators copy it: `3.11 s = 1.62 waiting (crawl 1.2, …) + .41 working + …`."""
    sums: tuple[TimelineSum, ...]
    rows: tuple[TimelineRow, ...]
    rows_in_all: int
    """Rows there are; `rows` holds fewer where most were folded or left out."""
    cuts: tuple[TimelineCut, ...] = ()
    traceparent: Annotated[str | None, Field(description="The trace of the request that began the run")] = None
