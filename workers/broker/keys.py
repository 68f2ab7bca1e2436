"""Every name that Sluice uses in the broker, in one place, with its time to live.

All are prefixed by the instance's name, so that instances can share a broker. The form of a wake-up, the raw item of a
queue, stands here too: any other item is refused before anything acts on it.

| name | kind | holds | lives |
|---|---|---|---|
| `{i}:{stage}` | list | messages of one stage | until consumed; rebuilt from the ledger if lost |
| `{i}:taken:{stage}:{worker}` | list | items that a worker has taken from its queue | until acknowledged, or put back |
| `{i}:takers:{stage}` | set | workers that may have such a list | until they are dead and it is empty |
| `{i}:malformed:{stage}` | list | items of a queue that are no wake-up | until parked as dead letters |
| `{i}:parking:{stage}` | string | lock of the worker that parks one of them | `PARKING_TTL_SECONDS` |
| `{key}:misplaced-{random}` | any | a value of the wrong type, moved off its key | until an operator deletes it |
| `{i}:_kombu.binding…` | sets | topic bindings, for others to see | always; declared again if lost |
| `{i}:unacked`, `…_index`, `…_mutex` | hash, sorted set, lock | items handed out by stock kombu | until acknowledged |
| `{i}:reads` | list | direct queries for the query pool | `REPLY_TTL_SECONDS` after the latest |
| `{i}:reply:{id}` | list | the answer to one direct query | `REPLY_TTL_SECONDS` |
| `{i}:worker:{stage}:{name}` | string | how many events this living worker handles at once | `PRESENCE_TTL_SECONDS` |
| `{i}:embedder-down` | string | why the embedding model is out of reach | `EMBEDDER_DOWN_TTL_SECONDS` |
| `{i}:turns:host:{host}`, `…domain:{domain}` | hash | times of the next permitted requests | see
`ingest.politeness.rate_limit` |
| `{i}:robots:{origin}` | string | the rules of a robots.txt | a day, five minutes where it was not available |
| `{i}:host:{host}` | hash | whether its latest pages needed a browser | 7 days |
| `{i}:circuit:{host}` | string | when a worker last found that it kept failing | a day |
| `{i}:hosts:{day}`, `{i}:hosts:{day}:{host}` | sorted set, hash | the crawl's counts for each host | 8 days |
| `{i}:quota:…` | counters | search calls per provider and day | two days |
| `{i}:empty:{hash}` | string | a search for which a provider found nothing | 600 s |
| `{i}:rate:{key id}` | string | when the bucket of this API key is full again | until it is |
| `{i}:announced` | pub/sub channel | run id and kind of each recorded event | not kept: only a hint |
| `{i}:cancelled` | pub/sub channel | ids of cancelled runs | not kept: only a hint |
"""

from __future__ import annotations

import base64
import json
import re
import reprlib
import secrets
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sluice.contracts.errors import InvalidInput, MalformedEvent, first_problem
from sluice.contracts.event import QUEUES, DeadLetterReason

CONNECT_RETRIES = {"max_retries": 1, "interval_start": 0.05}
SOCKET_TIMEOUT_SECONDS = 10.0
EXCHANGE = "sluice"
HANDLE_TASK = "sluice.handle"
REPLY_TTL_SECONDS = 60
PARKING_TTL_SECONDS = 10
"""Time that a worker which dies while it parks delays the others. If the ledger takes longer, two may park one item."""
EMBEDDER_DOWN_TTL_SECONDS = 6
"""Three reports of a worker that it is still so."""
PRESENCE_TTL_SECONDS = 6
"""Three missed signs of life."""


class Keys:
    """The names of one instance."""

    def __init__(self, instance: str) -> None:
        self.prefix = f"{instance}:"
        self.bindings = f"{self.prefix}_kombu.binding.{EXCHANGE}"
        """Kombu's name for the bindings of our exchange."""
        self.reads = f"{self.prefix}reads"
        self.announced = f"{self.prefix}announced"
        self.cancelled = f"{self.prefix}cancelled"
        self.embedder_down = f"{self.prefix}embedder-down"

    def queue(self, stage: str) -> str:
        """Return the list of a stage's messages."""
        return f"{self.prefix}{stage}"

    def taken(self, stage: str, worker: str) -> str:
        """Return the list of items that a worker has taken from its queue and not acknowledged."""
        return f"{self.prefix}taken:{stage}:{worker}"

    def takers(self, stage: str) -> str:
        """Return the set of a stage's workers that may have taken items."""
        return f"{self.prefix}takers:{stage}"

    def malformed(self, stage: str) -> str:
        """Return the list of items from a stage's queue that are no wake-up."""
        return f"{self.prefix}malformed:{stage}"

    def parking(self, stage: str) -> str:
        """Return the lock of the worker that parks a malformed item."""
        return f"{self.prefix}parking:{stage}"

    def presence(self, stage: str, worker: str) -> str:
        """Return the key by which a worker shows that it lives. `*` for a part gives a pattern."""
        return f"{self.prefix}worker:{stage}:{worker}"

    def rate(self, owner: str) -> str:
        """Return the key of an API key's bucket of requests."""
        return f"{self.prefix}rate:{owner}"

    def reply(self, request_id: str) -> str:
        """Return the key of the reply to one direct query."""
        return f"{self.prefix}reply:{request_id}"

    def kinds(self) -> dict[str, str]:
        """Return the Redis type of each key that a worker or a reader depends on."""
        lists = [self.reads] + [key(stage) for stage in QUEUES for key in (self.queue, self.malformed)]
        sets = [self.bindings, f"{self.prefix}_kombu.binding_permanent.{EXCHANGE}", *map(self.takers, QUEUES)]
        return dict.fromkeys(lists, "list") | dict.fromkeys(sets, "set")


def misplaced_key(key: str) -> str:
    """Return a new name for a key that holds a value of the wrong type."""
    return f"{key}:misplaced-{secrets.token_hex(4)}"


MOST_ITEM_BYTES = 16_384
"""A wake-up has about 500 bytes, one sent by `Celery.send_task` 1,000. A much larger item is not even parsed."""
SHOWN_CHARACTERS = 80
"""Characters of a wrong value that an error quotes."""
_EVENT_ID = re.compile(r"evt_[0-9a-f]{28}")


def make_wake_up(event_id: str, stage: str) -> str:
    """Make a raw item for the stage's queue. Celery (message protocol 2) and kombu's own transport can read it too."""
    body = json.dumps([[event_id], {}, {}]).encode()
    return json.dumps(
        {
            "body": base64.b64encode(body).decode(),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {"lang": "py", "task": HANDLE_TASK, "id": event_id, "ignore_result": True},
            "properties": {
                "delivery_mode": 2,
                "delivery_info": {"exchange": EXCHANGE, "routing_key": f"{stage}.permit"},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": secrets.token_hex(16),
            },
        }
    )


class _Part(BaseModel):
    """A part of a message as kombu writes it. Other fields are ignored."""

    model_config = ConfigDict(strict=True)


class _Headers(_Part):
    task: str


class _Route(_Part):
    exchange: str
    routing_key: str


class _Properties(_Part):
    delivery_tag: str
    delivery_info: _Route
    body_encoding: Literal["base64"]


class _Message(_Part):
    headers: _Headers
    properties: _Properties
    body: str


def wake_up_in(item: bytes, stage: str) -> str:
    """Return the id of the event for which a raw item of this stage's queue was published.

    Raises:
        MalformedEvent: it is no wake-up: not JSON, or a part that a wake-up has is missing or wrong.
        InvalidInput: it is for another task or another queue.
    """
    if len(item) > MOST_ITEM_BYTES:
        raise MalformedEvent("item", f"{len(item)} bytes", f"a wake-up has {MOST_ITEM_BYTES} at most")
    try:
        message = _Message.model_validate(json.loads(item.decode()))
        body = json.loads(base64.b64decode(message.body, validate=True).decode())
    except ValidationError as error:
        raise MalformedEvent(*first_problem(error)) from error
    except (ValueError, RecursionError) as error:
        raise MalformedEvent("item", f"no JSON, or its body no JSON in base64: {error}") from error
    task, route = message.headers.task, message.properties.delivery_info
    if task != HANDLE_TASK:
        raise InvalidInput("headers.task", f"{_shown(task)} is no task of this queue", f"send {HANDLE_TASK}")
    if route.exchange != EXCHANGE or route.routing_key.partition(".")[0] != stage:
        sent, remedy = f"{_shown(route.routing_key)} of {_shown(route.exchange)}", f"send {stage}.permit to {EXCHANGE}"
        raise InvalidInput("properties.delivery_info", f"{sent} is not for {stage}", remedy)
    match body:
        case [[str(event_id)], dict(named), dict(embedded)] if not named and not any(embedded.values()):
            if _EVENT_ID.fullmatch(event_id):
                return event_id
    raise MalformedEvent("body", f"{_shown(body)} is no event id", "send [[event id], {}, {}]")


def reason_of(refusal: InvalidInput) -> DeadLetterReason:
    """Return the dead letter's reason for an item that `wake_up_in` refused."""
    return "malformed" if isinstance(refusal, MalformedEvent) else "unroutable"


def _shown(value: object) -> str:
    """Return a wrong value for a log line: bounded in length and depth, in ASCII."""
    return reprlib.repr(value)[:SHOWN_CHARACTERS].encode("ascii", "backslashreplace").decode()
