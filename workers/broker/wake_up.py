"""A wake-up as a raw item of a queue. Any other item is refused before anything acts on it."""

from __future__ import annotations

import base64
import json
import re
import reprlib
import secrets
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sluice.contracts.errors import InvalidInput, MalformedEvent, first_problem
from sluice.contracts.outcome import DeadLetterReason
from sluice.workers.broker.celery_app import HANDLE_TASK
from sluice.workers.broker.keys import EXCHANGE

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
