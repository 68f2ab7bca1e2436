"""Gives back what a process held, once it is known that it will not finish it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import structlog
from sqlalchemy import select

from sluice.ledger.database import Database
from sluice.ledger.events.outbox import WakeUp
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import events
from sluice.workers.broker.transport import Transport
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

_HOLDERS = select(events.c.worker).where(events.c.status == "claimed", events.c.due_at.is_not(None)).distinct()


def hand_back(settings: Settings, is_gone: Callable[[str], bool], *, died: bool) -> int:
    """Free what those have claimed of whose names `is_gone` says so, and publish it; how many messages that took.

    `died`: it counts as a death on each event. Where a lease has run out it does in any case. Opens what it needs
    itself: in a process that is stuck, the connections it has may be what it is stuck on.

    Raises:
        Unavailable: the ledger does not answer; the leases will run out.
        InvalidSetting: there is no broker. What was freed is published by the reconciler.
    """
    with closing(Database(settings.ledger_location)) as database, database.reading() as connection:
        gone = [name for name in connection.execute(_HOLDERS).scalars() if is_gone(name)]
    if not gone:
        return 0
    most = settings.delivery.max_deliveries
    with Ledger(settings.ledger_location) as ledger:
        freed: list[WakeUp] = [*ledger.expire_leases(most)]
        for name in gone:
            freed += ledger.release(name, max_deliveries=most, died=died)
    with closing(Transport(settings)) as transport:
        transport.publish_wake_ups(freed)
    log.info("claims_handed_back", workers=gone, died=died, wake_ups=len(freed))
    return len(freed)
