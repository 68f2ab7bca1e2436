"""The envelope of every event, the registry of bodies, and the possible outcomes of handling one event.

An event is a past-tense fact (`PageCrawled`); a directive is a command that the gate or a handler issues
(`CrawlDirected`). Both are one frozen `Event`: the envelope names its run (`run_id`, the correlation id), its cause
(`cause_id`) and the trace that it continues (`traceparent`, W3C Trace Context); the `body` holds its content. A body's
class fixes its `kind`, `version` and the `queue` that consumes it (None: recorded and streamed, handled by nobody).

Only `encode` and `decode` convert between an `Event` and bytes. A version once released stays readable: its class stays
registered and its golden file in `tests/golden/events/` stays decodable.

A handler returns an `Outcome`; only `workers/task.py` acts on it. Ids sort by creation time.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field, SerializeAsAny, ValidationError, create_model
from pydantic_core import from_json

from sluice.contracts.base import CorpusName, Moment, Value
from sluice.contracts.budget import Spend
from sluice.contracts.errors import MalformedEvent, first_problem

Queue = Literal["gate", "search", "crawl", "chunk", "embed", "index", "query", "graph"]
QUEUES: tuple[Queue, ...] = ("gate", "search", "crawl", "chunk", "embed", "index", "query", "graph")
AFTERWARDS: frozenset[Queue] = frozenset({"graph"})
"""Stages that no run waits for: the run closes and is answered while they continue."""


class Body(Value):
    """The content of an event. Subclasses set `kind`, `version` and `queue`, and are registered when defined."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    queue: ClassVar[Queue | None] = None
    registry: ClassVar[dict[tuple[str, int], type[Body]]] = {}

    def __init_subclass__(cls, queue: Queue | None = None) -> None:
        super().__init_subclass__()
        cls.kind, cls.queue = cls.__dict__.get("kind", cls.__name__), queue
        key = (cls.kind, cls.version)
        if key in Body.registry:
            raise TypeError(f"two bodies claim {cls.kind} version {cls.version}")
        Body.registry[key] = cls


SomeBody = TypeVar("SomeBody", bound=Body)


class Event(Value):
    """One row of the ledger and one message of a queue: an envelope around a body."""

    id: str
    kind: str
    version: Annotated[int, Field(ge=1)]
    run_id: str
    cause_id: str | None = None
    corpus: CorpusName
    occurred_at: Moment
    traceparent: str | None = None
    baggage: dict[str, str] = Field(default_factory=dict)
    body: SerializeAsAny[Body]

    @classmethod
    def of(
        cls,
        body: Body,
        *,
        run_id: str,
        corpus: str,
        cause: Event | None = None,
        traceparent: str | None = None,
        occurred_at: datetime | None = None,
        baggage: Mapping[str, str] | None = None,
    ) -> Event:
        """Return a new event around `body`. `traceparent` and `baggage` default to those of `cause`."""
        return cls(
            id=new_event_id(),
            kind=body.kind,
            version=body.version,
            run_id=run_id,
            cause_id=cause.id if cause else None,
            corpus=corpus,
            occurred_at=occurred_at or datetime.now(UTC),
            traceparent=traceparent or (cause.traceparent if cause else None),
            baggage=dict(baggage or (cause.baggage if cause else {})),
            body=body,
        )

    def body_as(self, kind: type[SomeBody]) -> SomeBody:
        """Return the body. Raises `MalformedEvent` if it is not of class `kind`."""
        if not isinstance(self.body, kind):
            raise MalformedEvent("kind", f"{self.kind} where {kind.kind} belongs")
        return self.body

    @property
    def queue(self) -> Queue | None:
        """Return the queue whose pool handles this event, or None when it is only recorded."""
        return self.body.queue


class Gap(Value):
    """A part that the answer lacks, and the reason, so that nothing is missing silently."""

    stage: str
    subject: str
    reason: str
    detail: str = ""
    lifted_by: str = ""


class GapFound(Body):
    """A handler could not get a part that the run requested. Streamed, and named in the answer."""

    gap: Gap


def encode(event: Event) -> bytes:
    """Return the event as canonical UTF-8 JSON."""
    return event.model_dump_json().encode()


def decode(raw: bytes | str | dict[str, Any]) -> Event:
    """Return the event in `raw`. Raises `MalformedEvent` if that is not JSON, not an object, of an unknown kind or
    version, or has a field that does not fit; its `field` is the dotted path of the first offence."""
    text = json.dumps(raw) if isinstance(raw, dict) else raw
    body_class = _body_class(raw if isinstance(raw, dict) else _parse(raw))
    try:
        envelope = _envelope_of(body_class).model_validate_json(text)
    except ValidationError as error:
        raise MalformedEvent(*first_problem(error)) from error
    return Event.model_construct(**dict(envelope))


@cache
def _envelope_of(body_class: type[Body]) -> type[Event]:
    """Return the envelope class for this body's class, so that one pass parses both."""
    return create_model(f"{body_class.__name__}Event", __base__=Event, body=(body_class, ...))


def _parse(raw: bytes | str) -> dict[str, Any]:
    try:
        envelope = from_json(raw)
    except ValueError as error:
        raise MalformedEvent("event", "not JSON", "send one JSON object") from error
    if not isinstance(envelope, dict):
        raise MalformedEvent("event", f"a JSON {type(envelope).__name__}, not an object")
    return envelope


def _body_class(envelope: dict[str, Any]) -> type[Body]:
    kind, version = envelope.get("kind"), envelope.get("version")
    body_class = Body.registry.get((kind, version)) if isinstance(kind, str) and isinstance(version, int) else None
    if body_class is None:
        known = sorted({name for name, _ in Body.registry})
        field = "version" if kind in known else "kind"
        raise MalformedEvent(field, f"{kind!r} version {version!r} is not known", f"one of {', '.join(known)}")
    return body_class


def new_run_id() -> str:
    """Return a new run id, which is also the correlation id of everything the run causes."""
    return _sortable("run")


def new_event_id() -> str:
    """Return a new event id."""
    return _sortable("evt")


def made_at(identifier: str) -> datetime:
    """Return the creation time of an id, to the millisecond. Raises `ValueError` if the id has another form."""
    milliseconds = int(identifier.split("_", 1)[1][:12], 16)
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def _sortable(prefix: str) -> str:
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Next:
    """An event to emit: its body, and a key by which a run drops a second one: two pages that link to the same third
    page direct one crawl. `reserve` is the most the work may cost: it is taken from the budget in the transaction that
    emits the event, before any worker can act on it, and replaced by the real spend when the event settles."""

    body: Body
    dedupe_key: str | None = None
    reserve: Spend | None = None


class Waited(NamedTuple):
    """How long a handler waited for its turn at something outside, and for what."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """The event was handled. `emits` become events, `gaps` are the missing parts with reasons."""

    emits: tuple[Next, ...] = ()
    gaps: tuple[Gap, ...] = ()
    spend: Spend = field(default_factory=Spend)
    waited: Waited | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again later: the cause is expected to pass. `spend` is the attempt's cost. With `counts` False nothing was
    tried, and the event may be retried without limit."""

    after_seconds: float
    why: str
    spend: Spend = field(default_factory=Spend)
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Discard:
    """Settle without effect: the event is obsolete (a cancelled run, a passed deadline)."""

    why: str


DeadLetterReason = Literal["exhausted", "poison", "malformed", "unroutable", "policy", "timeout", "discarded"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Park the event for an operator: a retry cannot help. `spend` is the attempt's cost."""

    reason: DeadLetterReason
    error: BaseException | None = field(default=None, compare=False)
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class Postponable:
    """No request was sent: its target kept failing (an open circuit), or the quota is used up. A run continues with
    `instead`. An event that an operator replayed is retried after `after_seconds`, then parked again."""

    instead: Done
    after_seconds: float
    why: str


class CostlyFailure(Exception):
    """Raised by a handler, from the original error, when the failed attempt has a cost."""

    def __init__(self, spend: Spend) -> None:
        super().__init__("the attempt failed and has cost something")
        self.spend = spend


Outcome = Done | Retry | Discard | DeadLetter
"""The outcomes that the ledger records."""
