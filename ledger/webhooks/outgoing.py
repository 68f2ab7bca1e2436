"""Writes what webhooks are told, in the transaction of the event that it tells of.

Promises: an event that was committed has a delivery for each endpoint that wanted it then, and an event that was not
has none. Deliveries of one run have the order of its events, as the caller holds the run's row: they share a *lane*.
What belongs to no run has a lane of its own. One event has one message id, over all endpoints and attempts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, exists, insert, or_, select

from sluice.contracts.event import Event, GapFound, new_event_id
from sluice.contracts.index import AnswerReady, AnswerStale, RunFinished
from sluice.contracts.learning.events import DefenceTripped, WebhookDisabled
from sluice.contracts.operations.webhooks import WHOLE_TYPES, HookType
from sluice.ledger.schema.tables import AnyRow, api_keys, moment, webhook_deliveries, webhooks
from sluice.ledger.transaction import Transaction

QUARANTINED = "quarantined"
"""Reason of the gap that a document with blocked chunks leaves."""
MOST_CITATIONS = 200
"""Numbers of stale citations in one body; the run has them all."""

_ENDED = or_(api_keys.c.revoked_at.is_not(None), api_keys.c.expires_at <= bindparam("moment"))
IN_FORCE = (webhooks.c.disabled_at.is_(None), ~exists().where(api_keys.c.id == webhooks.c.owner, _ENDED))
"""SQL conditions of the endpoints that get deliveries at a `moment`: not disabled, their key not revoked or ended."""
_IN_FORCE = select(webhooks.c.id, webhooks.c.types, webhooks.c.corpora).where(*IN_FORCE)
_INSERT = insert(webhook_deliveries).returning(webhook_deliveries.c.seq)


def delivery(
    kind: str, data: Mapping[str, Any], now: float, run_id: str | None = None, corpus: str | None = None, of: str = ""
) -> dict[str, Any]:
    """Return the row of a delivery, but for its endpoint. `data` holds ids, states and paths only: documents may be
    forgotten, hooks are not. Without a corpus it is the whole instance's. `of` is the event's id."""
    message_id = "msg_" + (of or new_event_id()).removeprefix("evt_")
    body = {"type": kind, "timestamp": moment(now).isoformat().replace("+00:00", "Z"), "data": data}
    return {
        "message_id": message_id,
        "lane": run_id or message_id,
        "run_id": run_id,
        "corpus": corpus,
        "type": kind,
        "body": json.dumps(body, separators=(",", ":")),
        "status": "pending",
        "created_at": now,
        "due_at": now,
    }


def note_events(connection: Transaction, run: AnyRow, events: Sequence[Event], now: float) -> None:
    """Write the deliveries of a run's events; the caller holds the run's row."""
    for event in events:
        if row := _told(run, event, now):
            _note(connection, row)


def note_parked(connection: Transaction, run: AnyRow | None, letter: Mapping[str, Any], now: float) -> None:
    """Write the deliveries on a dead letter, by the letter's columns. Without a run it is the whole instance's."""
    run_id, corpus = (run.run_id, run.corpus) if run is not None else (None, None)
    facts = {name: letter.get(name) for name in ("stage", "kind", "reason", "fingerprint")}
    links = {"dead_letter": f"/v1/dead-letters/{letter['id']}", **_run_link(run_id)}
    data = {"dead_letter_id": letter["id"], "run_id": run_id, "corpus": corpus, **facts, "links": links}
    _note(connection, delivery("dead_letter.parked", data, now, run_id, corpus))


def _note(connection: Transaction, row: dict[str, Any]) -> None:
    wanting = [one.id for one in connection.execute(_IN_FORCE, {"moment": row["created_at"]}) if _wants(one, row)]
    if wanting:
        connection.insert_each(_INSERT, [row | {"endpoint_id": one} for one in wanting])


def _wants(endpoint: AnyRow, row: Mapping[str, Any]) -> bool:
    corpora = endpoint.corpora.split()
    is_meant = not corpora or row["corpus"] in corpora or row["type"] in WHOLE_TYPES
    return is_meant and row["type"] in endpoint.types.split()


def _told(run: AnyRow, event: Event, now: float) -> dict[str, Any] | None:
    kind: HookType
    data: dict[str, Any]
    links, corpus = _run_link(run.run_id), run.corpus
    match event.body:
        case RunFinished() as body if run.kind != "control":
            kind, data = "run.finished", {"kind": run.kind, "status": body.status, "missing": len(body.missing)}
        case AnswerReady() as body:
            kind, data = "answer.ready", {"citations": len(body.answer.citations)}
        case AnswerStale() as body:
            stale = [{"citation": one.citation, "what": one.what} for one in body.citations[:MOST_CITATIONS]]
            kind, data = "answer.stale", {"citations": stale}
        case GapFound(gap=gap) if gap.reason == QUARANTINED:
            kind, data = "quarantine.held", {"stage": gap.stage}
            links["quarantine"] = f"/v1/quarantine?run_id={run.run_id}"
        case DefenceTripped(defence=defence):
            kind, data, corpus = "defence.tripped", {"name": defence.name, "profile": defence.profile}, None
        case WebhookDisabled(webhook_id=webhook_id, failures=failures):
            kind, data, corpus = "webhook.disabled", {"webhook_id": webhook_id, "failures": failures}, None
        case _:
            return None
    data = {"run_id": run.run_id, "corpus": corpus, **data, "links": links}
    return delivery(kind, data, now, run.run_id, corpus, event.id)


def _run_link(run_id: str | None) -> dict[str, str]:
    return {"run": f"/v1/runs/{run_id}"} if run_id else {}
