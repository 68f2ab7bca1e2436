"""The crawl of one page, step by step: see `ingest.crawl.crawler` for the order.

`over_http` and `in_browser` bring the page; here is decided which of them is asked, whether the page changed, and
where it leads.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.contracts.known_pages import PageLink, RememberedPage
from sluice.contracts.operations.hosts import HostCounts
from sluice.ingest.crawl.crawled_page import CrawledPage, UnchangedPage
from sluice.ingest.crawl.frontier import ranked
from sluice.ingest.crawl.in_browser import reason_to_render_at_once, render_and_read
from sluice.ingest.crawl.over_http import fetch_page, read_answer
from sluice.ingest.crawl.page_visit import PageVisit, ReadPage
from sluice.ingest.crawl.sitemap import SitemapUrl
from sluice.ingest.http.fetch import NotModified
from sluice.ingest.politeness.robots import product_token
from sluice.ingest.politeness.robots_rules import read_directives
from sluice.ingest.url import host_of


def crawl_page(visit: PageVisit) -> CrawledPage | UnchangedPage:
    """What came of the page, counted by host. Raises as `Crawler.crawl` does."""
    context = visit.context
    try:
        page = _crawl(visit, _known(visit))
        rendered = isinstance(page, CrawledPage) and page.rendered
        visit.counters.add(host_of(page.final_url), HostCounts(pages=1, rendered=int(rendered)))
        return page
    finally:
        if context.host_stats is not None:
            visit.counters.add_to(context.host_stats, visit.egress_grant.report(), context.rate_limit)


def _known(visit: PageVisit) -> RememberedPage | None:
    """What the corpus holds of the page, where pages are asked for again only if they changed."""
    if visit.context.known_pages is None or not visit.context.settings.revisit:
        return None
    return visit.context.known_pages.recall(visit.corpus, visit.url)


def _crawl(visit: PageVisit, known: RememberedPage | None) -> CrawledPage | UnchangedPage:
    if known is not None and visit.directed.by_sitemap and (unchanged := _unchanged_by_sitemap(visit, known)):
        return unchanged
    if reason := reason_to_render_at_once(visit):
        with contextlib.suppress(InvalidInput):  # a download, which HTTP alone can read
            return _finished(visit, render_and_read(visit, visit.url, reason), known)
    compared = None if known is None or known.rendered else known  # a 304 says nothing of what scripts load
    answer = fetch_page(visit, visit.url, compared)
    if isinstance(answer, NotModified):
        return _not_modified(visit, answer, compared)
    read = read_answer(visit, answer)
    reason = read.facts.browser_reason
    if visit.directed.render == "never" or reason is None:
        visit.learn(read.page.final_url, was_shell=reason is not None, helped=None)
        return _finished(visit, read, known)
    if visit.context.browser is None or visit.meter.is_used_up:
        visit.note("browser", f"would be needed, and is not available: {reason}")
        return _finished(visit, replace(read, page=replace(read.page, render_reason=reason)), known)
    return _finished(visit, render_and_read(visit, read.page.final_url, reason, shell=read.facts), known)


def _not_modified(visit: PageVisit, answer: NotModified, known: RememberedPage | None) -> CrawledPage | UnchangedPage:
    if known is None:
        raise Unavailable(f"{visit.url} answers 304 to a request without conditions")
    visit.note("memory", f"the site says: not modified since {known.fetched_at:%Y-%m-%d %H:%M} UTC")
    token, now = product_token(visit.context.settings.agent), visit.context.clock()
    directives = read_directives(answer.headers.get("x-robots-tag"), (), token, now)
    visit.require_indexable(directives, answer.final_url)
    if directives.nosnippet and not known.nosnippet:
        visit.note("memory", "but no text of it may be shown from now on: it is read anew")
        return _crawl(visit, None)
    return UnchangedPage(
        url=visit.url,
        final_url=answer.final_url,
        by="not_modified",
        fetched_at=now,
        elapsed_ms=answer.elapsed_ms,
        directed=visit.directed,
        links=_links_to_follow(visit, () if directives.nofollow else known.links, answer.final_url),
    )


def _finished(visit: PageVisit, read: ReadPage, known: RememberedPage | None) -> CrawledPage | UnchangedPage:
    """The page with its links; or that it is as it was."""
    page = read.page
    links = _links_to_follow(visit, read.links, page.final_url)
    if known is not None and _is_as_it_was(read, known):
        visit.note("memory", f"the same content as at {known.fetched_at:%Y-%m-%d %H:%M} UTC")
        return UnchangedPage(
            url=page.url,
            final_url=page.final_url,
            by="same_content",
            fetched_at=page.fetched_at,
            elapsed_ms=page.elapsed_ms,
            directed=visit.directed,
            links=links,
        )
    noarchive = read.directives.noarchive
    return replace(
        page,
        canonical_url=read.facts.canonical_url,
        noarchive=noarchive,
        nosnippet=read.directives.nosnippet,
        max_snippet=read.directives.max_snippet,
        screenshot=None if noarchive else page.screenshot,
        page_links=read.links,
        links=links,
    )


def _is_as_it_was(read: ReadPage, known: RememberedPage) -> bool:
    """Whether what the index holds of it stands: the same body in the same place, under the same conditions."""
    return (
        known.final_url == read.page.final_url
        and known.nosnippet == read.directives.nosnippet
        and known.body_sha256 == hashlib.sha256(read.page.body).hexdigest()
    )


def _links_to_follow(visit: PageVisit, links: tuple[PageLink, ...], page_url: str) -> tuple[str, ...]:
    """Where to go on from here, the best first; nowhere where the directive leads no further."""
    directed = visit.directed
    if directed.depth >= directed.max_depth or directed.page_allowance < 2:
        visit.note("links", f"{len(links)} found, none followed: the directive ends here")
        return ()
    listed = _sitemap_urls(visit, page_url)
    frontier = ranked(
        (*links, *map(PageLink, listed)),
        page_url=page_url,
        query=directed.search_query,
        known=listed,
        came_by=directed.came_by,
    )
    for left_out in frontier.left_out:
        visit.note("trap", f"{left_out.url}: {left_out.trap}")
    for url in frontier.urls:
        visit.note("link", url)
    return frontier.urls


def _unchanged_by_sitemap(visit: PageVisit, known: RememberedPage) -> UnchangedPage | None:
    """That the page is as it was, where the site's sitemap dates its last change a day and more before it was seen.

    Many sitemaps have no time of day.
    """
    listed = _sitemap_urls(visit, visit.url).get(visit.url)
    if listed is None or listed.last_modified is None or listed.last_modified > known.fetched_at - timedelta(days=1):
        return None
    visit.note("memory", f"its sitemap says: not modified since {listed.last_modified:%Y-%m-%d %H:%M} UTC")
    now = visit.context.clock()
    return UnchangedPage(known.url, known.final_url, "sitemap", now, 0.0, visit.directed)


def _sitemap_urls(visit: PageVisit, page_url: str) -> Mapping[str, SitemapUrl]:
    """What the site's sitemaps say, where a run begins: further in they were read already."""
    if not visit.context.settings.sitemaps or visit.directed.depth > 0 or visit.meter.is_used_up:
        return {}
    attempt = visit.attempt()
    found = visit.context.site_maps.of(
        page_url, proxy_url=visit.egress_grant.url, pre_request=attempt.pre_request, deadline=visit.deadline
    )
    attempt.ended(failed=False)
    visit.note("sitemap", f"{len(found)} addresses")
    return found
