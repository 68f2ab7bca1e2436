"""Errors as responses: one JSON `Problem` for every failure, one table from error to status."""

from __future__ import annotations

from math import ceil
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sluice.contracts import errors
from sluice.contracts.api import Problem
from sluice.workers.service.instance import BROKER_ERRORS

log = structlog.get_logger(__name__)

STATUS: dict[type[errors.SluiceError], int] = {
    errors.InvalidQuestion: 400,
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Forbidden: 403,
    errors.PolicyRefused: 403,
    errors.NotInstalled: 501,
    errors.BudgetExhausted: 429,
    errors.TimedOut: 504,
    errors.Overloaded: 429,
    errors.DiskFull: 507,
    errors.Unavailable: 503,
    errors.Corrupted: 500,
    errors.SluiceError: 500,
}

MEANINGS = {
    400: "The question in Cypher cannot be read, or asks for more than reading: the message has line and column",
    401: "No API key, or one that is not known",
    403: "The key may not do this, or the owner's policy forbids it",
    404: "There is no such thing",
    409: "The idempotency key belongs to another request, or the state does not allow it",
    413: "The request is larger than max_request_bytes",
    422: "A field is wrong: the problem names it",
    429: "No room: a queue is full (come back after Retry-After), or a budget is used up",
    500: "A defect, or damaged data: the log has its trace",
    501: "A library is missing that an extra of the distribution brings",
    503: "A part that is needed does not answer",
    507: "The disk has no room: make some, nothing needs a restart",
    504: "It took longer than its limit",
}

ALWAYS = (401, 403, 422, 500)
UNREADABLE_BODY = 400
"""FastAPI's status for a body that is not UTF-8 or is nested too deep; ours for every body that is no JSON is 422."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route for its OpenAPI description, those of `ALWAYS` included."""
    return {status: {"model": Problem, "description": MEANINGS[status]} for status in sorted({*ALWAYS, *statuses})}


def problems_of_stream(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route whose good response is no JSON: its problems are JSON all the same."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {
        status: {"description": told["description"], "content": {"application/json": {"schema": schema}}}
        for status, told in problems(*statuses).items()
    }


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a `Problem`."""
    app.add_exception_handler(errors.SluiceError, _from_error)
    app.add_exception_handler(RequestValidationError, _from_validation)
    app.add_exception_handler(HTTPException, _from_http)
    for broker_error in BROKER_ERRORS:
        app.add_exception_handler(broker_error, _from_outage)
    app.add_exception_handler(Exception, _from_bug)


def problem(status: int, body: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a `Problem` as a response."""
    return JSONResponse(body.model_dump(exclude_none=True), status_code=status, headers=headers)


async def _from_error(_request: Request, error: Exception) -> JSONResponse:
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    code = getattr(error, "code", "error")
    headers = (
        {"Retry-After": str(max(1, ceil(error.retry_after_seconds)))} if isinstance(error, errors.Overloaded) else {}
    )
    match error:
        case errors.InvalidInput():
            body = Problem(code=code, message=error.problem, field=error.field, remedy=error.remedy or None)
        case errors.PolicyRefused():
            body = Problem(code=code, message=error.problem, field=error.rule, remedy=error.lifted_by or None)
        case _:
            body = Problem(code=code, message=str(error), remedy=getattr(error, "remedy", None))
    return problem(status, body, headers)


async def _from_validation(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class alone
    first = error.errors()[0]
    place, *path = [str(part) for part in first["loc"]] or ["body"]
    field = ".".join(path) if path and first["type"] != "json_invalid" else place
    return problem(
        422,
        Problem(code="invalid_input", message=errors.plain_sentence(first), field=field, remedy="see /openapi.json"),
    )


async def _from_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class alone
    if error.status_code == UNREADABLE_BODY:
        return problem(422, Problem(code="invalid_input", message="not readable as JSON", field="body"))
    code = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 401: "unauthorized"}.get(error.status_code)
    body = Problem(code=code or "error", message=str(error.detail))
    return problem(error.status_code, body, dict(error.headers or {}))


async def _from_outage(request: Request, error: Exception) -> JSONResponse:
    if errors.is_disk_full(error):
        return await _from_error(request, errors.DiskFull("the disk is full"))
    log.error("part_unavailable", error=repr(error))
    return problem(
        503, Problem(code="unavailable", message="the broker or the disk does not answer"), {"Retry-After": "1"}
    )


async def _from_bug(_request: Request, error: Exception) -> JSONResponse:
    log.error("request_failed", error=repr(error), exc_info=error)
    return problem(500, Problem(code="internal_error", message="an unexpected error; the log has its trace"))
