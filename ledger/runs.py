"""Runs: creates them, finds them by idempotency key, and locks their rows.

Promises: a request repeated under its idempotency key finds the run it made the first time, and a different request
under the same key is refused. Every change of a run locks its row first, so changes of one run are serialised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import bindparam, select, update

from sluice.contracts.api import RunKind, RunStatus
from sluice.contracts.budget import Ceilings, Spend
from sluice.contracts.errors import Conflict, IdempotencyKeyReused
from sluice.contracts.event import Event
from sluice.ledger.corpora import enter, mark_deleted
from sluice.ledger.events.outbox import BULK, NO_KEY, SMALL, Entry, priority_of, write
from sluice.ledger.events.reservations import Balance, amounts_of, ceiling_columns
from sluice.ledger.schema import run_words
from sluice.ledger.schema.tables import UNITS, AnyRow, runs
from sluice.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be recorded. `owner` is the id of an API key, or `outbox.NO_KEY`.

    `is_small`: all of it is embedded within a second or so, and is served before bulk work.
    """

    run_id: str
    kind: RunKind
    corpus: str
    request_sha256: str
    owner: str = NO_KEY
    query: str | None = None
    idempotency_key: str | None = None
    deadline_at: datetime | None = None
    traceparent: str | None = None
    ceilings: Ceilings = field(default_factory=Ceilings)
    is_small: bool = False
    corpus_entry: Literal["made", "deleted"] | None = None
    """What becomes of the entry of its corpus: it is made if it is missing, or marked as deleted."""

    @property
    def priority(self) -> int:
        """Priority of its events in the fair queue."""
        return priority_of(self, SMALL if self.is_small else BULK)


@dataclass(frozen=True, slots=True)
class CreatedRun:
    """The run of a request. `created` is False when it was recorded before; then `events` is empty."""

    run_id: str
    created: bool
    status: RunStatus
    events: tuple[Event, ...]


_FIND = select(runs.c.run_id, runs.c.request_sha256, runs.c.status).where(
    runs.c.owner == bindparam("of_owner"), runs.c.idempotency_key == bindparam("of_key")
)
_TAKE = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"))
    .values(
        settled_events=runs.c.settled_events + bindparam("settled"),
        dead_letters=runs.c.dead_letters + bindparam("dead"),
        **{f"spent_{unit}": runs.c[f"spent_{unit}"] + bindparam(f"used_{unit}") for unit in UNITS},
    )
    .returning(*runs.c)
)
_NOTHING = Spend()
_SAME = ("run_id", "kind", "corpus", "owner", "query", "idempotency_key", "request_sha256", "traceparent")


def create(connection: Transaction, run: NewRun, first: Sequence[Entry], now: float) -> CreatedRun:
    """Record `run` and its first events.

    Raises:
        IdempotencyKeyReused: the idempotency key belongs to another request.
        Conflict: the run id is taken.
        BudgetExhausted: the first events' reservations do not fit.
    """
    if not connection.insert_once(runs, _row_of(run, now)):
        return _existing(connection, run)
    run_words.add(connection, run.run_id, run.query)
    if run.corpus_entry is not None:
        (enter if run.corpus_entry == "made" else mark_deleted)(connection, run.corpus, run.owner, now)
    row, balance = take(connection, run.run_id), Balance()
    written = write(connection, row, first, now, balance, cause_priority=run.priority)
    balance.carry_out(connection, row, now)
    return CreatedRun(run.run_id, True, "open", tuple(written))


def take(connection: Transaction, run_id: str, *, settled: int = 0, dead: int = 0, spend: Spend = _NOTHING) -> AnyRow:
    """Lock the run's row for the transaction, add to its sums and return it. Raises `NotFound` if there is none."""
    used = {f"used_{unit}": amount for unit, amount in amounts_of(spend).items()}
    sums = {"settled": settled, "dead": dead, **used}
    return connection.execute(_TAKE, {"of_run": run_id, **sums}).found(f"run {run_id}")


def _existing(connection: Transaction, run: NewRun) -> CreatedRun:
    found = connection.execute(_FIND, {"of_owner": run.owner, "of_key": run.idempotency_key}).first()
    if found is None:
        raise Conflict(f"run {run.run_id} is recorded already")
    if found.request_sha256 != run.request_sha256:
        raise IdempotencyKeyReused(f"idempotency key {run.idempotency_key!r} was used for a different request")
    return CreatedRun(found.run_id, False, found.status, ())


def _row_of(run: NewRun, now: float) -> dict[str, Any]:
    deadline = run.deadline_at.timestamp() if run.deadline_at else None
    return {
        **{name: getattr(run, name) for name in _SAME},
        "status": "open",
        "created_at": now,
        "deadline_at": deadline,
        "answer_due_at": deadline if run.kind == "gate" else None,
        **ceiling_columns(run.ceilings),
    }
