"""One instance as the HTTP interface knows it: every service, built once, and closed together."""

from __future__ import annotations

from sluice.ingest.politeness.hosts import MOST_DAYS
from sluice.workers.broker.direct_query import QueryPool
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.service.api_keys import ApiKeys
from sluice.workers.service.dead_letters import DeadLetterDesk
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.graphs import GraphDesk
from sluice.workers.service.learning.control import FlagDesk, RolloutDesk
from sluice.workers.service.memories import MemoryDesk
from sluice.workers.service.quarantine import QuarantineDesk
from sluice.workers.service.runs import Announcements, Runs
from sluice.workers.service.service import Service
from sluice.workers.settings import Settings

__all__ = ["BROKER_ERRORS", "MOST_DAYS", "Instance"]

PUBLISH_PATIENCE_SECONDS = 2.0
"""Longest wait for a broker that hangs. The run is recorded by then; the reconciler publishes it."""


class Instance:
    """The services of one process, for as long as it serves."""

    def __init__(self, settings: Settings) -> None:
        """Build every service in the running loop. Raises `InvalidSetting` without a broker, `Conflict` as `Ledger`."""
        self.settings = settings
        self.context = Context(settings, publish_patience_seconds=PUBLISH_PATIENCE_SECONDS)
        ledger = self.context.ledger
        self.service = Service(self.context)
        self.runs = Runs(ledger)
        self.dead_letters = DeadLetterDesk(self.context)
        self.forget = ForgetDesk(self.context)
        self.quarantine = QuarantineDesk(self.context)
        self.flags = FlagDesk(self.context)
        self.rollouts = RolloutDesk(self.context)
        self.memory = MemoryDesk(self.context, reads_write=False)
        self.graph = GraphDesk(self.context)
        self.keys = ApiKeys(ledger)
        self.query_pool = QueryPool(settings)
        self.announcements = Announcements(settings)
        self.announcements.start()

    async def close(self) -> None:
        """Close every part that was opened."""
        await self.announcements.stop()
        await self.query_pool.close()
        self.context.close()
