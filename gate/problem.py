"""From an error response back to the error that caused it."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from pydantic import ValidationError

from sluice.contracts.api import Problem
from sluice.contracts.errors import (
    BudgetExhausted,
    Conflict,
    Corrupted,
    DiskFull,
    Fenced,
    Forbidden,
    InvalidInput,
    InvalidQuestion,
    InvalidSetting,
    MalformedEvent,
    NotFound,
    NotInstalled,
    Overloaded,
    PolicyRefused,
    SluiceError,
    TimedOut,
    Unavailable,
)

_PLAIN: tuple[type[SluiceError], ...] = (
    NotFound,
    Conflict,
    Forbidden,
    BudgetExhausted,
    Unavailable,
    TimedOut,
    DiskFull,
    Corrupted,
    Fenced,
)
_WITH_FIELD: tuple[type[InvalidInput], ...] = (InvalidInput, MalformedEvent, InvalidQuestion, InvalidSetting)
SHOWN_CHARACTERS = 200


def parse_error(response: httpx.Response) -> SluiceError:
    """The error in `contracts.errors` that `response` stands for: by its `Problem`, else by its status."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return _by_status(response, response.text[:SHOWN_CHARACTERS])
    build = _BY_CODE.get(problem.code)
    return build(problem, response) if build else _by_status(response, problem.message)


def _by_status(response: httpx.Response, message: str) -> SluiceError:
    text = f"{response.request.method} {response.url.path}: {response.status_code} {message}"
    match response.status_code:
        case 401 | 403:
            return Forbidden(text)
        case 404:
            return NotFound(text)
        case 409:
            return Conflict(text)
        case 429:
            return Overloaded(text, _retry_after_seconds(response))
        case status if status >= 500:
            return Unavailable(text)
        case _:
            return InvalidInput("request", text)


def _retry_after_seconds(response: httpx.Response) -> float:
    """The Retry-After header in seconds; 1 where it is absent or a date."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 1.0


def _plain(kind: type[SluiceError]) -> Callable[[Problem, httpx.Response], SluiceError]:
    return lambda problem, response: kind(problem.message)


def _with_field(kind: type[InvalidInput]) -> Callable[[Problem, httpx.Response], SluiceError]:
    return lambda problem, response: kind(problem.field or "request", problem.message, problem.remedy or "")


_BY_CODE: dict[str, Callable[[Problem, httpx.Response], SluiceError]] = {
    **{kind.code: _plain(kind) for kind in _PLAIN},
    **{kind.code: _with_field(kind) for kind in _WITH_FIELD},
    PolicyRefused.code: lambda problem, response: PolicyRefused(
        problem.field or "policy", problem.message, problem.remedy or ""
    ),
    NotInstalled.code: lambda problem, response: NotInstalled(problem.message.partition(": ")[0], problem.remedy or ""),
    Overloaded.code: lambda problem, response: Overloaded(problem.message, _retry_after_seconds(response)),
}
