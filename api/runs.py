"""Routes for the gate and its runs, and for direct queries, which search the corpus as it is."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import AfterValidator, ValidationError
from starlette.concurrency import run_in_threadpool

from sluice.api.access import AnyCaller, Corpus, Note, Operator, instance_of
from sluice.api.lists import Cursor, WrittenMoment, paged, whole
from sluice.api.problems import item_problem, problems
from sluice.api.requests import about_run
from sluice.contracts.api import (
    ENDED,
    CodeSearchRequest,
    EventsPart,
    FeedbackRequest,
    GateBatch,
    GateRequest,
    Page,
    PromptView,
    QueryBatch,
    QueryRequest,
    RunAccepted,
    RunKind,
    RunStatus,
    RunView,
)
from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput, SluiceError, first_problem
from sluice.contracts.learning.passages import MarkedPassage
from sluice.contracts.operations.corpora import BatchResult, BatchStatus
from sluice.contracts.operations.evidence import EvidenceView
from sluice.contracts.operations.timeline import Timeline
from sluice.contracts.retrieval import JoinedRetrieval, Retrieval, RetrievalStats
from sluice.otel.context import current_traceparent
from sluice.workers.service import runs as service
from sluice.workers.service.instance import Instance

SomeRequest = TypeVar("SomeRequest", bound=Value)

runs = APIRouter(prefix="/v1", tags=["runs"])
retrieval = APIRouter(prefix="/v1", tags=["retrieval"])
ROUTERS = (runs, retrieval)

GRACE_SECONDS = 5.0
"""Seconds that a waiting request is held past the deadline: the answer is made only then."""
EVENTS_AT_ONCE = 200
SIGN_OF_LIFE_SECONDS = 15.0
"""A silent stream sends a comment this often: proxies and clients give up on silence, at 30 seconds or more."""
UNBUFFERED = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_POSITION = re.compile(r"[0-9]{1,18}")
"""A position in the ledger, which fits 64 bits."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


def bare(key: str | None) -> str | None:
    """Return an idempotency key without the quotes that the draft has around it (a string of RFC 9651)."""
    quoted = _QUOTED.fullmatch(key.strip()) if key else None
    found = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else key
    if found == "":
        raise ValueError("is empty")
    return found


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="The same key and body never start a second run. Kept as long as the run; in quotes or bare",
    ),
    AfterValidator(bare),
]

Follow = Annotated[bool, Query(description="Go on behind the run's end, for `ResponseJudged` and `AnswerStale`")]


class EventStream(StreamingResponse):
    """Server-sent events (WHATWG HTML, section 9.2)."""

    media_type = "text/event-stream"


@runs.post(
    "/gate",
    status_code=202,
    response_model=RunAccepted,
    responses={
        200: {"model": RunView, "description": "With `wait`: the run, finished"},
        **problems(404, 409, 413, 429, 503, 507),
    },
    summary="Ask: the gate decides how far to go",
)
async def ask(
    request: Request, body: GateRequest, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> Response:
    """Record a gate request. 202 with the run's id; with `wait` 200 with the finished run, or 202 if that is late."""
    instance = instance_of(request)
    with instance.announcements.place(caller.owner) if body.wait else nullcontext():
        with instance.in_hand(caller.owner, idempotency_key):
            run = about_run(request, await run_in_threadpool(_asked, instance, body, caller, idempotency_key))
        if body.wait:
            seconds = (body.deadline_seconds or instance.settings.gate.deadline_seconds) + GRACE_SECONDS
            view = await finished(request, run.run_id, seconds)
            if view is not None:
                return Response(view.model_dump_json(), media_type="application/json")
    return JSONResponse(run.model_dump(mode="json"), status_code=202)


@runs.get("/runs", responses=problems(503), summary="Recent runs, newest first")
def recent(
    request: Request,
    caller: AnyCaller,
    corpus: str | None = None,
    status: RunStatus | None = None,
    kind: RunKind | None = None,
    owner: str | None = None,
    since: Annotated[WrittenMoment | None, Query(description="Created then or later")] = None,
    until: Annotated[WrittenMoment | None, Query(description="Created before")] = None,
    q: Annotated[
        str | None,
        Query(min_length=3, max_length=200, description="Words of the question, or the id of a run or of an event"),
    ] = None,
    retrying: Annotated[bool, Query(description="Only runs with open work that failed before")] = False,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> Page[service.RunSummary]:
    """Return short views of the runs whose corpora the caller may touch."""
    told: dict[str, Any] = {"corpus": corpus, "status": status, "owner": owner, "kind": kind}
    some = partial(
        instance_of(request).runs.recent, caller, since=since, until=until, text=q, retrying=retrying, **told
    )
    return paged(request, limit, some, attrgetter("run_id"))


@runs.get("/runs/{run_id}", responses=problems(404, 503), summary="One run")
def one(request: Request, run_id: str, caller: AnyCaller) -> RunView:
    """Return status, decision, answer, gaps with their reasons, and cost."""
    return instance_of(request).runs.one(run_id, caller)


@runs.delete("/runs/{run_id}", status_code=202, responses=problems(404, 503, 507), summary="Cancel a run")
def cancel(request: Request, run_id: str, caller: AnyCaller) -> RunView:
    """Stop the run's open events, also those that a worker has in hand. Indexed documents stay indexed."""
    instance = instance_of(request)
    instance.runs.one(run_id, caller)
    instance.service.cancel(run_id)
    return instance.runs.one(run_id, caller)


@runs.get("/runs/{run_id}/trace", responses=problems(404, 503), summary="Where the time of a run went")
def trace(request: Request, run_id: str, caller: AnyCaller) -> Timeline:
    """Return the run's steps with their waits by name, and one line that sums them up. Operators of all corpora may
    also name a trace by 32 hex digits: the first run of it is shown."""
    instance = instance_of(request)
    if service.TRACE_ID.fullmatch(run_id):
        caller.may_operate_instance()
        run_id = service.run_of_trace(instance.context, run_id)
    return about_run(request, service.read_trace(instance.context, run_id, caller))


@runs.get("/runs/{run_id}/explanation", responses=problems(404, 503), summary="Why the gate decided so")
def explanation(request: Request, run_id: str, caller: AnyCaller) -> service.Explanation:
    """Return the recorded decision, and the same one computed again from its recorded inputs, bit for bit."""
    instance = instance_of(request)
    instance.runs.one(run_id, caller)
    return service.explain_run(instance.context, run_id)


def position_behind(
    request: Request,
    run_id: str,
    caller: AnyCaller,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    after: Annotated[str | None, Query(max_length=100, description="As `Last-Event-ID`, which it precedes")] = None,
) -> int:
    """Return the position after which the events begin. Runs before a stream starts, so that an error has a status:
    `NotFound` for a run that the caller may not see, `InvalidInput` for an id that no stream has given."""
    instance_of(request).runs.one(run_id, caller)
    field, told = ("Last-Event-ID", last_event_id) if after is None else ("after", after)
    if told and not _POSITION.fullmatch(told):
        raise InvalidInput(field, "no id of an event", "send back the id of the last event received")
    return int(told or 0)


async def follower(request: Request, caller: AnyCaller) -> AsyncIterator[None]:
    """Hold a place of the caller's for as long as the stream lasts."""
    with instance_of(request).announcements.place(caller.owner):
        yield


@runs.get(
    "/runs/{run_id}/events",
    dependencies=[Depends(follower)],
    response_class=EventStream,
    responses={
        200: {
            "description": "The stream, each of whose messages holds an `Event`; or, as JSON, a part of it",
            "content": {
                EventStream.media_type: {"schema": {"type": "string", "contentMediaType": "application/json"}},
                "application/json": {"schema": {"$ref": f"#/components/schemas/{EventsPart.__name__}"}},
            },
        },
        **problems(404, 429, 503),
    },
    summary="The run's events, as they happen",
)
async def events(
    request: Request,
    run_id: str,
    seen: Annotated[int, Depends(position_behind)],
    follow: Follow = False,
    format: Annotated[Literal["stream", "json"], Query(description="`json`: the next events, at once")] = "stream",
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for one, with `format=json`")] = 0,
) -> Response:
    """Stream the run's events in order, from the beginning or after `Last-Event-ID`, until it has ended and all that is
    recorded was told. With `follow` the stream goes on: `ResponseJudged` and `AnswerStale` may come much later. With
    `format=json` the answer is the next part of the same, after at most `wait` seconds (long polling)."""
    if format == "json":
        part = await _part(request, run_id, seen, wait, follow=follow)
        return Response(part.model_dump_json(), media_type="application/json")
    return EventStream(_told(instance_of(request), run_id, seen, follow=follow), headers=UNBUFFERED)


@runs.get("/runs/{run_id}/evidence/{number}", responses=problems(404, 503), summary="What one citation rests on")
def evidence(request: Request, run_id: str, number: Annotated[int, Path(ge=1)], caller: AnyCaller) -> EvidenceView:
    """Return a snippet, the place of its document, its trust with the parts that it is the sum of, what the guard
    found, who else says so, and whether its source has changed since."""
    return about_run(request, instance_of(request).evidence.one(run_id, number, caller))


@runs.post(
    "/feedback", status_code=202, responses=problems(404, 409, 413, 503, 507), summary="What became of an answer"
)
def feedback(request: Request, body: FeedbackRequest, caller: AnyCaller) -> dict[str, str]:
    """Record which chunks of the answer were used and with what outcome: once for each run, API key and signal; and
    which passages are bad evidence, and why: once for each run, API key and passage. The same again changes nothing,
    with any Idempotency-Key; other feedback by the same signal, or on the same passage, is refused (409)."""
    instance = instance_of(request)
    about_run(request, instance.runs.one(body.run_id, caller))
    is_new = instance.service.give_feedback(body, owner=caller.owner, is_operator=caller.role == "operator")
    return {"run_id": body.run_id, "status": "recorded", "counted": "now" if is_new else "before"}


@runs.get("/feedback/passages", responses=problems(403, 404, 503), summary="Passages that callers call bad evidence")
def marked_passages(
    request: Request,
    operator: Operator,
    corpus: Corpus = "default",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> Page[MarkedPassage]:
    """Return each marked passage of a corpus, with its reasons and the share that its score and trust lose."""
    operator.may_touch(corpus)
    some = partial(instance_of(request).service.marked_passages, corpus)
    return paged(request, limit, some, attrgetter("chunk_id"))


@runs.delete(
    "/feedback/passages/{chunk_id}",
    responses=problems(403, 404, 503, 507),
    summary="Lift what callers say against a passage",
)
def clear_passage(
    request: Request, chunk_id: str, operator: Operator, corpus: Corpus = "default", note: Note = ""
) -> MarkedPassage:
    """Lift every mark on a passage, on the record: it ranks as before. Returns what stood. Later feedback counts."""
    operator.may_touch(corpus)
    return instance_of(request).service.clear_passage(corpus, chunk_id, operator.owner, note)


async def _told(instance: Instance, run_id: str, seen: int, *, follow: bool) -> AsyncIterator[bytes]:
    told_at, has_ended, ledger, pause = time.monotonic(), False, instance.context.ledger, service.PATIENCE_SECONDS
    with instance.announcements.of(run_id) as news:
        while True:
            found = await run_in_threadpool(ledger.events_after, run_id, seen, EVENTS_AT_ONCE)
            for seen, event in found:
                yield format_sse_event(data_str=event.model_dump_json(), event=event.kind, id=str(seen))
                has_ended = has_ended or event.kind == "RunFinished"
            if not found and not has_ended and await run_in_threadpool(ledger.status_of, run_id) in ENDED:
                has_ended = True
                continue  # its last events may have come between the two reads
            if instance.announcements.is_ending or (has_ended and not follow and len(found) < EVENTS_AT_ONCE):
                return
            pause = service.PATIENCE_SECONDS if found else min(2 * pause, service.LONGEST_PATIENCE_SECONDS)
            if found:
                told_at = time.monotonic()
            elif time.monotonic() - told_at > SIGN_OF_LIFE_SECONDS:
                yield KEEPALIVE_COMMENT
                told_at = time.monotonic()
            if len(found) < EVENTS_AT_ONCE:
                await service.news_or_patience(news, pause)


async def _part(request: Request, run_id: str, seen: int, wait: float, *, follow: bool) -> EventsPart:
    """Return the next events, as soon as there is one, the run has ended, or `wait` seconds have passed."""
    instance, deadline, pause = instance_of(request), time.monotonic() + wait, service.PATIENCE_SECONDS
    ledger = instance.context.ledger
    with instance.announcements.of(run_id) as news:
        while True:
            is_ended = await run_in_threadpool(ledger.status_of, run_id) in ENDED  # first: its end is an event too
            found = await run_in_threadpool(ledger.events_after, run_id, seen, EVENTS_AT_ONCE)
            left = 0.0 if instance.announcements.is_ending else deadline - time.monotonic()
            if found or (is_ended and not follow) or left <= 0 or await request.is_disconnected():
                told = tuple(event for _, event in found)
                last = found[-1][0] if found else seen
                is_last = is_ended and len(found) < EVENTS_AT_ONCE
                return EventsPart(data=told, last_event_id=str(last), has_ended=is_last)
            await service.news_or_patience(news, min(pause, left))
            pause = min(2 * pause, service.LONGEST_PATIENCE_SECONDS)


async def finished(request: Request, run_id: str, seconds: float) -> RunView | None:
    """Return the run once it has ended; None if `seconds` pass first, or the client has gone."""
    instance, deadline = instance_of(request), time.monotonic() + seconds
    pause = service.PATIENCE_SECONDS
    with instance.announcements.of(run_id) as news:
        while time.monotonic() < deadline:
            if ended := await run_in_threadpool(instance.runs.ended, run_id):
                return ended
            if instance.announcements.is_ending or await request.is_disconnected():
                return None
            await service.news_or_patience(news, min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(2 * pause, service.LONGEST_PATIENCE_SECONDS)
    return None


@retrieval.post(
    "/query",
    name="retrieve",
    response_model=Retrieval | JoinedRetrieval,
    responses=problems(404, 409, 413, 503, 504),
    summary="Search a corpus, or several, as they are",
)
async def query(request: Request, body: QueryRequest, caller: AnyCaller) -> Response:
    """Return ranked chunks with every score, rank and source, and their generation. With `minimum_journal_offset` the
    reply waits for a generation that covers the offset; one that the journal does not have is refused at once (422).
    With `corpora` the chunks of all of them come in one order, each with its corpus."""
    return Response(await _searched(request, body, caller), media_type="application/json")


@retrieval.get("/stats", responses=problems(404, 503), summary="What the engine serves of a corpus")
def stats(request: Request, caller: AnyCaller, corpus: Corpus = "default") -> RetrievalStats:
    """Return the engine, the generation that it serves, and how much that holds."""
    instance = instance_of(request)
    instance.corpora.require(corpus, caller)
    return instance.context.readers.reader(corpus).stats()


async def _searched(request: Request, body: QueryRequest, caller: AnyCaller) -> bytes:
    for name in body.corpora or (body.corpus,):
        caller.may_touch(name)
    return await instance_of(request).query_pool.search(body, current_traceparent())


@retrieval.post(
    "/code_search",
    response_model=Retrieval,
    responses=problems(404, 413, 503, 504),
    summary="Search the code of a corpus",
)
async def code_search(request: Request, body: CodeSearchRequest, caller: AnyCaller) -> Response:
    """Return passages of source code with their files, lines and symbols, the best first: found by meaning, by words,
    and by the graph of symbols where there is one. It takes a question in plain words, a name, or a piece of code."""
    caller.may_touch(body.corpus)
    found = await instance_of(request).query_pool.code_search(body, current_traceparent())
    return Response(found, media_type="application/json")


@retrieval.post("/query/batch", name="batch_retrieve", responses=problems(413, 503), summary="Up to a hundred searches")
async def query_batch(request: Request, body: QueryBatch, caller: AnyCaller) -> BatchResult:
    """Search for each item, at most sixteen at once. Each has the status and the body that it would get alone."""

    async def search(item: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 200, json.loads(await _searched(request, _item(QueryRequest, item), caller))

    return await _batch(request, body.queries, search)


@retrieval.get("/prompts", name="prompts", responses=problems(503), summary="The templates of prompts")
def prompt_templates(_caller: AnyCaller) -> Page[PromptView]:
    """Return the templates that `prompt` may name, each version by itself."""
    return whole(service.prompt_templates())


@runs.post("/gate/batch", responses=problems(413, 503, 507), summary="Up to a hundred questions")
async def ask_batch(
    request: Request, body: GateBatch, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> BatchResult:
    """Record a run for each item. Each has the status and the body that it would get alone; the idempotency key counts
    for each by its place."""
    places = itertools.count()

    async def record(item: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        key = f"{idempotency_key}#{next(places)}" if idempotency_key else None
        wanted = _item(GateRequest, item)
        if wanted.wait:
            raise InvalidInput("wait", "an item of a batch does not wait", "follow /v1/runs/{run_id}/events")
        run = await run_in_threadpool(_asked, instance_of(request), wanted, caller, key)
        return 202, run.model_dump(mode="json")

    return await _batch(request, body.requests, record, at_once=1)


def _asked(instance: Instance, body: GateRequest, caller: AnyCaller, idempotency_key: str | None) -> RunAccepted:
    caller.may_touch(body.corpus)
    if body.memory is not None:
        instance.memory.of(body.memory.project, caller).require_access(body.memory.feature)
    return instance.service.ask(body, owner=caller.owner, idempotency_key=idempotency_key)


def _item(kind: type[SomeRequest], item: dict[str, Any]) -> SomeRequest:
    try:
        return kind.model_validate_json(json.dumps(item))
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error


async def _batch(
    request: Request,
    items: Sequence[dict[str, Any]],
    carry_out: Callable[[dict[str, Any]], Awaitable[tuple[int, dict[str, Any]]]],
    at_once: int = 16,
) -> BatchResult:
    places = asyncio.Semaphore(at_once)

    async def one(item: dict[str, Any]) -> BatchStatus:
        async with places:
            try:
                status, body = await carry_out(item)
            except SluiceError as error:
                status, body = await item_problem(request, error)
        return BatchStatus(status=status, body=body)

    return BatchResult(results=tuple(await asyncio.gather(*map(one, items))))
