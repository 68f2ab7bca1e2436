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
from collections.abc import Mapping
from typing import Any

SHOWN_CHARACTERS = 200
"""Most characters shown of an error response that holds no problem, such as a proxy's."""


class SluiceError(Exception):
    """Base of every error. `status` is that of the response; None where there was no response. `code` is the name of
    the class in snake case, as in the server's problems: `not_found` for `NotFound`."""

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
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy
        self.status = status
        self.retry_after_seconds = retry_after_seconds

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
    told = headers.get("Retry-After", "")
    wait = float(told) if told.isdigit() else 1.0
    problem = _problem(content)
    kind = _BY_CODE.get(problem.get("code", ""))
    if kind is not None:
        field, remedy = problem.get("field"), problem.get("remedy")
        return kind(problem["message"], field=field, remedy=remedy, status=status, retry_after_seconds=wait)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidInput)
    message = problem.get("message", content.decode("utf-8", "replace")[:SHOWN_CHARACTERS])
    return kind(f"{method} {path}: {status} {message}", status=status, retry_after_seconds=wait)


def _problem(content: bytes) -> dict[str, Any]:
    """Return the problem that a response holds; empty where it holds none."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    is_problem = isinstance(found, dict) and isinstance(found.get("message"), str) and "code" in found
    return found if is_problem else {}
