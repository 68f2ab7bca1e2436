"""Attempts: each claim on an event, from its beginning to its end, and which runs have work that failed.

Promises: an attempt begins in the transaction that claims the event, and ends in the one that settles, releases or
cancels it, so a worker that was killed leaves an attempt too. A worker that is fenced writes nothing: whatever took
its claim away has ended its attempt. `FIRST_KEPT` and `LAST_KEPT` bound what is kept of an event; epochs that are
missing between them were left out. `runs.retrying` counts the run's open events that failed or killed a worker, and
changes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import bindparam, delete, insert, select, update

from sluice.ledger.schema.tables import AnyRow, attempts, moment, perhaps_moment, runs
from sluice.ledger.transaction import Transaction

FIRST_KEPT, LAST_KEPT = 3, 5
"""Attempts kept of an event: how it began, and how it goes now."""
MOST_WHY_CHARACTERS = 400

Ending = Literal["settled", "discarded", "retried", "parked", "died", "released", "cancelled"]
"""`died`: its worker died, or its lease ran out. `released`: its worker gave it back, as it shut down."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claim on an event. `epoch` numbers the event's claims. `ended_at` and `outcome` are None while it is under way.

    `ready_at`: when the event became ready; from then to `claimed_at` it waited for a worker.
    """

    event_id: str
    epoch: int
    worker: str
    ready_at: datetime
    claimed_at: datetime
    ended_at: datetime | None
    outcome: Ending | None
    why: str | None


_BEGIN = insert(attempts)
_IS_ATTEMPT = (
    attempts.c.run_id == bindparam("of_run"),
    attempts.c.event_id == bindparam("of_event"),
    attempts.c.epoch == bindparam("at_epoch"),
)
_ENDED = {
    "ended_at": bindparam("moment"),
    "outcome": bindparam("ended_as"),
    "why": bindparam("because", type_=attempts.c.why.type),
}
_END = update(attempts).where(*_IS_ATTEMPT).values(_ENDED)
_END_ALL = update(attempts).where(attempts.c.run_id == bindparam("of_run"), attempts.c.outcome.is_(None)).values(_ENDED)
_DROP_MIDDLE = delete(attempts).where(
    attempts.c.run_id == bindparam("of_run"),
    attempts.c.event_id == bindparam("of_event"),
    attempts.c.epoch > FIRST_KEPT,
    attempts.c.epoch <= bindparam("up_to"),
)
_OF_RUN = (
    select(attempts)
    .where(attempts.c.run_id == bindparam("of_run"))
    .order_by(attempts.c.event_id, attempts.c.epoch)
    .limit(bindparam("most"))
)
_COUNT = update(runs).where(runs.c.run_id == bindparam("of_run")).values(retrying=runs.c.retrying + bindparam("change"))


def begin(connection: Transaction, row: AnyRow, now: float) -> None:
    """Record the claim on an event, from its row as the claim left it."""
    same = ("run_id", "epoch", "worker", "ready_at")
    connection.insert(_BEGIN, {"event_id": row.id, "claimed_at": now, **{name: getattr(row, name) for name in same}})
    if row.epoch > FIRST_KEPT + LAST_KEPT:
        facts = {"of_run": row.run_id, "of_event": row.id, "up_to": row.epoch - LAST_KEPT}
        connection.execute(_DROP_MIDDLE, facts)


def end(
    connection: Transaction, run_id: str, event_id: str, epoch: int, ending: Ending, why: str | None, now: float
) -> None:
    """Record how the claim at `epoch` ended. `why` is cut to `MOST_WHY_CHARACTERS`."""
    facts = {"of_run": run_id, "of_event": event_id, "at_epoch": epoch, **_facts(ending, why, now)}
    connection.execute(_END, facts)


def end_all(connection: Transaction, run_id: str, ending: Ending, now: float) -> None:
    """End all attempts of a run that are under way."""
    connection.execute(_END_ALL, {"of_run": run_id, **_facts(ending, None, now)})


def _facts(ending: Ending, why: str | None, now: float) -> dict[str, object]:
    return {"moment": now, "ended_as": ending, "because": why and why[:MOST_WHY_CHARACTERS]}


def count_retrying(connection: Transaction, run_id: str, change: int) -> None:
    """Add to the number of the run's open events that failed or killed a worker; this locks the run's row."""
    connection.execute(_COUNT, {"of_run": run_id, "change": change})


def of_run(connection: Transaction, run_id: str, most: int) -> Sequence[Attempt]:
    """Return at most `most` attempts of a run, by event and epoch."""
    return [
        Attempt(
            *(row.event_id, row.epoch, row.worker, moment(row.ready_at), moment(row.claimed_at)),
            *(perhaps_moment(row.ended_at), row.outcome, row.why),
        )
        for row in connection.execute(_OF_RUN, {"of_run": run_id, "most": most})
    ]
