"""The crawler of a process, built of its parts. Imported only where pages are fetched: it brings the browser.

Without the extra `crawl` pages are fetched over HTTP alone; one that needs a browser is refused, with what brings it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from sluice.contracts.errors import NotInstalled, needed
from sluice.ingest.circuit_breaker import HostBreakers, host_rule
from sluice.ingest.crawl.crawler import CrawlContext, Crawler, robots_fetch
from sluice.ingest.crawl.sitemap import SiteMaps
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.http.fetch import Fetcher
from sluice.ingest.politeness.hosts import HostMemory, HostStats
from sluice.ingest.politeness.rate_limit import HostRateLimit, RateLimitStore
from sluice.ingest.politeness.robots import BrokerRobotsStore, RobotsCache
from sluice.ingest.url import host_of
from sluice.ledger.known_pages import PageMemory
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.observers import count_circuit_opened, utc_now
from sluice.workers.settings import Settings

NO_BROWSER: NotInstalled | None = None
"""Reason why this installation has no browser; None if it has one."""
try:
    from sluice.ingest.browser.browser import Browser
except ImportError as error:
    if not (error.name or "").startswith("playwright"):
        raise
    NO_BROWSER = needed("crawl", error)

_log = logging.getLogger(__name__)


def build_crawler(
    settings: Settings,
    egress: EgressProxy,
    fetcher: Fetcher,
    memory: PageMemory,
    host_stats: HostStats,
    doubts: Callable[[str], Mapping[str, float]],
    closing: ExitStack,
) -> Crawler:
    """Build the crawler: polite, by way of the egress proxy, with a browser if needed; `closing` closes its parts."""
    crawl, broker_url, instance = settings.crawl, settings.broker_location, settings.instance
    lines = RateLimitStore(broker_url, instance)
    turns = HostRateLimit(crawl.requests_per_second_per_host, lines, check_cancelled=check_cancelled)
    store = BrokerRobotsStore(broker_url, key_prefix=instance)
    hosts = HostMemory(broker_url, key_prefix=instance)
    for part in (lines, store, hosts):
        closing.callback(part.close)
    robots = RobotsCache(robots_fetch(fetcher, turns), user_agent=crawl.agent, clock=time.time, store=store)
    browser = None
    if crawl.render != "never" and NO_BROWSER is not None:
        _log.warning("pages are read without a browser: %s", NO_BROWSER)
    elif crawl.render != "never":
        browser = Browser(crawl, check_cancelled=check_cancelled, hidden=private_folders(settings))
        closing.callback(browser.close)

    def on_open(origin: str) -> None:
        count_circuit_opened("host")
        hosts.circuit_opened(host_of(origin), utc_now())

    breakers = HostBreakers(host_rule(crawl.breaker_reset_seconds), clock=time.monotonic, on_open=on_open)
    crawl_context = CrawlContext(
        settings=crawl,
        egress=egress,
        fetcher=fetcher,
        robots=robots,
        rate_limit=turns,
        breakers=breakers,
        browser=browser,
        site_maps=SiteMaps(fetcher, robots),
        clock=utc_now,
        check_cancelled=check_cancelled,
        known_pages=memory,
        host_memory=hosts,
        host_stats=host_stats,
        doubts=doubts,
    )
    return Crawler(crawl_context)


def private_folders(settings: Settings) -> tuple[Path, ...]:
    """Return folders that are hidden from a browser, although its user may read them: our data, settings and keys."""
    folders = [settings.data_dir, Path.cwd()]
    with suppress(RuntimeError):  # a user without a home
        folders.append(Path.home())
    return tuple(folders)
