"""One instance as the HTTP interface knows it: every service, built once, and closed together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sluice.contracts.api import DefenceView, Health, StageView
from sluice.contracts.event import Queue
from sluice.contracts.graph.api import GraphServerHealth
from sluice.contracts.learning.control import DefenceName
from sluice.contracts.operations.hosts import HostView
from sluice.ingest.politeness.hosts import MOST_DAYS
from sluice.workers.broker.direct_query import QueryPool
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.service.api_keys import ApiKeys
from sluice.workers.service.dead_letters import DeadLetterDesk, ReplayDesk
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.graph.desk import GraphDesk, check_graph_server
from sluice.workers.service.graph.upkeep import GraphUpkeep
from sluice.workers.service.health import check_health
from sluice.workers.service.learning.control import FlagDesk, lift_defence, list_defences
from sluice.workers.service.learning.evaluation import By, Evaluation, evaluate
from sluice.workers.service.learning.rollouts import RolloutDesk
from sluice.workers.service.memory.desk import MemoryDesk
from sluice.workers.service.quarantine import QuarantineDesk
from sluice.workers.service.runs import Announcements, Runs
from sluice.workers.service.service import Service
from sluice.workers.settings import Settings

__all__ = ["BROKER_ERRORS", "MOST_DAYS", "Instance"]

PUBLISH_PATIENCE_SECONDS = 2.0
"""How long a caller waits for a broker that hangs. The run is recorded by then; the reconciler publishes it."""


class Instance:
    """The services of one process, for as long as it serves."""

    def __init__(self, settings: Settings) -> None:
        """To be made in the running event loop.

        Raises:
            InvalidSetting: no broker is known.
            Conflict: the ledger is of another version.
        """
        self.settings = settings
        self.context = Context(settings, publish_patience_seconds=PUBLISH_PATIENCE_SECONDS)
        ledger = self.context.ledger
        self.service = Service(self.context)
        self.runs = Runs(ledger)
        self.dead_letters = DeadLetterDesk(self.context)
        self.replays = ReplayDesk(ledger)
        self.forget = ForgetDesk(self.context, self.service)
        self.quarantine = QuarantineDesk(self.context, self.service)
        self.flags = FlagDesk(self.context)
        self.rollouts = RolloutDesk(self.context)
        self.memory = MemoryDesk(self.context, self.service)
        self.graph = GraphDesk(self.context)
        self.graph_upkeep = GraphUpkeep(self.context, self.service)
        self.keys = ApiKeys(ledger)
        self.query_pool = QueryPool(settings)
        self.announcements = Announcements(settings)
        self.announcements.start()

    def graph_server_health(self) -> GraphServerHealth:
        """Whether the graph server answers. Raises `NotFound` where none is configured."""
        return check_graph_server(self.context)

    def health(self) -> Health:
        """How every part is."""
        return check_health(self.context)

    def stages(self) -> list[StageView]:
        """Every stage: what waits in it, and whether it is paused."""
        return self.context.ledger.stages()

    def pause(self, stage: Queue, why: str, operator: str) -> list[StageView]:
        """Stop handing out work of a stage until it is resumed."""
        self.context.ledger.pause(stage, why, operator=operator)
        return self.stages()

    def resume(self, stage: Queue, operator: str) -> list[StageView]:
        """End a pause, that of the circuit breaker too."""
        self.context.ledger.resume(stage, operator=operator)
        return self.stages()

    def defences(self) -> list[DefenceView]:
        """Every defence of the gate: whether it has stepped back, and why."""
        return list_defences(self.context.ledger)

    def lift_defence(self, name: DefenceName, profile: str | None, note: str, operator: str) -> list[DefenceView]:
        """End a step back of the gate before it heals; those that were ended."""
        return list(lift_defence(self.context, name, operator, profile, note))

    def hosts(self, days: int, limit: int) -> list[HostView]:
        """What the crawl did to each host in the last days, UTC, today included; the most asked first."""
        since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
        return list(self.context.host_stats.top(limit, since))

    def evaluation(self, since: datetime, until: datetime, by: By, profile: str | None) -> Evaluation:
        """How the runs did that were decided in that time."""
        return evaluate(self.context.ledger.outcomes, since, until, by, profile)

    async def close(self) -> None:
        """Close what was opened."""
        await self.announcements.stop()
        await self.query_pool.close()
        self.context.close()
