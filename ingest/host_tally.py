"""What one crawl did to each host that it came by, added up and told once."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TypedDict, Unpack

from contracts.errors import Overloaded
from ingest.egress_account import EgressReport
from ingest.host_figures import HostFigures
from ingest.turns import HostTurns


class Counts(TypedDict, total=False):
    """What is added up: see `ingest.host_figures.HostRow`."""

    requests: int
    pages: int
    failures: int
    robots_refusals: int
    egress_refusals: int
    received_bytes: int
    rendered: int
    waited_seconds: float


class HostTally:
    """Sums by host. Not for several threads."""

    def __init__(self) -> None:
        self._hosts: defaultdict[str, Counts] = defaultdict(Counts)

    def add(self, host: str, **counts: Unpack[Counts]) -> None:
        """Add to what is known of `host`."""
        known = self._hosts[host]
        self._hosts[host] = Counts(
            requests=known.get("requests", 0) + counts.get("requests", 0),
            pages=known.get("pages", 0) + counts.get("pages", 0),
            failures=known.get("failures", 0) + counts.get("failures", 0),
            robots_refusals=known.get("robots_refusals", 0) + counts.get("robots_refusals", 0),
            egress_refusals=known.get("egress_refusals", 0) + counts.get("egress_refusals", 0),
            received_bytes=known.get("received_bytes", 0) + counts.get("received_bytes", 0),
            rendered=known.get("rendered", 0) + counts.get("rendered", 0),
            waited_seconds=known.get("waited_seconds", 0.0) + counts.get("waited_seconds", 0.0),
        )

    def tell(self, figures: HostFigures, report: EgressReport, turns: HostTurns) -> None:
        """Hand the sums on, with the refusals that the proxy reports and the pauses that hosts get by now."""
        for refusal, count in report.refusals:
            self.add(refusal.host, egress_refusals=count)
        for host, counts in self._hosts.items():
            interval_seconds = None
            with contextlib.suppress(Overloaded):  # the broker is away: so are the figures
                interval_seconds = turns.interval_seconds(host) if counts.get("requests") else None
            figures.add(host, interval_seconds=interval_seconds, **counts)
