"""A wake-up as a raw item of a queue. What is none is refused before anything acts on it."""

from __future__ import annotations

import base64
import json
import re
import reprlib
import secrets
from typing import Any

from sluice.contracts.errors import InvalidInput, MalformedEvent
from sluice.contracts.outcome import DeadLetterReason
from sluice.workers.broker.celery_app import HANDLE_TASK
from sluice.workers.broker.keys import EXCHANGE

MOST_ITEM_BYTES = 16_384
"""A wake-up has about 500 bytes, one sent by `Celery.send_task` 1,000. What is much larger is not even parsed."""
SHOWN_CHARACTERS = 80
"""How much of a wrong value an error quotes."""
_EVENT_ID = re.compile(r"evt_[0-9a-f]{28}")


def make_wake_up(event_id: str, stage: str) -> str:
    """A raw item for the stage's queue, as Celery (message protocol 2) and kombu's own transport read it too."""
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


def wake_up_in(item: bytes, stage: str) -> str:
    """The id of the event for which a raw item of this stage's queue was published.

    Raises:
        MalformedEvent: it is no wake-up: not JSON, or a part that a wake-up has is missing or wrong.
        InvalidInput: it is for another task or another queue.
    """
    envelope = _object(_parsed(item), "item")
    headers, properties = _object(envelope.get("headers"), "headers"), _object(envelope.get("properties"), "properties")
    route = _object(properties.get("delivery_info"), "properties.delivery_info")
    _text(properties.get("delivery_tag"), "properties.delivery_tag")
    body = _body(_text(envelope.get("body"), "body"), properties.get("body_encoding"))
    _check_task(_text(headers.get("task"), "headers.task"))
    _check_route(_text(route.get("exchange"), "exchange"), _text(route.get("routing_key"), "routing_key"), stage)
    return _announced(body)


def reason_of(refusal: InvalidInput) -> DeadLetterReason:
    """The dead letter's reason for an item that `wake_up_in` refused."""
    return "malformed" if isinstance(refusal, MalformedEvent) else "unroutable"


def _parsed(item: bytes) -> object:
    if len(item) > MOST_ITEM_BYTES:
        raise MalformedEvent("item", f"{len(item)} bytes", f"a wake-up has {MOST_ITEM_BYTES} at most")
    return _json("item", item)


def _body(text: str, encoding: object) -> object:
    if encoding != "base64":
        raise MalformedEvent("properties.body_encoding", f"{_shown(encoding)} where base64 belongs")
    try:
        return _json("body", base64.b64decode(text, validate=True))
    except ValueError as error:
        raise MalformedEvent("body", f"no base64: {error}") from error


def _check_task(task: str) -> None:
    if task != HANDLE_TASK:
        raise InvalidInput("headers.task", f"{_shown(task)} is no task of this queue", f"send {HANDLE_TASK}")


def _check_route(exchange: str, routing_key: str, stage: str) -> None:
    if exchange != EXCHANGE or routing_key.partition(".")[0] != stage:
        sent = f"{_shown(routing_key)} of exchange {_shown(exchange)}"
        raise InvalidInput(
            "properties.delivery_info", f"{sent} is not for {stage}", f"send {stage}.permit to {EXCHANGE}"
        )


def _announced(body: object) -> str:
    match body:
        case [[str(event_id)], dict(named), dict(embedded)] if not named and not any(embedded.values()):
            if _EVENT_ID.fullmatch(event_id):
                return event_id
    raise MalformedEvent("body", f"{_shown(body)} is no event id", "send [[event id], {}, {}]")


def _json(field: str, text: bytes) -> object:
    try:
        return json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedEvent(field, f"no JSON: {error}") from error


def _object(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedEvent(field, f"{_shown(value)} where an object belongs")
    return value


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise MalformedEvent(field, f"{_shown(value)} where a text belongs")
    return value


def _shown(value: object) -> str:
    """As much of a wrong value as a log line can bear, in ASCII whatever it holds, and however deep it is."""
    return reprlib.repr(value)[:SHOWN_CHARACTERS].encode("ascii", "backslashreplace").decode()
