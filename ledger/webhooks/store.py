"""Endpoints of webhooks and their deliveries, as the ledger keeps them: made, claimed, recorded, sent again.

A delivery's life:

    pending --claim--> pending, under a lease --delivered--> delivered
       ^                  |  |
       |                  |  +--failed, last attempt--> failed
       +--- failed; lease ran out: the sender died

Promises: an attempt whose sender died is made again when its lease has run out, so a delivery arrives at least once. Of
a lane one delivery is under way, and the next only follows when it was delivered or has failed for good. A sender that
lost its lease records nothing. An attempt changes its delivery and its endpoint in one transaction.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, update

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.learning.events import WebhookDisabled
from sluice.contracts.operations.webhooks import (
    MOST_REPLAYED_AT_ONCE,
    TEST,
    DeliveryReplay,
    DeliveryStatus,
    Webhook,
    WebhookDelivery,
)
from sluice.ledger.audit import SLUICE, ControlChange, record_control
from sluice.ledger.database import LedgerPart
from sluice.ledger.runs import CreatedRun
from sluice.ledger.schema.tables import AnyRow, moment, perhaps_moment, storable, webhook_deliveries, webhooks
from sluice.ledger.transaction import Transaction
from sluice.ledger.webhooks.outgoing import IN_FORCE, Message

MOST_OF_OWNER = 50
"""Endpoints of one API key: each event of a corpus is written once for each of them."""
ATTEMPT_SECONDS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0)
"""Pauses after failed attempts, as Standard Webhooks recommends: 5 s, 5 and 30 min, 2, 5, 10 and 14 h."""
JITTER = 0.2
"""Share by which a pause is longer or shorter, so that what failed together is not tried together."""
LEASE_SECONDS = 30.0
"""Time for one attempt and for recording it; twice the limit of the attempt."""
TRUSTED_FAILURES = 5
"""Failures in a row after which an endpoint rests between attempts, which are then made one at a time."""
LONGEST_REST_SECONDS = 3_600.0
MOST_FAILURES = 100
MOST_FAILING_SECONDS = 5 * 86_400.0
"""Failures in a row, and the time without a success, after which an endpoint is disabled."""
LONGEST_ASKED_SECONDS = 86_400.0
"""The longest pause that a receiver gets by `Retry-After`."""
KEPT_SECONDS = 30 * 86_400.0
"""Age at which deliveries that are done with leave the log."""
_PRUNED_AT_ONCE = 1_000

_E, _D = webhooks.c, webhook_deliveries.c
_BEFORE = webhook_deliveries.alias("earlier")
_IS_NEXT = ~exists().where(
    _BEFORE.c.endpoint_id == _D.endpoint_id,
    _BEFORE.c.lane == _D.lane,
    _BEFORE.c.due_at.is_not(None),
    _BEFORE.c.seq < _D.seq,
)
_READY = (
    select(webhooks)
    .where(*IN_FORCE, or_(_E.paused_until.is_(None), _E.paused_until <= bindparam("moment")))
    .order_by(_E.id)
)
_DUE = (
    select(webhook_deliveries)
    .where(_D.endpoint_id == bindparam("of_endpoint"), _D.due_at <= bindparam("moment"), _IS_NEXT)
    .order_by(_D.due_at, _D.seq)
    .limit(bindparam("most"))
)
_MINE = and_(_D.seq == bindparam("of_seq"), _D.epoch == bindparam("at_epoch"), _D.due_at.is_not(None))
_CLAIM = update(webhook_deliveries).where(_MINE).values(due_at=bindparam("until"), epoch=_D.epoch + 1)
_RECORD = (
    update(webhook_deliveries)
    .where(_MINE)
    .values(
        status=bindparam("becomes"),
        due_at=bindparam("next_at"),
        epoch=_D.epoch + 1,
        attempts=_D.attempts + 1,
        delivered_at=bindparam("arrived_at"),
        http_status=bindparam("answered"),
        milliseconds=bindparam("took"),
        answer=bindparam("said"),
        error=bindparam("because"),
    )
)
_DEFER = (
    update(webhook_deliveries)
    .where(
        _D.endpoint_id == bindparam("of_endpoint"), _D.lane == bindparam("of_lane"), _D.due_at < bindparam("next_at")
    )
    .values(due_at=bindparam("next_at"))
)
"""What follows in a lane waits as long, so that looking for work does not look at it."""
_WELL = (
    update(webhooks)
    .where(_E.id == bindparam("of_endpoint"), _E.failures > 0)
    .values(failures=0, failing_since=None, paused_until=None)
)
_ILL = (
    update(webhooks)
    .where(_E.id == bindparam("of_endpoint"))
    .values(failures=_E.failures + 1, failing_since=func.coalesce(_E.failing_since, bindparam("moment")))
    .returning(*_E)
)
_COUNT = select(func.count()).where(_E.owner == bindparam("of_owner"))
_PENDING = select(_D.endpoint_id, func.count().label("pending")).where(_D.due_at.is_not(None)).group_by(_D.endpoint_id)
_OLD = select(_D.seq).where(_D.created_at < bindparam("before"), _D.due_at.is_(None)).limit(_PRUNED_AT_ONCE)
_PRUNE = delete(webhook_deliveries).where(_D.seq.in_(_OLD))


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery that this sender alone may attempt until its lease runs out. `secrets` is the endpoint's column."""

    seq: int
    epoch: int
    endpoint_id: str
    message_id: str
    lane: str
    url: str
    secrets: str
    body: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """How an attempt ended. `status` is that of the HTTP answer, `error` why there was none."""

    milliseconds: int
    status: int | None = None
    answer: str | None = None
    error: str | None = None
    retry_after_seconds: float | None = None

    @property
    def arrived(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300


class Webhooks(LedgerPart):
    """The webhooks of one ledger. Every method may raise `Unavailable`; those on one webhook raise `NotFound`."""

    # -- endpoints

    def insert(
        self, endpoint_id: str, url: str, types: Sequence[str], corpora: Sequence[str], owner: str, **more: str
    ) -> Webhook:
        """Record an endpoint; `more` are description and secrets. Raises `Conflict` if its owner has too many."""
        row = {"id": endpoint_id, "url": url, "owner": owner, "created_at": self._clock(), **more}
        row |= {"types": " ".join(types), "corpora": " ".join(corpora)}
        with self._database.writing() as connection:
            if (connection.execute(_COUNT, {"of_owner": owner}).scalar() or 0) >= MOST_OF_OWNER:
                raise Conflict(f"there are {MOST_OF_OWNER} webhooks of {owner} already: delete one first")
            connection.insert(webhooks, row)
            return _webhook(_found(connection, endpoint_id), {})

    def endpoints(self, owner: str | None = None) -> list[Webhook]:
        """Return the endpoints of an owner, or all, the oldest first."""
        asked = select(webhooks).order_by(_E.created_at, _E.id)
        with self._database.reading() as connection:
            rows = connection.execute(asked if owner is None else asked.where(_E.owner == owner)).all()
            pending = _pending(connection)
        return [_webhook(row, pending) for row in rows]

    def find(self, endpoint_id: str) -> tuple[Webhook, str]:
        """Return an endpoint, and its encrypted secrets."""
        with self._database.reading() as connection:
            row = _found(connection, endpoint_id)
            return _webhook(row, _pending(connection)), row.secrets

    def change(self, endpoint_id: str, **columns: Any) -> Webhook:
        """Set columns of an endpoint: url, types, corpora, description, secrets."""
        for name in ("types", "corpora"):
            if name in columns:
                columns[name] = " ".join(columns[name])
        with self._database.writing() as connection:
            _found(connection, endpoint_id)
            if columns:
                connection.update(webhooks, {"id": endpoint_id}, columns)
            return _webhook(_found(connection, endpoint_id), _pending(connection))

    def enable(self, endpoint_id: str) -> Webhook:
        """Begin anew: what waits is sent, and earlier failures do not count."""
        clear = dict.fromkeys(("disabled_at", "disabled_because", "failing_since", "paused_until"))
        return self.change(endpoint_id, failures=0, **clear)

    def disable(self, endpoint_id: str, why: str) -> Webhook:
        """Send nothing more, and note no new events; what waits is kept."""
        return self.change(endpoint_id, disabled_at=self._clock(), disabled_because=storable(why))

    def delete(self, endpoint_id: str) -> None:
        """Remove an endpoint with all its deliveries."""
        with self._database.writing() as connection:
            _found(connection, endpoint_id)
            connection.delete(webhook_deliveries, {"endpoint_id": endpoint_id})
            connection.delete(webhooks, {"id": endpoint_id})

    # -- deliveries

    def deliveries(
        self, endpoint_id: str, limit: int, after: str | None = None, status: DeliveryStatus | None = None
    ) -> list[WebhookDelivery]:
        """Return deliveries to an endpoint, the latest first. Raises `InvalidInput` if `after` is no position."""
        asked = select(webhook_deliveries).where(_D.endpoint_id == endpoint_id)
        if status is not None:
            asked = asked.where(_D.status == status)
        if after is not None:
            asked = asked.where(_D.seq < _seq(after))
        with self._database.reading() as connection:
            _found(connection, endpoint_id)
            return [_delivery(row) for row in connection.execute(asked.order_by(_D.seq.desc()).limit(limit))]

    def test(self, endpoint_id: str) -> str:
        """Write a delivery of type `webhook.test`, and end a rest of the endpoint. Returns the message id."""
        told = Message(TEST, {"webhook_id": endpoint_id, "links": {"webhook": f"/v1/webhooks/{endpoint_id}"}})
        with self._database.writing() as connection:
            _require_enabled(_found(connection, endpoint_id))
            connection.update(webhooks, {"id": endpoint_id}, {"paused_until": None})
            connection.insert(webhook_deliveries, told.row(endpoint_id, self._clock()))
        return told.id

    def replay(self, endpoint_id: str, wanted: DeliveryReplay) -> int:
        """Send deliveries again, as if for the first time, and end a rest of the endpoint; return how many."""
        asked = select(_D.seq).where(_D.endpoint_id == endpoint_id)
        if wanted.status is not None:
            asked = asked.where(_D.status == wanted.status)
        if wanted.ids:
            asked = asked.where(_D.message_id.in_(wanted.ids))
        if wanted.since is not None:
            asked = asked.where(_D.created_at >= wanted.since.timestamp())
        if wanted.until is not None:
            asked = asked.where(_D.created_at < wanted.until.timestamp())
        now = self._clock()
        again = {"status": "pending", "due_at": now, "attempts": 0, "delivered_at": None}
        with self._database.writing() as connection:
            _require_enabled(_found(connection, endpoint_id))
            seqs = connection.execute(asked.order_by(_D.seq).limit(MOST_REPLAYED_AT_ONCE)).scalars()
            for seq in seqs:
                connection.update(webhook_deliveries, {"seq": seq}, again)
            connection.update(webhooks, {"id": endpoint_id}, {"paused_until": None})
        return len(seqs)

    # -- sending

    def claim(self, in_hand: Mapping[str, int], most_of_endpoint: int, most: int) -> Sequence[ClaimedDelivery]:
        """Claim deliveries that are due, the first of each lane, at most `most`. `in_hand` counts by endpoint those
        that the caller attempts at this moment."""
        now = self._clock()
        with self._database.reading() as connection:
            found: list[tuple[AnyRow, AnyRow]] = []
            for endpoint in connection.execute(_READY, {"moment": now}):
                at_once = 1 if endpoint.failures >= TRUSTED_FAILURES else most_of_endpoint
                room = min(at_once - in_hand.get(endpoint.id, 0), most - len(found))
                if room > 0:
                    due = {"of_endpoint": endpoint.id, "moment": now, "most": room}
                    found += [(endpoint, row) for row in connection.execute(_DUE, due)]
        if not found:
            return ()
        with self._database.holding() as connection:
            return [_claimed(*one) for one in found if _hold(connection, one[1], now)]

    def record(self, claim: ClaimedDelivery, attempt: Attempt) -> CreatedRun | None:
        """Record an attempt. Returns the control run, to announce, if it disabled the endpoint; records nothing if the
        lease was lost or the webhook deleted."""
        now = self._clock()
        with self._database.writing() as connection:
            if attempt.arrived:
                if _recorded(connection, claim, attempt, "delivered", None, now):
                    connection.execute(_WELL, {"of_endpoint": claim.endpoint_id})
                return None
            return _failed(connection, claim, attempt, now)

    def prune(self) -> int:
        """Remove deliveries that have been done with for long, as many as one transaction may; return how many."""
        before = {"before": self._clock() - KEPT_SECONDS}
        if self._database.read(_OLD, before).first() is None:
            return 0
        with self._database.writing() as connection:
            return connection.execute(_PRUNE, before).rowcount


def _failed(connection: Transaction, claim: ClaimedDelivery, attempt: Attempt, now: float) -> CreatedRun | None:
    tried = claim.attempts + 1
    asked_seconds = min(attempt.retry_after_seconds or 0.0, LONGEST_ASKED_SECONDS)
    is_last = tried > len(ATTEMPT_SECONDS)
    next_at = None if is_last else now + max(asked_seconds, _about(ATTEMPT_SECONDS[tried - 1]))
    if not _recorded(connection, claim, attempt, "failed" if is_last else "pending", next_at, now):
        return None
    if next_at is not None:
        lane = {"of_endpoint": claim.endpoint_id, "of_lane": claim.lane, "next_at": next_at}
        connection.execute(_DEFER, lane)
    endpoint = connection.execute(_ILL, {"of_endpoint": claim.endpoint_id, "moment": now}).one()
    rest_seconds = max(asked_seconds, _rest_seconds(endpoint.failures))
    if rest_seconds:
        connection.update(webhooks, {"id": endpoint.id}, {"paused_until": now + rest_seconds})
    why = _too_much(endpoint, attempt, now)
    return _disabled(connection, endpoint, why, now) if why and endpoint.disabled_at is None else None


def _too_much(endpoint: AnyRow, attempt: Attempt, now: float) -> str | None:
    if attempt.status == 410:
        return "the receiver is gone: it answered 410"
    if endpoint.failures >= MOST_FAILURES:
        return f"{endpoint.failures} attempts failed in a row"
    if now - endpoint.failing_since >= MOST_FAILING_SECONDS:
        return f"every attempt failed since {moment(endpoint.failing_since):%Y-%m-%d %H:%M} UTC"
    return None


def _disabled(connection: Transaction, endpoint: AnyRow, why: str, now: float) -> CreatedRun:
    connection.update(webhooks, {"id": endpoint.id}, {"disabled_at": now, "disabled_because": why})
    body = WebhookDisabled(webhook_id=endpoint.id, why=why, failures=endpoint.failures)
    change = ControlChange((body,), "webhook_disable", f"webhook:{endpoint.id}", SLUICE, why)
    return record_control(connection, change, now)


def _recorded(
    connection: Transaction,
    claim: ClaimedDelivery,
    attempt: Attempt,
    status: DeliveryStatus,
    next_at: float | None,
    now: float,
) -> bool:
    facts = {
        "of_seq": claim.seq,
        "at_epoch": claim.epoch,
        "becomes": status,
        "next_at": next_at,
        "arrived_at": now if status == "delivered" else None,
        "answered": attempt.status,
        "took": attempt.milliseconds,
        "said": attempt.answer,
        "because": attempt.error,
    }
    return connection.execute(_RECORD, facts).rowcount == 1


def _rest_seconds(failures: int) -> float:
    beyond = failures - TRUSTED_FAILURES
    return 0.0 if beyond < 0 else _about(min(ATTEMPT_SECONDS[0] * 2.0 ** min(beyond, 20), LONGEST_REST_SECONDS))


def _about(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)


def _hold(connection: Transaction, row: AnyRow, now: float) -> bool:
    facts = {"of_seq": row.seq, "at_epoch": row.epoch, "until": now + LEASE_SECONDS}
    return connection.execute(_CLAIM, facts).rowcount == 1


def _claimed(endpoint: AnyRow, row: AnyRow) -> ClaimedDelivery:
    same = {name: getattr(row, name) for name in ("seq", "endpoint_id", "message_id", "lane", "body", "attempts")}
    return ClaimedDelivery(epoch=row.epoch + 1, url=endpoint.url, secrets=endpoint.secrets, **same)


def _found(connection: Transaction, endpoint_id: str) -> AnyRow:
    return connection.select(webhooks, {"id": endpoint_id}).found(f"webhook {endpoint_id}")


def _require_enabled(endpoint: AnyRow) -> None:
    if endpoint.disabled_at is not None:
        raise Conflict(f"webhook {endpoint.id} is disabled ({endpoint.disabled_because}): enable it first")


def _pending(connection: Transaction) -> dict[str, int]:
    return {row.endpoint_id: row.pending for row in connection.execute(_PENDING)}


def _seq(position: str) -> int:
    if not position.isdecimal():
        raise InvalidInput("cursor", "is no position", "begin again, without a cursor")
    return int(position)


def _webhook(row: AnyRow, pending: Mapping[str, int]) -> Webhook:
    same = ("id", "url", "description", "owner", "disabled_because", "failures")
    return Webhook(
        types=tuple(row.types.split()),
        corpora=tuple(row.corpora.split()),
        created_at=moment(row.created_at),
        **{name: perhaps_moment(getattr(row, name)) for name in ("disabled_at", "failing_since", "paused_until")},
        pending=pending.get(row.id, 0),
        **{name: getattr(row, name) for name in same},
    )


def _delivery(row: AnyRow) -> WebhookDelivery:
    same = ("type", "run_id", "corpus", "status", "attempts", "http_status", "milliseconds", "answer", "error")
    return WebhookDelivery(
        id=row.message_id,
        created_at=moment(row.created_at),
        next_attempt_at=perhaps_moment(row.due_at),
        delivered_at=perhaps_moment(row.delivered_at),
        position=str(row.seq),
        **{name: getattr(row, name) for name in same},
    )


def sealed_secrets(column: str, now: datetime) -> list[str]:
    """Return the encrypted secrets of an endpoint's column that are in use, the newest first."""
    stored = json.loads(column)
    return [one["sealed"] for one in stored if one["until"] is None or one["until"] > now.timestamp()]
