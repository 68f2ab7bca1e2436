"""The fair queue of a stage: it decides which ready event is served next.

Events that an agent waits for go first, then small submissions, then bulk. Within a priority every tenant has its own
queue, and these are served in turn: start-time fair queueing (Goyal, Vin and Cheng, 1996) with every event of the same
length. An event's turn is one more than the last of its tenant queue, or the turn being served when that is
empty; the lowest turn is served first, ties by age. A tenant with 10,000 events delays another's single one by at
most one event per tenant, and an idle tenant accumulates no credit.
A tenant is an API key, or the corpus of a run without a key. The column of the tenant queue is `lane`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sqlalchemy import bindparam, func, literal_column, select

from sluice.contracts.event import Queue
from sluice.ledger.schema.tables import IS_READY, AnyRow, events
from sluice.ledger.transaction import Transaction

NO_KEY = "local"
"""The owner of runs that were requested without an API key."""
ANSWERS, SMALL, BULK = 0, 1, 2
"""Priorities; the lower goes first. An agent waits for answers; a small submission is embedded within a second, as
somebody who adds one document waits for it too; bulk is everything else."""


def priority_of(run: AnyRow, cause: int | None = None) -> int:
    """Return the priority of the run's events; `cause` is the priority of the event that caused them.

    A submission is known to be small when it is recorded, and its events keep that priority from stage to stage.
    """
    if run.kind == "gate":
        return ANSWERS
    return SMALL if cause == SMALL else BULK


def tenant_queue_of(run: AnyRow) -> str:
    """Return the tenant queue of the run's events."""
    return f"corpus:{run.corpus}" if run.owner == NO_KEY else f"key:{run.owner}"


def take_turns(connection: Transaction, queues: Sequence[Queue | None], priority: int, tenant_queue: str) -> list[int]:
    """Return a turn for one event of the tenant queue in each of `queues`, in order; 0 where the queue is None.

    The caller must make the events ready, which takes the turns, before it calls this again.
    """
    turns = {
        queue: count(_next_turn(connection, queue, priority, tenant_queue))
        for queue in sorted({q for q in queues if q})
    }
    return [0 if queue is None else next(turns[queue]) for queue in queues]


def _next_turn(connection: Transaction, queue: Queue, priority: int, tenant_queue: str) -> int:
    facts = {"of_queue": queue, "at_priority": priority, "of_lane": tenant_queue}
    if connection.dialect == "postgresql":  # SQLite has one writer at a time
        connection.execute(_ALONE, {"line": f"{queue} {priority} {tenant_queue}"})
    return int(connection.execute(_NEXT, facts).scalar() or 0)


_HERE = (
    IS_READY,
    events.c.deaths == literal_column("0"),
    events.c.queue == bindparam("of_queue"),
    events.c.priority == bindparam("at_priority"),
)
SERVED = select(events.c.turn).where(*_HERE).order_by(events.c.turn).limit(1)
"""The turn being served. Events on which a worker died have none."""
_OWN_LAST = (
    select(events.c.turn).where(*_HERE, events.c.lane == bindparam("of_lane")).order_by(events.c.turn.desc()).limit(1)
)
_NEXT = select(func.coalesce(_OWN_LAST.scalar_subquery() + 1, SERVED.scalar_subquery(), 0))
_ALONE = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("line"), 0)))
"""A lock per tenant queue: each transaction that places events in it sees those of the one before."""
