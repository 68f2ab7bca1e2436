"""Writes what webhooks are told, in the transaction of the event that it tells of.

Promises: an event that was committed has a delivery for each endpoint that wanted it then, and an event that was not
has none. Deliveries of one run have the order of its events, as the caller holds the run's row: they share a *lane*.
What belongs to no run has a lane of its own. One event has one message id, over all endpoints and attempts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, exists, insert, or_, select

from sluice.contracts.event import Event, GapFound, new_event_id
from sluice.contracts.index import AnswerReady, AnswerStale, RunFinished
from sluice.contracts.learning.events import DefenceTripped, WebhookDisabled
from sluice.contracts.operations.webhooks import HookType
from sluice.ledger.schema.tables import AnyRow, api_keys, moment, webhook_deliveries, webhooks
from sluice.ledger.transaction import Transaction

QUARANTINED = "quarantined"
"""Reason of the gap that a document with blocked chunks leaves."""
MOST_CITATIONS = 200
"""Numbers of stale citations in one body; the run has them all."""

IN_FORCE = (
    webhooks.c.disabled_at.is_(None),
    ~exists().where(
        api_keys.c.id == webhooks.c.owner,
        or_(api_keys.c.revoked_at.is_not(None), api_keys.c.expires_at <= bindparam("current", callable_=time.time)),
    ),
)
"""SQL conditions of the endpoints that get deliveries: not disabled, and their key is neither revoked nor ended."""
_IN_FORCE = select(webhooks.c.id, webhooks.c.types, webhooks.c.corpora).where(*IN_FORCE)
_INSERT = insert(webhook_deliveries).returning(webhook_deliveries.c.seq)


@dataclass(frozen=True, slots=True)
class Message:
    """What one event tells. `data` holds ids, states and paths only: documents may be forgotten, hooks are not."""

    type: HookType | str
    data: Mapping[str, Any]
    run_id: str | None = None
    corpus: str | None = None
    """None: the whole instance's, for endpoints of all corpora."""
    id: str = field(default_factory=lambda: "msg_" + new_event_id().removeprefix("evt_"))

    def row(self, endpoint_id: str, now: float) -> dict[str, Any]:
        """Return the row of its delivery to one endpoint."""
        body = {"type": self.type, "timestamp": moment(now).isoformat().replace("+00:00", "Z"), "data": self.data}
        return {
            "endpoint_id": endpoint_id,
            "message_id": self.id,
            "lane": self.run_id or self.id,
            "run_id": self.run_id,
            "corpus": self.corpus,
            "type": self.type,
            "body": json.dumps(body, separators=(",", ":")),
            "status": "pending",
            "created_at": now,
            "due_at": now,
        }


def note_events(connection: Transaction, run: AnyRow, events: list[Event], now: float) -> None:
    """Write the deliveries of a run's events; the caller holds the run's row."""
    for event in events:
        told = _message_of(run, event)
        if told is not None:
            note(connection, told, now)


def note(connection: Transaction, told: Message, now: float) -> None:
    """Write a delivery of the message for each endpoint that wants it."""
    wanting = [row.id for row in connection.execute(_IN_FORCE) if _wants(row, told)]
    if wanting:
        connection.insert_each(_INSERT, [told.row(one, now) for one in wanting])


def _wants(endpoint: AnyRow, told: Message) -> bool:
    corpora = endpoint.corpora.split()
    return told.type in endpoint.types.split() and (not corpora or told.corpus in corpora)


def parked(run: AnyRow | None, letter: Mapping[str, Any]) -> Message:
    """Return the message on a dead letter, from the letter's columns. Without a run it is the whole instance's."""
    run_id, corpus = (run.run_id, run.corpus) if run is not None else (None, None)
    told = {name: letter.get(name) for name in ("stage", "kind", "reason", "fingerprint")}
    links = {"dead_letter": f"/v1/dead-letters/{letter['id']}", **_run_link(run_id)}
    data = {"dead_letter_id": letter["id"], "run_id": run_id, "corpus": corpus, **told, "links": links}
    return Message("dead_letter.parked", data, run_id, corpus)


def _message_of(run: AnyRow, event: Event) -> Message | None:
    told: tuple[HookType, dict[str, Any]]
    match event.body:
        case RunFinished() as body if run.kind != "control":
            told = "run.finished", {"kind": run.kind, "status": body.status, "missing": len(body.missing)}
        case AnswerReady() as body:
            told = "answer.ready", {"citations": len(body.answer.citations)}
        case AnswerStale() as body:
            stale = [{"citation": one.citation, "what": one.what} for one in body.citations[:MOST_CITATIONS]]
            told = "answer.stale", {"citations": stale}
        case GapFound(gap=gap) if gap.reason == QUARANTINED:
            told = "quarantine.held", {"stage": gap.stage}
        case DefenceTripped(defence=defence):
            return _of_instance("defence.tripped", event, {"name": defence.name, "profile": defence.profile})
        case WebhookDisabled() as body:
            return _of_instance("webhook.disabled", event, {"webhook_id": body.webhook_id, "failures": body.failures})
        case _:
            return None
    links = _run_link(run.run_id)
    if told[0] == "quarantine.held":
        links["quarantine"] = f"/v1/quarantine?run_id={run.run_id}"
    data = {"run_id": run.run_id, "corpus": run.corpus, **told[1], "links": links}
    return Message(told[0], data, run.run_id, run.corpus, _id_of(event))


def _of_instance(kind: HookType, event: Event, data: dict[str, Any]) -> Message:
    told = {"run_id": event.run_id, **data, "links": _run_link(event.run_id)}
    return Message(kind, told, event.run_id, None, _id_of(event))


def _run_link(run_id: str | None) -> dict[str, str]:
    return {"run": f"/v1/runs/{run_id}"} if run_id else {}


def _id_of(event: Event) -> str:
    return "msg_" + event.id.removeprefix("evt_")
