"""Counters of what the crawl did to each host, from the crawl to the operator."""

from __future__ import annotations

from pydantic import computed_field

from sluice.contracts.base import Value


class HostCounts(Value):
    """What happened to one host. Counts of several crawls or days are added up."""

    requests: int = 0
    """Whatever left for it: pages, redirects, robots.txt, sitemaps, parts of rendered pages."""
    pages: int = 0
    """Pages that were read, unchanged ones too."""
    failures: int = 0
    """No connection, no answer in time, a status of 500 or more."""
    robots_refusals: int = 0
    egress_refusals: int = 0
    received_bytes: int = 0
    rendered: int = 0
    """Pages that a browser showed."""
    waited_seconds: float = 0.0
    """For turns, in all."""

    def __add__(self, other: HostCounts) -> HostCounts:
        ours, theirs = self.model_dump(), other.model_dump()
        return HostCounts(**{name: ours[name] + theirs[name] for name in HostCounts.model_fields})


class HostView(HostCounts):
    """`GET /v1/hosts`: what the crawl did to one host over the days asked for."""

    host: str
    interval_seconds: float = 0.0
    """Between two requests, as it was held last."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def success_share(self) -> float:
        """Of the requests, those that did not fail; 1 where there were none."""
        return 1.0 if self.requests == 0 else max(0.0, 1.0 - self.failures / self.requests)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def render_share(self) -> float:
        """Of the pages, those that a browser showed; 0 where there were none."""
        return self.rendered / self.pages if self.pages else 0.0
