"""The sitemaps of the sites that are crawled, each read once an hour: see `ingest.crawl.sitemap` for what one says.

Promises: only what a site's robots.txt names is asked for, as politely as its pages; a map that cannot be had is
none; reading the maps takes at most half of the time that a page has left.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluice.contracts.errors import SluiceError
from sluice.ingest.crawl.sitemap import MAX_BYTES, SitemapUrl, gather
from sluice.ingest.deadline import Deadline
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits
from sluice.ingest.politeness.robots import RobotsCache
from sluice.ingest.url import origin_of

KEPT_SECONDS = 3_600.0
"""How long a site's map holds; a run that lasts longer may miss what is new."""
MOST_ORIGINS = 200
"""Sites whose maps are kept at a time; one of 5,000 addresses takes a megabyte."""
REDIRECTS = 3
"""That one map may take."""
MOST_URLS = 5_000
"""Addresses read from one site's sitemaps."""


@dataclass(frozen=True, slots=True)
class _Kept:
    urls: Mapping[str, SitemapUrl]
    until: float


class SiteMaps:
    """What sites say of their own pages. Thread-safe; two threads may read one map at the same time."""

    def __init__(
        self,
        fetcher: Fetcher,
        robots: RobotsCache,
        *,
        most_urls: int = MOST_URLS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._robots = robots
        self._most_urls = most_urls
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._guard = threading.Lock()

    def of(
        self, url: str, *, proxy_url: str, pre_request: Callable[[str], None], deadline: Deadline
    ) -> Mapping[str, SitemapUrl]:
        """The pages of the site of `url` that its maps name, by their canonical address.

        `pre_request` is called with every address before it is asked for.
        """
        origin = origin_of(url)
        with self._guard:
            kept = self._kept.get(origin)
            if kept is not None and kept.until > self._clock():
                return kept.urls
        named = self._robots.sitemaps(url, deadline)
        urls = self._read(named, proxy_url, pre_request, deadline) if named else {}
        with self._guard:
            self._kept[origin] = _Kept(urls, self._clock() + KEPT_SECONDS)
            self._kept.move_to_end(origin)
            while len(self._kept) > MOST_ORIGINS:
                self._kept.popitem(last=False)
        return urls

    def _read(
        self, named: tuple[str, ...], proxy_url: str, pre_request: Callable[[str], None], deadline: Deadline
    ) -> Mapping[str, SitemapUrl]:
        ours = Deadline(deadline.left_seconds() / 2)

        def fetched(address: str) -> bytes | None:
            try:
                limits = FetchLimits(ours.left_seconds(), MAX_BYTES, REDIRECTS)
                answer = self._fetcher.fetch(
                    address, limits=limits, pre_request=pre_request, deadline=ours, proxy_url=proxy_url
                )
            except SluiceError:  # a map is a help and no more
                return None
            return answer.body if isinstance(answer, Fetched) and answer.status == 200 else None

        return {page.url: page for page in gather(named, fetched, self._most_urls)}
