"""Errors as responses: one `Problem` (RFC 9457) for every failure, one table from error to status."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from math import ceil
from typing import Any, get_args

import structlog
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from sluice.contracts import errors
from sluice.contracts.api import Problem, WrongPart
from sluice.workers.service.instance import BROKER_ERRORS

log = structlog.get_logger(__name__)

STATUS: dict[type[errors.SluiceError], int] = {
    errors.InvalidQuestion: 400,
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.IdempotencyKeyReused: 422,
    errors.Conflict: 409,
    errors.PreconditionFailed: 412,
    errors.Forbidden: 403,
    errors.PolicyRefused: 403,
    errors.NotInstalled: 501,
    errors.BudgetExhausted: 429,
    errors.TimedOut: 504,
    errors.Overloaded: 429,
    errors.RateLimited: 429,
    errors.IdempotencyInProgress: 409,
    errors.DiskFull: 507,
    errors.Unavailable: 503,
    errors.Corrupted: 500,
    errors.SluiceError: 500,
}

MEANINGS = {
    400: "It is no HTTP; or a question in Cypher cannot be read, or asks for more than reading: the problem says where",
    401: "No API key, or one that is not known",
    403: "The key may not do this, or the owner's policy forbids it",
    404: "There is no such thing",
    408: "The request did not come in time",
    409: "The state does not allow it, or the first request under the same idempotency key is not recorded yet",
    405: "The path exists, but not with this method: `Allow` has those that do",
    412: "It was changed since it was read: `If-Match` names another version",
    413: "The request is larger than its route takes",
    415: "The body is of a media type that the route does not take",
    422: "A field is wrong: the problem names it; or the idempotency key belongs to another request",
    429: "Too many requests of this key, or a full queue (come back after Retry-After), or a budget is used up",
    431: "The head is too large, its URL included",
    500: "A defect, or damaged data: the log has its trace",
    501: "A library is missing that an extra of the distribution brings",
    503: "A part that is needed does not answer",
    507: "The disk has no room: make some, nothing needs a restart",
    504: "It took longer than its limit",
}

OF_HTTP = {
    400: "invalid_input",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "timed_out",
    413: "too_large",
    415: "unsupported_media_type",
    431: "too_large",
}
"""Codes of failures that no error class stands for."""
RETRYABLE = frozenset({408, 429, 503, 504, 507})
RETRYABLE_CODES = frozenset({errors.IdempotencyInProgress.code})

ALWAYS = (400, 401, 403, 422, 429, 431, 500)
UNREADABLE_BODY = 400
"""FastAPI's status for a body that is not UTF-8 or is nested too deep; ours for every body that is no JSON is 422."""
MEDIA_TYPE = "application/problem+json"
PAGES = "/problems/"
INSTANCE = "urn:sluice:request:"
MOST_WRONG_PARTS = 100

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request in hand."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route for its OpenAPI description, those of `ALWAYS` included."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {
        status: {"description": MEANINGS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*ALWAYS, *statuses})
    }


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a `Problem`."""
    app.add_exception_handler(errors.SluiceError, _from_error)
    app.add_exception_handler(RequestValidationError, _from_validation)
    app.add_exception_handler(HTTPException, _from_http)
    for broker_error in BROKER_ERRORS:
        app.add_exception_handler(broker_error, _from_outage)
    app.add_exception_handler(Exception, _from_bug)
    app.include_router(pages)


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    remedy: str | None = None,
    wrong: Sequence[WrongPart] = (),
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a `Problem` as a response, under the id of the request in hand."""
    told = Problem(
        type=f"{PAGES}{code}",
        title=titles().get(code, ""),
        status=status,
        detail=detail,
        instance=f"{INSTANCE}{request_id.get()}" if request_id.get() else None,
        code=code,
        remedy=remedy,
        retryable=status in RETRYABLE or code in RETRYABLE_CODES,
        errors=tuple(wrong),
        message=detail,
        field=field,
    )
    return Response(told.model_dump_json(exclude_none=True), status, headers, MEDIA_TYPE)


@cache
def titles() -> dict[str, str]:
    """Return the meaning of each code: the first sentence of its error's docstring, or of its status."""
    of_errors = {kind.code: kind for kind in reversed(STATUS)}
    told = {code: inspect.cleandoc(kind.__doc__ or "").partition("\n")[0] for code, kind in of_errors.items()}
    named = {code: line.partition(". ")[0].rstrip(".") for code, line in told.items()}
    by_status = {code: MEANINGS[status] for status, code in OF_HTTP.items() if status in MEANINGS}
    return {**by_status, "internal_error": MEANINGS[500], **named}


pages = APIRouter(include_in_schema=False)


@pages.get(PAGES + "{code}")
def page(code: str) -> Response:
    """Return what a problem's `type` leads to: its meaning, and the statuses that it comes with."""
    if code not in titles():
        raise errors.NotFound(f"there is no problem {code!r}: {', '.join(sorted(titles()))}")
    of_errors = ((kind.code, status) for kind, status in STATUS.items())
    found = sorted({status for its, status in [*of_errors, *((of, s) for s, of in OF_HTTP.items())] if its == code})
    lines = [f"# {code}", "", f"{titles()[code]}.", "", *(f"- {one}: {MEANINGS[one]}." for one in found)]
    return Response("\n".join(lines) + "\n", media_type="text/markdown")


async def item_problem(request: Request, error: errors.SluiceError) -> tuple[int, dict[str, Any]]:
    """Return the status and the problem of one item of a batch."""
    response = await _from_error(request, error)
    return response.status_code, json.loads(bytes(response.body))


def status_of(error: Exception) -> int:
    """Return the status that an error of the tree is answered with."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


async def _from_error(request: Request, error: Exception) -> Response:
    status = status_of(error)
    code = getattr(error, "code", "error")
    match error:
        case errors.InvalidInput():
            wrong = [_wrong_part(request, error.field, error.problem)]
            remedy = error.remedy or None
            return problem(status, code, error.problem, remedy=remedy, wrong=wrong, field=error.field)
        case errors.PolicyRefused():
            return problem(status, code, error.problem, remedy=error.lifted_by or None, field=error.rule)
        case errors.IdempotencyKeyReused() | errors.PreconditionFailed():
            wrong = [WrongPart(detail=str(error), header="If-Match" if status == 412 else "Idempotency-Key")]
            return problem(status, code, str(error), remedy=getattr(error, "remedy", None), wrong=wrong)
        case errors.Overloaded() | errors.IdempotencyInProgress():
            later = {"Retry-After": str(max(1, ceil(error.retry_after_seconds)))}
            return problem(status, code, str(error), headers=later)
        case _:
            return problem(status, code, str(error), remedy=getattr(error, "remedy", None))


def _wrong_part(request: Request, field: str, detail: str) -> WrongPart:
    if field in request.query_params or field in request.path_params:
        return WrongPart(detail=detail, parameter=field)
    if field.isascii() and field.lower() in request.headers:
        return WrongPart(detail=detail, header=field)
    return WrongPart(detail=detail, pointer=_pointer([] if field == "body" else field.split(".")))


async def _from_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class alone
    first = error.errors()[0]
    place, *path = [str(part) for part in first["loc"]] or ["body"]
    field = ".".join(path) if path and first["type"] != "json_invalid" else place
    wrong = list(_wrong_parts(request, error))
    detail = wrong[0].detail if len(wrong) == 1 else f"{len(wrong)} parts of the request are wrong"
    return problem(422, errors.InvalidInput.code, detail, remedy="see /openapi.json", wrong=wrong, field=field)


def _wrong_parts(request: Request, error: RequestValidationError) -> Iterator[WrongPart]:
    """Yield each wrong part once, though a union says of each of its members why it does not fit."""
    seen = set()
    for entry in error.errors()[:MOST_WRONG_PARTS]:
        place, *path = [*entry["loc"]] or ["body"]
        detail = errors.plain_sentence(entry)
        if place != "body":
            name = str(path[0]) if path else ""
            part = WrongPart(detail=detail, **{"header" if place == "header" else "parameter": name})
        elif entry["type"] == "json_invalid":
            part = WrongPart(detail=f"no JSON: {entry.get('ctx', {}).get('error', detail)}", pointer="")
        else:
            real = list(_real(path, error.body))
            like = _alike(request, real) if entry["type"] == "extra_forbidden" else None
            part = WrongPart(detail=detail, pointer=_pointer(real), did_you_mean=like)
        if part not in seen:
            seen.add(part)
            yield part


def _real(path: Sequence[str | int], body: Any) -> Iterator[str | int]:
    """Yield the steps of `path` that lead through `body`: pydantic names the members of unions between them."""
    for position, step in enumerate(path):
        is_known = (isinstance(body, Mapping) and step in body) or (isinstance(body, list) and isinstance(step, int))
        if is_known:
            yield step
            body = body[step] if isinstance(body, Mapping) or 0 <= int(step) < len(body) else None
        elif position == len(path) - 1 and isinstance(body, Mapping):
            yield step  # what is missing


def _pointer(path: Iterable[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _alike(request: Request, path: Sequence[str | int]) -> str | None:
    """Return the known field that is most like the unknown one at `path`, if one is like it at all."""
    body = getattr(request.scope.get("route"), "body_field", None)
    kinds = [] if body is None else list(_models(body.field_info.annotation))
    for step in path[:-1]:
        if isinstance(step, str):
            fields = (kind.model_fields[step] for kind in kinds if step in kind.model_fields)
            kinds = [kind for field in fields for kind in _models(field.annotation)]
    known = [name for kind in kinds for name in kind.model_fields]
    return next(iter(difflib.get_close_matches(str(path[-1]), known, 1)), None)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


async def _from_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class alone
    if error.status_code == UNREADABLE_BODY:
        is_form = request.headers.get("content-type", "").startswith("multipart/")
        detail = str(error.detail) if is_form else "not readable as JSON"
        wrong = [WrongPart(detail=detail, pointer="")]
        return problem(422, errors.InvalidInput.code, detail, wrong=wrong, field="body")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(sorted(_allowed(request)))
    code = OF_HTTP.get(error.status_code, "error")
    return problem(error.status_code, code, str(error.detail), headers=headers)


def _allowed(request: Request) -> set[str]:
    """Return the methods of the path: Starlette knows those of the first route that fits alone."""
    fit = [one for one in request.app.state.routes if one.matches(request.scope)[0] is not Match.NONE]
    methods = {method for one in fit if one.path == fit[0].path and one.include_in_schema for method in one.methods}
    return methods | ({"HEAD"} if "GET" in methods else set())


async def _from_outage(request: Request, error: Exception) -> Response:
    if errors.is_disk_full(error):
        return await _from_error(request, errors.DiskFull("the disk is full"))
    log.error("part_unavailable", error=repr(error))
    detail = "the broker or the disk does not answer"
    return problem(503, errors.Unavailable.code, detail, headers={"Retry-After": "1"})


async def _from_bug(_request: Request, error: Exception) -> Response:
    log.error("request_failed", error=repr(error), exc_info=error)
    return problem(500, "internal_error", "an unexpected error; the log has its trace under this request's id")
