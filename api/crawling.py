"""Routes for pages read to be shown, the addresses of sites, and crawls of sites; and for schedules.

A key sees its own schedules, an operator those of its corpora.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from sluice.api.access import AnyCaller, Corpus, Operator, instance_of
from sluice.api.lists import Cursor, paged
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.api.runs import IdempotencyKey, finished
from sluice.contracts.api import Page, RunAccepted, RunView
from sluice.contracts.base import Value
from sluice.contracts.operations.crawling import (
    CrawlRequest,
    ExplainedCrawl,
    Mapped,
    MapRequest,
    Scraped,
    ScrapeRequest,
)
from sluice.contracts.operations.schedules import Schedule, ScheduleChange, ScheduleRequest
from sluice.workers.service.callers import Caller

crawling = APIRouter(prefix="/v1", tags=["crawling"])
schedules = APIRouter(prefix="/v1/schedules", tags=["schedules"])
ROUTERS = (crawling, schedules)

WAIT_SECONDS = 60.0
"""Longest wait of a request: a page has 30 seconds by the settings, and may stand in a queue before."""
LATE: dict[int | str, dict[str, Any]] = {
    202: {"model": RunAccepted, "description": "Without `wait`, or where it is late: the run goes on"}
}


@crawling.post(
    "/scrape", response_model=Scraped, responses={**LATE, **problems(403, 409, 429, 503, 507)}, summary="Read one page"
)
async def scrape(
    request: Request, body: ScrapeRequest, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> Response:
    """Fetch, extract and inspect one page, and return its Markdown, links and findings. It is indexed with `index`
    alone. `missing` says why there is no page."""
    desk = instance_of(request).crawling
    begin = partial(desk.scrape, body, owner=caller.owner, idempotency_key=idempotency_key)
    return await _answered(request, body, caller, idempotency_key, begin, desk.scraped)


@crawling.get("/scrape/{run_id}", responses=problems(403, 404, 503), summary="The page that a run has read")
def scraped(request: Request, run_id: str, caller: AnyCaller) -> Scraped:
    """Return the page of a run that began with a scrape, as `POST /v1/scrape` does."""
    instance = instance_of(request)
    return instance.crawling.scraped(instance.runs.one(run_id, caller))


@crawling.post(
    "/map",
    response_model=Mapped,
    responses={**LATE, **problems(403, 409, 429, 503, 507)},
    summary="List a site's addresses",
)
async def site_map(
    request: Request, body: MapRequest, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> Response:
    """List the addresses of a site, from its sitemaps and the links of one page. Nothing is indexed."""
    desk = instance_of(request).crawling
    begin = partial(desk.map, body, owner=caller.owner, idempotency_key=idempotency_key)
    return await _answered(request, body, caller, idempotency_key, begin, partial(desk.mapped, most=body.limit))


@crawling.get("/map/{run_id}", responses=problems(404, 503), summary="The addresses that a run has listed")
def mapped(
    request: Request,
    run_id: str,
    caller: AnyCaller,
    limit: Annotated[int, Query(ge=1, le=5_000)] = 1_000,
    after: Annotated[int, Query(ge=0, le=1_000_000, description="How many of the first ones to leave out")] = 0,
) -> Mapped:
    """Return addresses of a run that began with a map, as `POST /v1/map` does."""
    instance = instance_of(request)
    return instance.crawling.mapped(instance.runs.one(run_id, caller), limit, after)


@crawling.post("/crawl", status_code=202, responses=problems(403, 404, 409, 429, 503, 507), summary="Crawl a site")
def crawl(
    request: Request, body: CrawlRequest, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> RunAccepted:
    """Crawl a site into a corpus, from one page along its links and sitemaps. The run is finished when all of it can be
    found; its events name each page, and what was left out with the reason."""
    caller.may_touch(body.corpus)
    instance = instance_of(request)
    with instance.in_hand(caller.owner, idempotency_key):
        run = instance.crawling.crawl(body, owner=caller.owner, idempotency_key=idempotency_key)
    return about_run(request, run)


@crawling.post("/crawl/explain", responses=problems(403, 429, 503), summary="Fetch one page, and say each decision")
def explain(
    request: Request,
    operator: Operator,
    url: Annotated[str, Query(max_length=4_096, description="The page")],
    corpus: Corpus = "default",
) -> ExplainedCrawl:
    """Fetch a page over HTTP, by the policy, robots.txt and egress rules of every crawl. Nothing is recorded."""
    operator.may_touch(corpus)
    return instance_of(request).crawling.explain(corpus, url)


async def _answered(
    request: Request,
    body: ScrapeRequest | MapRequest,
    caller: Caller,
    idempotency_key: str | None,
    begin: Callable[[], RunAccepted],
    show: Callable[[RunView], Value],
) -> Response:
    """Begin a run; return what came of it (200), or its acceptance (202) without `wait`, or if it is late."""
    caller.may_touch(body.corpus)
    instance = instance_of(request)
    with instance.announcements.place(caller.owner):
        with instance.in_hand(caller.owner, idempotency_key):
            run = about_run(request, await run_in_threadpool(begin))
        if body.wait and (view := await finished(request, run.run_id, WAIT_SECONDS)):
            found = await run_in_threadpool(show, view)
            return Response(found.model_dump_json(), media_type="application/json")
    return JSONResponse(run.model_dump(mode="json"), status_code=202)


@schedules.get("", name="some", responses=problems(503), summary="Schedules, the oldest first")
def some(
    request: Request, caller: AnyCaller, limit: Annotated[int, Query(ge=1, le=500)] = 50, cursor: Cursor = None
) -> Page[Schedule]:
    """Return schedules with their next time, their last run, and why one was stopped."""
    return paged(request, limit, partial(instance_of(request).schedules.some, caller), attrgetter("id"))


@schedules.post(
    "", name="create", status_code=201, responses=problems(403, 404, 409, 503, 507), summary="Do it again and again"
)
def create(request: Request, response: Response, body: ScheduleRequest, caller: AnyCaller) -> Schedule:
    """Make a schedule, in the name of this key. Its runs are those of the request itself, with the same checks."""
    made = instance_of(request).schedules.create(body, caller)
    response.headers["Location"] = f"/v1/schedules/{made.id}"
    return made


@schedules.get("/{schedule_id}", name="one", responses=problems(404, 503), summary="One schedule, and how it went")
def one(request: Request, schedule_id: str, caller: AnyCaller) -> Schedule:
    """Return a schedule."""
    return instance_of(request).schedules.one(schedule_id, caller)


@schedules.patch("/{schedule_id}", responses=problems(403, 404, 503, 507), summary="Change or pause a schedule")
def change(request: Request, schedule_id: str, body: ScheduleChange, caller: AnyCaller) -> Schedule:
    """Change what the body names. The next time is then the first one from now on, unless only the name changes."""
    return instance_of(request).schedules.change(schedule_id, body, caller)


@schedules.delete("/{schedule_id}", status_code=204, responses=problems(404, 503), summary="Remove a schedule")
def delete(request: Request, schedule_id: str, caller: AnyCaller) -> None:
    """Remove a schedule. A run that it has begun goes on."""
    instance_of(request).schedules.delete(schedule_id, caller)


@schedules.post(
    "/{schedule_id}/run", status_code=202, responses=problems(403, 404, 409, 429, 503, 507), summary="Run it now"
)
def run(request: Request, schedule_id: str, caller: AnyCaller, idempotency_key: IdempotencyKey = None) -> RunAccepted:
    """Begin a run of it now, in the name of the key that made it. Its times stay as they are."""
    instance = instance_of(request)
    with instance.in_hand(caller.owner, idempotency_key):
        return about_run(request, instance.schedules.run(schedule_id, caller, idempotency_key))
