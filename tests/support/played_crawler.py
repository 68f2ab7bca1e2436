"""A crawler whose browser is played, and which reaches a test's own site through the egress proxy."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sluice.contracts.errors import InvalidInput, TimedOut
from sluice.ingest.circuit_breaker import HostBreakers, host_rule
from sluice.ingest.crawl.crawler import CrawlContext, Crawler, robots_fetch
from sluice.ingest.crawl.sitemap import SiteMaps
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.http.fetch import Fetcher
from sluice.ingest.politeness.rate_limit import MAX_RATE_WAIT_SECONDS
from sluice.ingest.politeness.robots import RobotsCache
from sluice.ingest.settings import CrawlSettings
from sluice.ledger.known_pages import PageMemory
from tests.support.local_rate_limit import local_rate_limit

PROSE = "<p>" + "A sentence that a reader can read without any script at all. " * 6 + "</p>"
SHELL = "<div id=root></div><script src=app.js></script>"
USER_AGENT = "SluiceBot/0.1 (+https://sluice.invalid/bot)"


@dataclass(frozen=True)
class Shown:
    html: str
    final_url: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: int = 1
    screenshot: bytes | None = None


class ShowingBrowser:
    """Shows what it was told to show, and remembers what it was asked for."""

    def __init__(self, html: str = PROSE, **answer: Any) -> None:
        self.html = html
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def render(self, url: str, **options: Any) -> Shown:
        self.asked.append({"url": url, **options})
        if "download" in self.answer:
            raise InvalidInput("url", "leads to a download")
        if "hangs" in self.answer:
            raise TimedOut("not rendered in time")
        answer = {name: value for name, value in self.answer.items() if name in {"status", "headers", "screenshot"}}
        return Shown(self.html, self.answer.get("final_url", url), **answer)


def crawler_through(
    proxy: EgressProxy,
    authorities: ssl.SSLContext,
    browser: ShowingBrowser | None = None,
    check_cancelled: CancelCheck = never_cancelled,
    stopwatch: Callable[[], float] = time.monotonic,
    memory: PageMemory | None = None,
    max_rate_wait_seconds: float = MAX_RATE_WAIT_SECONDS,
    **changes: Any,
) -> Crawler:
    settings = CrawlSettings(**{"enabled": True, "requests_per_second_per_host": 50.0, **changes})
    fetcher = Fetcher(proxy.url, user_agent=USER_AGENT, tls=authorities)
    turns = local_rate_limit(settings.requests_per_second_per_host, max_wait_seconds=max_rate_wait_seconds)
    robots = RobotsCache(robots_fetch(fetcher, turns), user_agent=settings.agent, clock=time.monotonic)
    context = CrawlContext(
        settings=settings,
        egress=proxy,
        fetcher=fetcher,
        robots=robots,
        rate_limit=turns,
        breakers=HostBreakers(host_rule(settings.breaker_reset_seconds), clock=stopwatch),
        browser=browser,
        site_maps=SiteMaps(fetcher, robots),
        clock=lambda: datetime.now(UTC),
        check_cancelled=check_cancelled,
        known_pages=memory,
    )
    return Crawler(context)
