"""Attempts: every claim on an event, from its beginning to its end, and which runs have work that failed.

Promises: an attempt begins in the transaction that claims the event, and ends in the one that settles, releases or
cancels it, so a worker that was killed leaves an attempt too. A worker that is fenced writes nothing: whatever took
its claim away has ended its attempt. `FIRST_KEPT` and `LAST_KEPT` bound what is kept of an event; epochs that are
missing in between were left out. `runs.retrying` counts the run's open events that failed or killed a worker, and
changes in the same transactions.

The row of an event holds its last attempt (`ready_at`, `claimed_at`, `claimed_by`), and most events have no other: a
row of `attempts` is written only for one after which the event stood to be handled again, or was parked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import and_, bindparam, case, delete, literal_column, null, or_, select, union_all, update

from sluice.ledger.schema.tables import AnyRow, attempts, events, runs
from sluice.ledger.transaction import Transaction

FIRST_KEPT, LAST_KEPT = 3, 5
"""Attempts kept of an event, beside its last one: how it began, and how it goes now."""
MOST_WHY_CHARACTERS = 400

Ending = Literal["settled", "discarded", "retried", "parked", "died", "released", "cancelled"]
"""`died`: its worker died, or its lease ran out. `released`: its worker gave it back, as it shut down."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A claim on an event. `epoch` numbers the event's claims. `ended_at` and `ending` are None while it is under way.

    `ready_at`: when the event became ready, with `behind` events of its tenant before it; from then to `claimed_at` it
    waited for a worker. `waited_ms`: of its work, waiting for what `why` says. Moments are seconds since the epoch.
    """

    event_id: str
    epoch: int
    worker: str
    ready_at: float
    claimed_at: float
    ended_at: float | None = None
    ending: Ending | None = None
    why: str | None = None
    behind: int = 0
    waited_ms: int = 0


LAST = tuple(events.c[name] for name in ("id", "run_id", "epoch", "claimed_by", "ready_at", "claimed_at", "behind"))
"""The columns of an event's row that `ended` reads."""
_DROP_MIDDLE = delete(attempts).where(
    attempts.c.run_id == bindparam("of_run"),
    attempts.c.event_id == bindparam("of_event"),
    attempts.c.epoch > FIRST_KEPT,
    attempts.c.epoch <= bindparam("up_to"),
)
_COUNT = update(runs).where(runs.c.run_id == bindparam("of_run")).values(retrying=runs.c.retrying + bindparam("change"))
_NAMES = "event_id", "epoch", "worker", "ready_at", "claimed_at", "ended_at", "outcome", "why", "behind"
_OF_RUN = select(*(attempts.c[name] for name in _NAMES), literal_column("0").label("waited_ms")).where(
    attempts.c.run_id == bindparam("of_run")
)
_LAST_OF_RUN = select(
    *(events.c.id, events.c.epoch, events.c.claimed_by, events.c.ready_at, events.c.claimed_at, events.c.settled_at),
    case(
        (events.c.status == literal_column("'claimed'"), null()),
        (events.c.status == literal_column("'cancelled'"), literal_column("'cancelled'")),
        (and_(events.c.why.is_not(None), events.c.waited_ms == literal_column("0")), literal_column("'discarded'")),
        else_=literal_column("'settled'"),
    ),
    case((events.c.status == literal_column("'settled'"), events.c.why)),
    *(events.c.behind, events.c.waited_ms),
).where(
    events.c.run_id == bindparam("of_run"),
    events.c.claimed_at.is_not(None),
    or_(*(events.c.status == literal_column(f"'{status}'") for status in ("claimed", "settled", "cancelled"))),
)
_ALL_OF_RUN = union_all(_OF_RUN, _LAST_OF_RUN).order_by("event_id", "epoch").limit(bindparam("most"))
_ALL_OF_EVENT = union_all(
    _OF_RUN.where(attempts.c.event_id == bindparam("of_event")),
    _LAST_OF_RUN.where(events.c.id == bindparam("of_event")),
).order_by("epoch")


def ended(connection: Transaction, row: AnyRow, ending: Ending, why: str | None, now: float) -> None:
    """Record the end of the claim in `row` (see `LAST`), after which the event may be claimed again."""
    if row.claimed_at is None:  # claimed before attempts were kept
        return
    facts = {"run_id": row.run_id, "event_id": row.id, "epoch": row.epoch, "worker": row.claimed_by}
    facts |= {"ready_at": row.ready_at, "claimed_at": row.claimed_at, "ended_at": now, "outcome": ending}
    facts["behind"] = row.behind
    connection.insert_once(attempts, facts | {"why": why and why[:MOST_WHY_CHARACTERS]})
    if row.epoch > FIRST_KEPT + LAST_KEPT:
        passed = {"of_run": row.run_id, "of_event": row.id, "up_to": row.epoch - LAST_KEPT}
        connection.execute(_DROP_MIDDLE, passed)


def count_retrying(connection: Transaction, run_id: str, change: int) -> None:
    """Add to the number of the run's open events that failed or killed a worker; this locks the run's row."""
    connection.execute(_COUNT, {"of_run": run_id, "change": change})


def of_run(connection: Transaction, run_id: str, most: int) -> list[Attempt]:
    """Return at most `most` attempts of a run, by event and epoch."""
    return _one_each(connection.execute(_ALL_OF_RUN, {"of_run": run_id, "most": most}))


def of_event(connection: Transaction, run_id: str, event_id: str) -> list[Attempt]:
    """Return the attempts that are kept of one event, in order."""
    return _one_each(connection.execute(_ALL_OF_EVENT, {"of_run": run_id, "of_event": event_id}))


def _one_each(rows: Iterable[AnyRow]) -> list[Attempt]:
    found: dict[tuple[str, int], Attempt] = {}
    for one in (Attempt(*row) for row in rows):
        known = found.setdefault((one.event_id, one.epoch), one)
        if known.ending == "cancelled":  # it was cancelled as it waited: that claim had ended before
            found[one.event_id, one.epoch] = one
    return list(found.values())
