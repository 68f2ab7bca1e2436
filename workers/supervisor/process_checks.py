"""What a supervisor can tell of a process from outside: what it weighs, and whether the reconciler still ticks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from sqlalchemy import select

from sluice.contracts.errors import SluiceError
from sluice.ledger.database import Database
from sluice.ledger.schema.tables import leases
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from sluice.workers.processes.procfs import ProcessFacts, anonymous_bytes, descendants
from sluice.workers.processes.reconciler import LEASE
from sluice.workers.settings import Settings

_UNTIL = select(leases.c.until).where(leases.c.name == LEASE)


def largest_bytes(process_id: int, processes: Sequence[ProcessFacts]) -> int:
    """The memory of a worker, or of a child of its pool if that is larger."""
    children = [process.pid for process in processes if process.parent == process_id and process.group == process_id]
    return max(anonymous_bytes(one) for one in (process_id, *children))


def browser_bytes(process_id: int, processes: Sequence[ProcessFacts]) -> int:
    """The memory of a worker's browser, all its processes together: what is below the worker in groups of its own."""
    below = descendants(process_id, processes)
    return sum(anonymous_bytes(process.pid) for process in below if process.group != process_id)


def reconciler_is_late(settings: Settings, age_seconds: float) -> bool:
    """Whether one that has ticked since it was started, so long ago, no longer does, though all that it needs answers.

    At every tick it renews its lease; one that has just begun to start has none.
    """
    try:
        with closing(Transport(settings)) as transport:
            transport.ping()
        with closing(Database(settings.ledger_location)) as database, database.reading() as connection:
            until: float = connection.execute(_UNTIL).scalar() or 0.0
    except (SluiceError, *BROKER_ERRORS):
        return False
    return time.time() - age_seconds < until < time.time()
