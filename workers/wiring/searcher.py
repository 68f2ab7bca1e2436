"""Live search as a process is configured for it: its providers, their quota, and what was found empty before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.contracts.ingest import SearchCompleted, SearchDirected
from sluice.ingest.search.port import SearchProvider
from sluice.ingest.search.quota import BrokerEmptySearches, BrokerQuota
from sluice.ingest.search.search import search
from sluice.ingest.settings import SearchSettings
from sluice.workers.runtime.heartbeat import check_cancelled
from sluice.workers.wiring.observers import utc_now


@dataclass(frozen=True, slots=True)
class Searcher:
    """Asks the configured providers, in order of fail-over."""

    settings: SearchSettings
    providers: Sequence[SearchProvider]
    quota: BrokerQuota
    """Calls per provider and day, counted in the broker for all workers together."""
    empty_searches: BrokerEmptySearches
    """What providers found nothing for, remembered by all workers together."""

    def search(self, directed: SearchDirected) -> SearchCompleted:
        """What the providers found. Raises what `ingest.search.search.search` raises."""
        return search(
            directed,
            self.providers,
            quota=self.quota,
            settings=self.settings,
            clock=utc_now,
            check_cancelled=check_cancelled,
            empty=self.empty_searches,
        )
