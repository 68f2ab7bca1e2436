"""The error tree: every failure Sluice names, and whether a retry can help.

    SluiceError
    ├── InvalidInput          a field of a request, an event or a setting is wrong
    │   ├── MalformedEvent    bytes that are not an event of any known kind and version
    │   ├── InvalidQuestion   a Cypher question that cannot be parsed, or that would do more than read
    │   └── InvalidSetting    a key of sluice.toml or a SLUICE_* variable
    ├── NotFound              a run, corpus, document, dead letter or generation that is not there
    ├── Conflict              the request contradicts what is recorded (wrong fingerprint, wrong state)
    │   └── IdempotencyKeyReused    the idempotency key belongs to a request with another body
    ├── PreconditionFailed    what is to be changed is not as the caller last saw it
    ├── Forbidden             no key, a key without the role, or a corpus that the key may not touch
    ├── PolicyRefused         the owner's rules forbid it: robots, egress, allowlist, switched off
    ├── NotInstalled          a library of an extra of the distribution is missing
    ├── BudgetExhausted       a ceiling of the run or the day is reached
    ├── Unavailable           a part we depend on does not answer: a later retry can help
    │   ├── TimedOut          it took longer than its limit
    │   ├── Overloaded        a queue or quota is full
    │   │   └── RateLimited   an API key sends more requests than it may
    │   ├── IdempotencyInProgress   the first request under the same key is not recorded yet
    │   ├── EmbedderDown      the embedding model keeps failing: its work waits, and no attempt is counted
    │   └── DiskFull          the disk of the data directory has no room
    ├── Corrupted             bytes on disk do not match their hash
    └── Fenced                another worker owns this work now; nothing we did may be recorded

`Unavailable` and its children are transient; everything else is permanent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from errno import EDQUOT, ENOSPC
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

Checked = TypeVar("Checked")


class SluiceError(Exception):
    """Base of every error that Sluice raises on purpose."""

    transient = False
    code = "error"

    def __init_subclass__(cls, code: str | None = None) -> None:
        """Set the subclass's `code`, by default that of its base class."""
        super().__init_subclass__()
        cls.code = code or cls.code


class InvalidInput(SluiceError, code="invalid_input"):
    """An input value is wrong. Names the field, the problem and the remedy."""

    def __init__(self, field: str, problem: str, remedy: str = "") -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}: {problem}" + (f" ({remedy})" if remedy else ""))


class MalformedEvent(InvalidInput, code="malformed_event"):
    """Bytes that do not decode to an event of a known kind and version."""


class InvalidQuestion(InvalidInput, code="invalid_question"):
    """A Cypher question that cannot be parsed, or that would do more than read. Names line and column."""


class InvalidSetting(InvalidInput, code="invalid_setting"):
    """A setting whose value cannot be used."""


class NotFound(SluiceError, code="not_found"):
    """The requested object is not recorded here."""


class Conflict(SluiceError, code="conflict"):
    """The request contradicts what is already recorded."""


class IdempotencyKeyReused(Conflict, code="idempotency_key_reused"):
    """The idempotency key belongs to another request. The same key goes with the same body only."""

    remedy = "send the first request's body again, or a new key"


class PreconditionFailed(SluiceError, code="precondition_failed"):
    """What is to be changed is not as the caller last saw it (`If-Match`)."""


class Forbidden(SluiceError, code="forbidden"):
    """The caller may not do this."""


class PolicyRefused(SluiceError, code="policy_refused"):
    """A rule of the owner forbids the action. `rule` names it, `lifted_by` names the change that would allow it."""

    def __init__(self, rule: str, problem: str, lifted_by: str = "") -> None:
        self.rule = rule
        self.problem = problem
        self.lifted_by = lifted_by
        super().__init__(f"{rule}: {problem}" + (f" (lifted by: {lifted_by})" if lifted_by else ""))


class NotInstalled(SluiceError, code="not_installed"):
    """A library of an extra of the distribution is missing. `remedy` is the command that installs it."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem + (f": {remedy} brings it" if remedy else ""))


class BudgetExhausted(SluiceError, code="budget_exhausted"):
    """A ceiling on pages, bytes, tokens or USD is reached."""


class Unavailable(SluiceError, code="unavailable"):
    """A part that we depend on does not answer; a retry may succeed after `retry_after_seconds`."""

    transient = True

    def __init__(self, message: str, retry_after_seconds: float = 1.0) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class TimedOut(Unavailable, code="timed_out"):
    """An external call took longer than its limit."""


class Overloaded(Unavailable, code="overloaded"):
    """A queue, rate or quota is full. `retry_after_seconds` is the time until the next try."""


class RateLimited(Overloaded, code="rate_limited"):
    """The API key sends more requests than it may. `Retry-After` says when the next one is let through."""


class IdempotencyInProgress(Unavailable, code="idempotency_in_progress"):
    """The first request under this idempotency key is not recorded yet. The same request finds its run soon."""


class EmbedderDown(Unavailable, code="embedder_down"):
    """The embedding model is out of reach. Work that needs a vector is retried after `retry_after_seconds`."""


class StoreDown(Unavailable, code="store_down"):
    """The object store that machines share does not answer. Work that needs it waits, however long that is."""


class DiskFull(Unavailable, code="disk_full"):
    """The disk is too full for a write. Reads continue; writes continue once there is room."""

    remedy = "make room on the disk of the data directory; nothing needs a restart"


class Corrupted(SluiceError, code="corrupted"):
    """Bytes on disk do not match the hash that was recorded for them."""


class Fenced(SluiceError, code="fenced"):
    """Another worker took over the claim behind this work; nothing it did may be recorded."""


Extra = Literal[
    "crawl", "cypher", "eval", "fit", "graph", "mcp", "memory", "neo4j", "postgres", "private", "qdrant", "uploads"
]
"""Extras of the distribution, installed on demand. The library of an extra is imported where it is first used."""


def needed(extra: Extra, error: ImportError) -> NotInstalled:
    """Return the error that names the missing library and the command that installs it."""
    library = (error.name or str(error)).partition(".")[0]
    return NotInstalled(f"{library} is not installed", f"pip install 'sluice[{extra}]'")


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error reports a full disk or a user's exhausted disk quota."""
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT))


def first_problem(error: ValidationError, prefix: Sequence[str] = ()) -> tuple[str, str]:
    """Return the dotted field and the plain sentence of a validation error's first entry."""
    entry = error.errors(include_url=False, include_input=False)[0]
    path = [*prefix, *(str(part) for part in entry["loc"])]
    return ".".join(path) or "body", plain_sentence(entry)


def checked(kind: Callable[..., Checked], /, **fields: object) -> Checked:
    """Return the value of a model with these fields. Raises `InvalidInput`, naming the field, if they do not fit."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error


def plain_sentence(entry: Mapping[str, Any]) -> str:
    """Return the message of a validation error's entry, without patterns that only programs read."""
    if entry["type"] == "string_pattern_mismatch":
        pattern = entry.get("ctx", {}).get("pattern", "")
        return next((told for known, told in _FORMS.items() if pattern.startswith(known)), str(entry["msg"]))
    return str(entry["msg"]).removeprefix("Value error, ")


_FORMS = {
    r"\S": "is blank",
    r"^[a-z0-9][a-z0-9_.-]{0,62}": "is no name: small letters, digits, '-', '_' and '.', at most 63, as in my-docs",
    r"^lrn_": "is no id of a learning: lrn_ and 24 hexadecimal digits, as the list of learnings tells them",
    r"^[0-9a-f]{64}": "is no SHA-256: 64 hexadecimal digits in small letters",
}
"""Messages by the beginning of a pattern."""
