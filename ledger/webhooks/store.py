"""Endpoints of webhooks and their deliveries, as the ledger keeps them: made, claimed, recorded, sent again.

A delivery's life:

    pending --claim--> pending, under a lease --delivered--> delivered
       ^                  |  |
       |                  |  +--failed, last attempt--> failed
       +--- failed; lease ran out: the sender died

Promises: an attempt whose sender died is made again when its lease has run out, so a delivery arrives at least once. Of
a lane one delivery is under way, and the next only follows when it was delivered or has failed for good. A sender that
lost its lease records nothing: whatever takes a delivery raises its `epoch`. An attempt changes its delivery and its
endpoint in one transaction.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, and_, bindparam, delete, exists, func, or_, select, update

from sluice.contracts.base import shared_fields
from sluice.contracts.errors import Conflict
from sluice.contracts.learning.events import WebhookDisabled
from sluice.contracts.operations import webhooks as values
from sluice.ledger.audit import SLUICE, ControlChange, record_control
from sluice.ledger.database import LedgerPart
from sluice.ledger.runs import CreatedRun
from sluice.ledger.schema.tables import AnyRow, moment, storable, webhook_deliveries, webhooks
from sluice.ledger.transaction import Transaction
from sluice.ledger.webhooks.outgoing import IN_FORCE, delivery
from sluice.otel.logs import redact_text

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
KEPT_SECONDS = 30 * 86_400.0
"""Age at which deliveries that are done with leave the log."""
MOST_PRUNED_AT_ONCE = 1_000
MOST_REPLAYED_AT_ONCE = 10_000

_E, _D = webhooks.c, webhook_deliveries.c
_BEFORE = webhook_deliveries.alias("earlier")
_IS_NEXT = ~exists().where(
    _BEFORE.c.endpoint_id == _D.endpoint_id,
    _BEFORE.c.lane == _D.lane,
    _BEFORE.c.due_at.is_not(None),
    _BEFORE.c.seq < _D.seq,
)
_NOW: BindParameter[float] = bindparam("moment")
_READY = select(_E.id, _E.failures).where(*IN_FORCE, or_(_E.paused_until.is_(None), _E.paused_until <= _NOW))
_DUE = (
    select(_D.seq, _D.epoch, _D.attempts, _D.endpoint_id, _D.message_id, _D.lane, _D.body, _E.url, _E.secrets)
    .join(webhooks, _E.id == _D.endpoint_id)
    .where(_D.endpoint_id == bindparam("of_endpoint"), _D.due_at <= _NOW, _IS_NEXT)
    .order_by(_D.due_at, _D.seq)
    .limit(bindparam("most"))
)
_IN_LANE = (_D.endpoint_id == bindparam("of_endpoint"), _D.lane == bindparam("of_lane"))
_DEFER = (
    update(webhook_deliveries).where(*_IN_LANE, _D.due_at < bindparam("next_at")).values(due_at=bindparam("next_at"))
)
"""What follows in a lane waits as long, so that looking for work does not look at it."""
_PENDING = select(func.count()).where(_D.endpoint_id == bindparam("of_endpoint"), _D.due_at.is_not(None))
_IS_OVER = or_(_D.due_at.is_(None), ~exists().where(_E.id == _D.endpoint_id))
IS_OLD = and_(_D.created_at < bindparam("before"), _IS_OVER)
"""Deliveries made `before` a moment that are done with."""
_SOME_OLD = select(_D.seq).where(IS_OLD).limit(MOST_PRUNED_AT_ONCE)
DROP_OLD = delete(webhook_deliveries).where(_D.seq.in_(_SOME_OLD))


class ClaimedDelivery(NamedTuple):
    """A delivery that this sender alone may attempt until its lease runs out. `secrets` is the endpoint's column."""

    seq: int
    epoch: int
    attempts: int
    endpoint_id: str
    message_id: str
    lane: str
    body: str
    url: str
    secrets: str


class Attempt(NamedTuple):
    """How an attempt ended. `status` is that of the HTTP answer, `error` why there was none."""

    milliseconds: int
    status: int | None = None
    answer: str | None = None
    error: str | None = None
    retry_after_seconds: float = 0.0

    @property
    def arrived(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300


class Webhooks(LedgerPart):
    """The webhooks of one ledger. Every method may raise `Unavailable`; those on one webhook raise `NotFound`."""

    # -- endpoints

    def insert(
        self, endpoint_id: str, url: str, types: Sequence[str], corpora: Sequence[str], owner: str, **more: str
    ) -> values.Webhook:
        """Record an endpoint; `more` are description and secrets. Raises `Conflict` if its owner has too many."""
        row = {"id": endpoint_id, "url": url, "owner": owner, "created_at": self._clock(), **more}
        row |= {"types": " ".join(types), "corpora": " ".join(corpora)}
        with self._database.writing() as connection:
            if len(connection.select(webhooks, {"owner": owner}).all()) >= MOST_OF_OWNER:
                raise Conflict(f"there are {MOST_OF_OWNER} webhooks of {owner} already: delete one first")
            connection.insert(webhooks, row)
            return _webhook(connection, _found(connection, endpoint_id))

    def endpoints(self, owner: str | None = None) -> list[values.Webhook]:
        """Return the endpoints of an owner, or all, the oldest first."""
        with self._database.reading() as connection:
            rows = connection.select(webhooks, {} if owner is None else {"owner": owner})
            return [_webhook(connection, row) for row in sorted(rows, key=attrgetter("created_at", "id"))]

    def find(self, endpoint_id: str) -> tuple[values.Webhook, str]:
        """Return an endpoint, and its encrypted secrets."""
        with self._database.reading() as connection:
            row = _found(connection, endpoint_id)
            return _webhook(connection, row), row.secrets

    def change(self, endpoint_id: str, enabled: bool | None = None, why: str = "", **columns: Any) -> values.Webhook:
        """Set columns of an endpoint: url, types, corpora, description, secrets. Enabled, it begins anew: what waits is
        sent, and earlier failures do not count. Disabled, it gets nothing, nothing new is noted, what waits is kept."""
        columns |= {name: " ".join(columns[name]) for name in ("types", "corpora") if name in columns}
        if enabled is not None:
            columns |= dict.fromkeys(("disabled_at", "disabled_because", "failing_since", "paused_until")) | {
                "failures": 0
            }
        if enabled is False:
            columns |= {"disabled_at": self._clock(), "disabled_because": storable(why)}
        with self._database.writing() as connection:
            _found(connection, endpoint_id)
            if columns:
                connection.update(webhooks, {"id": endpoint_id}, columns)
            return _webhook(connection, _found(connection, endpoint_id))

    def delete(self, endpoint_id: str) -> None:
        """Remove an endpoint with all its deliveries."""
        with self._database.writing() as connection:
            connection.delete(webhook_deliveries, {"endpoint_id": endpoint_id})
            connection.delete(webhooks, {"id": endpoint_id})

    # -- deliveries

    def deliveries(
        self, endpoint_id: str, limit: int, after: str | None = None, status: values.DeliveryStatus | None = None
    ) -> list[values.WebhookDelivery]:
        """Return deliveries to an endpoint, the latest first, those after a delivery's `position`."""
        asked = select(webhook_deliveries).where(_D.endpoint_id == endpoint_id)
        if status is not None:
            asked = asked.where(_D.status == status)
        if after is not None:
            asked = asked.where(_D.seq < int(after))
        return [_delivery(row) for row in self._database.read(asked.order_by(_D.seq.desc()).limit(limit))]

    def test(self, endpoint_id: str) -> values.WebhookDelivery:
        """Write a delivery of type `webhook.test`, and end a rest of the endpoint."""
        links = {"webhook": f"/v1/webhooks/{endpoint_id}"}
        row = delivery(values.TEST, {"webhook_id": endpoint_id, "links": links}, self._clock())
        with self._database.writing() as connection:
            _wake(connection, endpoint_id)
            connection.insert(webhook_deliveries, row | {"endpoint_id": endpoint_id})
            return _delivery(connection.select(webhook_deliveries, {"message_id": row["message_id"]}).first())

    def replay(self, endpoint_id: str, wanted: values.DeliveryReplay) -> int:
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
        chosen = asked.order_by(_D.seq).limit(MOST_REPLAYED_AT_ONCE)
        again = {"status": "pending", "due_at": self._clock(), "attempts": 0, "delivered_at": None}
        with self._database.writing() as connection:
            _wake(connection, endpoint_id)
            sent_again = update(webhook_deliveries).where(_D.seq.in_(chosen)).values(epoch=_D.epoch + 1, **again)
            return connection.execute(sent_again).rowcount

    # -- sending

    def claim(self, in_hand: Mapping[str, int], most_of_endpoint: int, most: int) -> Sequence[ClaimedDelivery]:
        """Claim deliveries that are due, the first of each lane, at most `most`. `in_hand` counts by endpoint those
        that the caller attempts at this moment."""
        now = self._clock()
        due: list[ClaimedDelivery] = []
        with self._database.reading() as connection:
            ready = connection.execute(_READY, {"moment": now}).all()
            for endpoint in random.sample(ready, len(ready)):  # none is always last where there is not room for all
                at_once = 1 if endpoint.failures >= TRUSTED_FAILURES else most_of_endpoint
                room = min(at_once - in_hand.get(endpoint.id, 0), most - len(due))
                if room > 0:
                    facts = {"of_endpoint": endpoint.id, "moment": now, "most": room}
                    due += map(ClaimedDelivery._make, connection.execute(_DUE, facts))
        if not due:
            return ()
        with self._database.holding() as connection:
            lease = {"due_at": now + LEASE_SECONDS}
            return [one._replace(epoch=one.epoch + 1) for one in due if _take(connection, one, lease)]

    def record(self, claim: ClaimedDelivery, attempt: Attempt) -> CreatedRun | None:
        """Record an attempt. Returns the control run, to announce, if it disabled the endpoint; records nothing if the
        lease was lost or the webhook deleted."""
        now, next_at = self._clock(), None
        if not attempt.arrived and claim.attempts < len(ATTEMPT_SECONDS):
            next_at = now + max(attempt.retry_after_seconds, _about(ATTEMPT_SECONDS[claim.attempts]))
        facts = {
            "status": "delivered" if attempt.arrived else "failed" if next_at is None else "pending",
            "due_at": next_at,
            "attempts": claim.attempts + 1,
            "delivered_at": now if attempt.arrived else None,
            "http_status": attempt.status,
            "milliseconds": attempt.milliseconds,
            "answer": attempt.answer,
            "error": attempt.error,
        }
        with self._database.writing() as connection:
            if not _take(connection, claim, facts):
                return None
            if next_at is not None:
                lane = {"of_endpoint": claim.endpoint_id, "of_lane": claim.lane}
                connection.execute(_DEFER, lane | {"next_at": next_at})
            endpoint = _found(connection, claim.endpoint_id)
            if not attempt.arrived:
                return _failed(connection, endpoint, attempt, now)
            if endpoint.failures:
                well = {"failures": 0, "failing_since": None, "paused_until": None}
                connection.update(webhooks, {"id": endpoint.id}, well)
            return None

    def prune(self) -> int:
        """Remove deliveries that have been done with for long, as many as one transaction may; return how many."""
        before = {"before": self._clock() - KEPT_SECONDS}
        if self._database.read(_SOME_OLD, before).first() is None:
            return 0
        with self._database.writing() as connection:
            return connection.execute(DROP_OLD, before).rowcount


def _take(connection: Transaction, claim: ClaimedDelivery, columns: Mapping[str, Any]) -> bool:
    """Change a delivery unless somebody else has taken it since it was read."""
    mine = {"seq": claim.seq, "epoch": claim.epoch}
    return connection.update(webhook_deliveries, mine, {**columns, "epoch": claim.epoch + 1}) == 1


def _failed(connection: Transaction, endpoint: AnyRow, attempt: Attempt, now: float) -> CreatedRun | None:
    """Count a failure. The endpoint rests, or is disabled: then return the control run that records it."""
    failures, since = endpoint.failures + 1, endpoint.failing_since or now
    rest_seconds = attempt.retry_after_seconds
    if failures >= TRUSTED_FAILURES:
        doubled = ATTEMPT_SECONDS[0] * 2.0 ** (failures - TRUSTED_FAILURES)
        rest_seconds = max(rest_seconds, _about(min(doubled, LONGEST_REST_SECONDS)))
    paused_until = now + rest_seconds if rest_seconds else endpoint.paused_until
    columns = {"failures": failures, "failing_since": since, "paused_until": paused_until}
    why = None
    if attempt.status == 410:
        why = "the receiver is gone: it answered 410"
    elif failures >= MOST_FAILURES:
        why = f"{failures} attempts failed in a row"
    elif now - since >= MOST_FAILING_SECONDS:
        why = f"every attempt failed since {moment(since):%Y-%m-%d %H:%M} UTC"
    if why is None or endpoint.disabled_at is not None:
        connection.update(webhooks, {"id": endpoint.id}, columns)
        return None
    connection.update(webhooks, {"id": endpoint.id}, columns | {"disabled_at": now, "disabled_because": why})
    body = WebhookDisabled(webhook_id=endpoint.id, why=why, failures=failures)
    change = ControlChange((body,), "webhook_disable", f"webhook:{endpoint.id}", SLUICE, why)
    return record_control(connection, change, now)


def _about(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)


def _wake(connection: Transaction, endpoint_id: str) -> None:
    endpoint = _found(connection, endpoint_id)
    if endpoint.disabled_at is not None:
        raise Conflict(f"webhook {endpoint.id} is disabled ({endpoint.disabled_because}): enable it first")
    connection.update(webhooks, {"id": endpoint_id}, {"paused_until": None})


def _found(connection: Transaction, endpoint_id: str) -> AnyRow:
    return connection.select(webhooks, {"id": endpoint_id}).found(f"webhook {endpoint_id}")


def _webhook(connection: Transaction, row: AnyRow) -> values.Webhook:
    lists = {name: getattr(row, name).split() for name in ("types", "corpora")}
    more = {"url": redact_text(row.url), "pending": connection.execute(_PENDING, {"of_endpoint": row.id}).scalar()}
    return values.Webhook(**shared_fields(values.Webhook, row) | lists | more)


def _delivery(row: AnyRow) -> values.WebhookDelivery:
    more = {"id": row.message_id, "next_attempt_at": row.due_at, "position": str(row.seq)}
    return values.WebhookDelivery(**shared_fields(values.WebhookDelivery, row) | more)
