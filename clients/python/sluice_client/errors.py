"""The errors that a server answers with, by the code of its problem.

SluiceError
├── InvalidInput          a field of the request is wrong: `field` names it, `remedy` suggests a valid value
│   ├── InvalidQuestion   a Cypher query that cannot be read
│   ├── InvalidSetting    the server cannot use a setting of its own
│   └── MalformedEvent    the content is no event
├── NotFound              a run, corpus, document, dead letter or generation does not exist
├── Conflict              the request contradicts what is recorded
│   └── IdempotencyKeyReused    its key belongs to a request with another body
├── Forbidden             no key, a key without the role, or a corpus that the key may not touch
├── PolicyRefused         the owner's rules forbid it: `field` names the rule, `remedy` what would lift it
├── NotInstalled          the server lacks a library: `remedy` is the command that installs it
├── BudgetExhausted       a ceiling of the run or the day is reached
├── Unavailable           nothing answers, or a part of the server does not: trying later can help
│   ├── TimedOut          it took longer than its limit
│   ├── Overloaded        a queue or quota is full: come back after `retry_after_seconds`
│   │   └── RateLimited   the API key sends more requests than it may
│   ├── IdempotencyInProgress   the first request under the same key is not recorded yet
│   ├── EmbedderDown      the embedding model is out of reach
│   └── DiskFull          the server's disk has no room
├── Corrupted             bytes on the server's disk do not match their hash
└── Fenced                another worker owns this work now
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

SHOWN_CHARACTERS = 200
SHOWN_PARTS = 5
"""Most characters shown of an error response that holds no problem, such as a proxy's."""


class SluiceError(Exception):
    """Base of every error. `code` is the name of the class in snake case, as in the server's problems: `not_found` for
    `NotFound`.

    Of a response: `status`, `problem` (the whole RFC 9457 object, else empty), `errors` (every wrong part of the
    request, each with `detail` and one of `pointer`, `parameter`, `header`) and `request_id`. Where there was no
    response, `status` is None. `is_retryable`: the same request may succeed later.
    """

    code = "error"

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        status: int | None = None,
        retry_after_seconds: float = 1.0,
        problem: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.problem = dict(problem or {})
        self.errors: list[dict[str, Any]] = list(self.problem.get("errors") or [])
        self.request_id = request_id

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later: as the server says, else by the class."""
        return bool(self.problem.get("retryable", isinstance(self, Unavailable)))

    def __str__(self) -> str:
        return self.message


class InvalidInput(SluiceError):
    """A value of the request is wrong."""

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.field or 'request'}: {self.message}{remedy}"


class InvalidQuestion(InvalidInput):
    """A Cypher query cannot be read, or does more than read."""


class InvalidSetting(InvalidInput):
    """The server cannot use the value of a setting."""


class MalformedEvent(InvalidInput):
    """The content is no event of a known kind and version."""


class NotFound(SluiceError):
    """The requested object is not recorded."""


class Conflict(SluiceError):
    """The request contradicts what is already recorded."""


class IdempotencyKeyReused(Conflict):
    """The idempotency key belongs to a request with another body."""


class Forbidden(SluiceError):
    """The caller may not do this."""


class PolicyRefused(SluiceError):
    """A rule of the owner forbids the request."""

    def __str__(self) -> str:
        lifted = f" (lifted by: {self.remedy})" if self.remedy else ""
        return f"{self.field or 'policy'}: {self.message}{lifted}"


class NotInstalled(SluiceError):
    """The server lacks a library that an extra of its distribution brings."""


class BudgetExhausted(SluiceError):
    """A ceiling on pages, bytes, tokens or USD is reached."""


class Unavailable(SluiceError):
    """Nothing answers, or a part of the server does not; a later try may succeed."""


class TimedOut(Unavailable):
    """The request took longer than its limit."""


class Overloaded(Unavailable):
    """A queue, rate or quota is full."""


class RateLimited(Overloaded):
    """The API key sends more requests than it may."""


class IdempotencyInProgress(Unavailable):
    """The first request under the same idempotency key is not recorded yet."""


class EmbedderDown(Unavailable):
    """The server's embedding model is out of reach."""


class DiskFull(Unavailable):
    """The server's disk has no room."""


class Corrupted(SluiceError):
    """Bytes on the server's disk do not match their hash."""


class Fenced(SluiceError):
    """Another worker owns this work now."""


def _below(kind: type[SluiceError]) -> list[type[SluiceError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in _below(child))]


_BY_CODE = {kind.code: kind for kind in _below(SluiceError)[1:]}
_BY_STATUS = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 429: Overloaded, 504: TimedOut}


def error_of(method: str, path: str, status: int, content: bytes, headers: Mapping[str, str]) -> SluiceError:
    """Return the error for a response: by the code of its problem, else by its status."""
    problem = problem_in(content)
    told: dict[str, Any] = {
        "status": status,
        "problem": problem,
        "request_id": headers.get("X-Request-Id"),
        "retry_after_seconds": wait_told(headers) or 1.0,
    }
    kind = _BY_CODE.get(problem.get("code", ""))
    message = _message(problem)
    if kind is not None and message:
        return kind(message, field=_field(problem), remedy=problem.get("remedy"), **told)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidInput)
    message = message or content.decode("utf-8", "replace")[:SHOWN_CHARACTERS]
    return kind(f"{method} {path}: {status} {message}", remedy=problem.get("remedy"), **told)


def error_named(code: str, message: str, *, field: str | None = None, remedy: str | None = None) -> SluiceError:
    """Return the error with this code; the base class where no class has it."""
    return _BY_CODE.get(code, SluiceError)(message, field=field, remedy=remedy)


def wait_told(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `Retry-After` names, as a number or as a date (RFC 9110, section 10.2.3); None for none
    that can be read."""
    told = headers.get("Retry-After", "")
    if told.isdigit():
        return float(told)
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except ValueError:
        return None


def problem_in(content: bytes) -> dict[str, Any]:
    """Return the problem (RFC 9457) that a response holds; empty where it holds none."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and _message(found) else {}


def _message(problem: Mapping[str, Any]) -> str:
    """Return what is wrong; of several wrong parts each, the first without its name, which is the error's field."""
    parts: Sequence[Mapping[str, Any]] = problem.get("errors") or ({},)
    first, *others = parts
    if others and first.get("detail"):
        each = [f"{_name_of(one) or 'body'}: {one.get('detail')}" for one in others[:SHOWN_PARTS]]
        return "; ".join((str(first["detail"]), *each))
    told = problem.get("detail") or problem.get("message") or problem.get("title")
    return told if isinstance(told, str) else ""


def _field(problem: Mapping[str, Any]) -> str | None:
    """Return the first wrong part's name."""
    return str(problem["field"]) if problem.get("field") else _name_of(next(iter(problem.get("errors") or ()), {}))


def _name_of(part: Mapping[str, Any]) -> str | None:
    """Return a wrong part's name: a JSON pointer's steps, dotted, or a parameter or header."""
    pointer = str(part.get("pointer") or "").strip("/").replace("/", ".").replace("~1", "/").replace("~0", "~")
    return pointer or part.get("parameter") or part.get("header")
