"""Releases the claims of processes that will not finish their work."""

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
    """Release the claims of workers for whose names `is_gone` is true, publish wake-ups, and return how many.

    `died`: counts a death on each event. An expired lease counts one in any case. Opens its own connections: those of
    a stuck process may be the reason why it is stuck.

    Raises:
        Unavailable: the ledger does not answer; the leases will run out.
        InvalidSetting: there is no broker. The reconciler publishes the released events.
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
