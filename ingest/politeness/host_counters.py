"""What one crawl did to each host that it asked, added up and recorded once."""

from __future__ import annotations

import contextlib
from collections import defaultdict

from sluice.contracts.errors import Overloaded
from sluice.contracts.operations.hosts import HostCounts
from sluice.ingest.egress.crawl_account import EgressReport
from sluice.ingest.politeness.host_stats import HostStats
from sluice.ingest.politeness.rate_limit import HostRateLimit


class HostCounters:
    """Sums by host. Not for several threads."""

    def __init__(self) -> None:
        self._hosts: defaultdict[str, HostCounts] = defaultdict(HostCounts)

    def add(self, host: str, counts: HostCounts) -> None:
        """Add to what is known of `host`."""
        self._hosts[host] += counts

    def add_to(self, stats: HostStats, report: EgressReport, rate_limit: HostRateLimit) -> None:
        """Add the sums to `stats`, with the refusals that the proxy reports and the present interval of each host."""
        for refusal, count in report.refusals:
            self.add(refusal.host, HostCounts(egress_refusals=count))
        for host, counts in self._hosts.items():
            interval_seconds = None
            with contextlib.suppress(Overloaded):  # the broker is away: so are the stats
                interval_seconds = rate_limit.interval_seconds(host) if counts.requests else None
            stats.add(host, counts, interval_seconds=interval_seconds)
