"""What every page's crawl works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sluice.contracts.known_pages import PageMemory
from sluice.ingest.cancel_check import CancelCheck, never_cancelled
from sluice.ingest.circuit_breaker import HostBreakers
from sluice.ingest.crawl.crawled_page import Egress, Renderer
from sluice.ingest.crawl.sitemap_cache import SiteMaps
from sluice.ingest.http.fetch import Fetcher
from sluice.ingest.politeness.hosts import HostMemory, HostStats
from sluice.ingest.politeness.rate_limit import HostRateLimit
from sluice.ingest.politeness.robots import RobotsCache
from sluice.ingest.settings import CrawlSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlContext:
    """The services of a crawler. `clock` gives times with their zone.

    `check_cancelled` is called before anything is asked of a site; what it raises ends the crawl. Without
    `known_pages` every page is read anew, without `host_memory` nothing is learned of hosts, without `host_stats`
    nothing is counted by host.
    """

    settings: CrawlSettings
    egress: Egress
    fetcher: Fetcher
    robots: RobotsCache
    rate_limit: HostRateLimit
    breakers: HostBreakers
    browser: Renderer | None
    site_maps: SiteMaps
    clock: Callable[[], datetime]
    check_cancelled: CancelCheck = never_cancelled
    known_pages: PageMemory | None = None
    host_memory: HostMemory | None = None
    host_stats: HostStats | None = None
