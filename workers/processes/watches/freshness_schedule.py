"""The pages that are due are asked for again every `freshness.every_hours`, as `sluice freshness --recheck` does.

Of all processes of an instance one does so: whoever gets a lease in the ledger, which lasts until the next time. So it
outlives restarts, and nothing is asked twice because two machines share a ledger. A corpus whose last recheck is still
under way is left out, and so is what the policy, the day's budget or a full queue forbids: it stays due.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.api import ENDED
from sluice.contracts.errors import NotFound, SluiceError, Unavailable

if TYPE_CHECKING:
    from sluice.workers.context import Context

log = structlog.get_logger(__name__)

LOOK_SECONDS = 60.0
"""How often it is looked whether the time has come: one small transaction."""


class FreshnessSchedule:
    """The schedule of one process."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._every_hours = context.settings.freshness.every_hours
        self._runs: dict[str, str] = {}
        """The last recheck of each corpus."""

    @property
    def look_seconds(self) -> float:
        """Between two looks: `LOOK_SECONDS`, or less where it is to be asked more often."""
        return min(LOOK_SECONDS, self._every_hours * 3_600)

    @property
    def is_on(self) -> bool:
        """Whether the settings want any of this."""
        return self._every_hours > 0 and self._context.settings.crawl.enabled

    def look(self) -> None:
        """Ask again for what is due, where the time has come.

        Raises:
            Unavailable: the ledger or the broker does not answer; the next look tries again.
        """
        ledger = self._context.ledger
        name, holder = f"freshness:{self._every_hours:g}h", secrets.token_hex(8)
        if not ledger.lease(name, holder, self._every_hours * 3_600):
            return
        try:
            for corpus in self._context.readers.names():
                self._recheck(corpus)
        except Unavailable:
            ledger.give_up_lease(name, holder)
            raise

    def _recheck(self, corpus: str) -> None:
        from sluice.workers.service.freshness import recheck  # where the schedule is off, none of it is loaded

        if self._is_under_way(corpus):
            log.info("recheck_under_way", corpus=corpus, run_id=self._runs[corpus])
            return
        try:
            run_id = recheck(self._context, corpus)
        except Unavailable:
            raise
        except SluiceError as error:
            log.warning("recheck_left_out", corpus=corpus, error=str(error))
            return
        if run_id is not None:
            self._runs[corpus] = run_id
            log.info("recheck_began", corpus=corpus, run_id=run_id)

    def _is_under_way(self, corpus: str) -> bool:
        try:
            return corpus in self._runs and self._context.ledger.status_of(self._runs[corpus]) not in ENDED
        except NotFound:  # pruned
            return False
