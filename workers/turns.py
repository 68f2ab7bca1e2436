"""Whose turn it is: how the ready events of a stage stand in line.

Interactive runs go before bulk ones. Within a priority, lanes take turns: start-time fair queueing (Goyal, Vin and
Cheng, 1996) with every event of the same length. An event's turn is one more than the last of its lane, or the turn
that is being served, whichever is later; the lowest turn is served first, ties by age. So a lane with 10,000 events
in line delays another lane's single one by at most one event per lane, and a lane that was idle saves nothing up.

A lane is an API key, or the corpus of a run that has no key behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from sqlalchemy import bindparam, case, func, select

from contracts.event import Queue
from workers.schema import IS_READY, AnyRow, events, lanes
from workers.transaction import Transaction
from workers.upsert import insert_into

NO_KEY = "local"
"""The owner of runs that no API key asked for."""
_INTERACTIVE, _BULK = 0, 1


def priority_of(run: AnyRow) -> int:
    """Where the run's events stand: an agent waits for an answer, nobody for an ingest."""
    return _INTERACTIVE if run.kind == "gate" else _BULK


def lane_of(run: AnyRow) -> str:
    """Whose turn the run's events take."""
    return f"corpus:{run.corpus}" if run.owner == NO_KEY else f"key:{run.owner}"


def take_turns(connection: Transaction, queues: Sequence[Queue | None], priority: int, lane: str) -> list[int]:
    """A turn for one event of the lane in each of `queues`, in order; 0 where an event goes to no queue."""
    wanted = Counter(queue for queue in queues if queue is not None)
    turns = {queue: count(_first_turn(connection, queue, priority, lane, n)) for queue, n in sorted(wanted.items())}
    return [0 if queue is None else next(turns[queue]) for queue in queues]


def _first_turn(connection: Transaction, queue: Queue, priority: int, lane: str, n: int) -> int:
    facts = {"of_queue": queue, "at_priority": priority, "of_lane": lane, "how_many": n, "before": n - 1}
    last: int = connection.execute(_take(connection.dialect), facts).scalar() or 0
    return last - n + 1


@cache
def _take(dialect: str) -> Any:
    """Move the lane's last turn on by as many events as are to be placed, and return it."""
    here = (events.c.queue == bindparam("of_queue"), events.c.priority == bindparam("at_priority"))
    served = select(events.c.turn).where(IS_READY, *here).order_by(events.c.turn).limit(1).scalar_subquery()
    latest = (
        select(lanes.c.last_turn)
        .where(lanes.c.queue == bindparam("of_queue"), lanes.c.priority == bindparam("at_priority"))
        .order_by(lanes.c.last_turn.desc())
        .limit(1)
        .scalar_subquery()
    )
    place = {
        "queue": bindparam("of_queue"),
        "priority": bindparam("at_priority"),
        "lane": bindparam("of_lane"),
        "last_turn": func.coalesce(served, latest, 0) + bindparam("before"),
    }
    insert = insert_into(dialect, lanes).values(place)
    behind_its_own = lanes.c.last_turn + bindparam("how_many")
    later = case((behind_its_own > insert.excluded.last_turn, behind_its_own), else_=insert.excluded.last_turn)
    return insert.on_conflict_do_update(
        index_elements=["queue", "priority", "lane"], set_={"last_turn": later}
    ).returning(lanes.c.last_turn)
