"""What the index lacks of agents' memories is sent, whatever became of the runs that were to bring it.

A run is missing where a process was killed between the journal and the ledger, or the queues had no room; what it was
to bring stands in the journal. Of all processes of an instance one looks: the one that gets a lease in the ledger. A
journal that has not grown since the index held all of it is not read again, a feature with a run under way is left
out, and the same lag is sent once an hour: what cannot be indexed is not tried without end.
"""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.errors import SluiceError, Unavailable
from sluice.ledger.events.fair_queue import NO_KEY
from sluice.memory.journal.paths import journal_path
from sluice.memory.qdrant_schema import collection_name
from sluice.otel import metrics
from sluice.workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sluice.workers.context import Context
    from sluice.workers.service.memory.upkeep import MemoryUpkeep

log = structlog.get_logger(__name__)

LOOK_SECONDS = 60.0
LEASE_SECONDS = 2 * LOOK_SECONDS


class MemoryWatch:
    """The look of one process after the memories of its instance."""

    def __init__(self, context: Context, now: Callable[[], datetime] = utc_now) -> None:
        self._context = context
        self._now = now
        self._holder = secrets.token_hex(8)
        self._covered: dict[tuple[str, str], int] = {}
        """The size of each journal of which the index held all."""

    def look(self) -> None:
        """Send what the index lacks.

        Raises:
            Unavailable: the ledger or the broker does not answer; the next look tries again.
        """
        if not (self._context.settings.data_dir / "memory").is_dir():
            metrics.MEMORY_BEHIND.set(0)
            return
        if not self._context.ledger.lease("memory", self._holder, LEASE_SECONDS):
            return
        from sluice.workers.service.memory.upkeep import (
            MemoryUpkeep,  # where nothing is remembered, none of it is loaded
        )
        from sluice.workers.service.service import Service

        memories = self._context.open_memories(derives=False)
        upkeep = MemoryUpkeep(self._context, Service(self._context), memories)
        behind = sum(
            self._follow(upkeep, project, feature, memories.of(project).folder)
            for project in memories.names()
            for feature in memories.of(project).features()
        )
        metrics.MEMORY_BEHIND.set(behind)

    def _follow(self, upkeep: MemoryUpkeep, project: str, feature: str, folder: Path) -> int:
        """Send what the index lacks of one feature; how much that is."""
        try:
            size = journal_path(folder, feature).stat().st_size
            if self._covered.get((project, feature)) == size or self._is_under_way(project, feature):
                return 0
            sent = upkeep.bring_up(project, feature, NO_KEY, once_per=f"{self._now():%Y-%m-%dT%H}")
        except Unavailable:
            raise
        except (SluiceError, OSError) as error:
            log.warning("memory_not_followed", corpus=collection_name(project, feature), error=str(error))
            return 0
        if not sent.behind:
            self._covered[project, feature] = size
        else:
            log.info("memory_followed", corpus=sent.corpus, behind=sent.behind)
        return sent.behind

    def _is_under_way(self, project: str, feature: str) -> bool:
        corpus = collection_name(project, feature)
        return bool(self._context.ledger.runs(1, corpus=corpus, status="open", kind="memory"))
