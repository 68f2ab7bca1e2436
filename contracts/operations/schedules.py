"""Schedules: what is done again and again, and when. HTTP and the command line use the same values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.base import CorpusName, Moment, Value, is_none
from sluice.contracts.errors import checked
from sluice.contracts.operations.crawling import CrawlRequest, MapRequest, ScrapeRequest

ScheduleKind = Literal["crawl", "map", "scrape", "documents", "gate"]
KINDS: tuple[ScheduleKind, ...] = get_args(ScheduleKind)
Work = CrawlRequest | MapRequest | ScrapeRequest | DocumentsRequest | GateRequest

Name = Annotated[str, Field(max_length=200)]
Interval = Annotated[timedelta, Field(ge=timedelta(minutes=1), le=timedelta(days=366))]
Cron = Annotated[str, Field(min_length=9, max_length=200)]
TimeZone = Annotated[str, Field(min_length=1, max_length=64)]


class ScheduledWork(Value):
    """The request that is sent each time: the body of the route of that name, in which `wait` has no effect. A schedule
    of documents adds URLs alone."""

    crawl: Annotated[CrawlRequest | None, Field(exclude_if=is_none)] = None
    map: Annotated[MapRequest | None, Field(exclude_if=is_none)] = None
    scrape: Annotated[ScrapeRequest | None, Field(exclude_if=is_none)] = None
    documents: Annotated[DocumentsRequest | None, Field(exclude_if=is_none)] = None
    gate: Annotated[GateRequest | None, Field(exclude_if=is_none)] = None

    @property
    def work(self) -> Mapping[ScheduleKind, Work]:
        """Return the given requests, by their routes."""
        return {kind: given for kind in KINDS if (given := getattr(self, kind)) is not None}


class ScheduleRequest(ScheduledWork):
    """`POST /v1/schedules`: one of crawl, map, scrape, documents and gate; and one of `every` and `cron`."""

    name: Name = ""
    every: Interval | None = None
    """Time between two runs: an ISO 8601 duration (`PT6H`, `P1D`) or seconds, a minute at least."""
    cron: Cron | None = None
    """When it runs, as five fields of cron: `0 6 * * MON-FRI`."""
    time_zone: TimeZone = "UTC"
    """The IANA time zone of `cron`: `Europe/Berlin`."""

    @model_validator(mode="after")
    def _is_whole(self) -> ScheduleRequest:
        if len(self.work) != 1:
            raise ValueError(f"give one of {', '.join(KINDS)}")
        if (self.every is None) == (self.cron is None):
            raise ValueError("give every or cron")
        return self


class ScheduleChange(ScheduledWork):
    """`PATCH /v1/schedules/{id}`: what is given changes, the rest stays. A new interval or cron text takes the place of
    the former one, and a request that of the former request."""

    name: Name | None = None
    every: Interval | None = None
    cron: Cron | None = None
    time_zone: TimeZone | None = None
    enabled: bool | None = None
    """false pauses it; true also begins anew after it was stopped."""

    @model_validator(mode="after")
    def _is_clear(self) -> ScheduleChange:
        if len(self.work) > 1:
            raise ValueError(f"give one of {', '.join(KINDS)} at most")
        if self.every is not None and self.cron is not None:
            raise ValueError("give every or cron, not both")
        return self


Told = Annotated[dict[str, Any] | None, Field(exclude_if=is_none)]


class Schedule(Value):
    """A schedule with its request, and how it went last. Times that were missed are made up for by one run, and a time
    that comes while the last run is under way waits for its end."""

    id: str
    name: str
    crawl: Told = None
    map: Told = None
    scrape: Told = None
    documents: Told = None
    gate: Told = None
    corpus: CorpusName
    every: timedelta | None
    cron: str | None
    time_zone: str
    owner: str
    """The API key that made it, in whose name it runs."""
    created_at: Moment
    next_at: Moment | None
    """Null while it is paused or stopped."""
    stopped_because: str | None
    """Why it was stopped: its key may not do this any more."""
    last_at: Moment | None
    """The time for which it ran last."""
    last_run_id: str | None
    last_problem: str | None
    """Why no run began at that time."""

    @property
    def work(self) -> Work:
        """Return the request. Raises `InvalidInput` if it is none that this version knows."""
        told = {kind: given for kind in KINDS if (given := getattr(self, kind)) is not None}
        return next(iter(checked(ScheduledWork, **told).work.values()))
