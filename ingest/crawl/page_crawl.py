"""The crawl of one page, step by step: see `ingest.crawl.crawler` for the order.

A page is fetched over HTTP or rendered by the browser, each within the remaining allowance. This module decides which
of them is used, whether the page changed, and where it leads.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from sluice.contracts.errors import BudgetExhausted, InvalidInput, Overloaded, PolicyRefused, TimedOut, Unavailable
from sluice.contracts.ingest import HostCounts, PageLink, RememberedPage
from sluice.ingest.browser.page import Rendered, RenderLimits
from sluice.ingest.circuit_breaker import CircuitOpen
from sluice.ingest.crawl.crawled_page import CrawledPage, UnchangedPage
from sluice.ingest.crawl.frontier import is_in_scope, ranked
from sluice.ingest.crawl.page_scan import PageFacts, browser_helped
from sluice.ingest.crawl.page_visit import PageVisit, ReadPage
from sluice.ingest.crawl.sitemap import SitemapUrl
from sluice.ingest.extract.charset import decode
from sluice.ingest.extract.media_types import HTML
from sluice.ingest.http.fetch import (
    EGRESS_REMEDY,
    MALFORMED_RESPONSE,
    Fetched,
    FetchLimits,
    NotModified,
    malformed_response,
)
from sluice.ingest.politeness.hosts import judge_media_type
from sluice.ingest.politeness.robots import product_token
from sluice.ingest.politeness.robots_rules import read_directives
from sluice.ingest.url import host_of, normalise_url

if TYPE_CHECKING:
    from sluice.ingest.browser.browser import Browser

_HTML_TYPES = frozenset({HTML, "application/xhtml+xml"})


def crawl_page(visit: PageVisit) -> CrawledPage | UnchangedPage:
    """Crawl the page and count the result by host. Raises as `Crawler.crawl` does."""
    context = visit.context
    try:
        page = _crawl(visit, _known(visit))
        rendered = isinstance(page, CrawledPage) and page.rendered
        visit.counters.add(host_of(page.final_url), HostCounts(pages=1, rendered=int(rendered)))
        return page
    except PolicyRefused as refused:
        if refused.rule != "egress":  # the proxy reports its own, by their rules
            visit.counters.refuse(host_of(visit.url), refused.rule)
        raise
    finally:
        if context.host_stats is not None:
            visit.counters.add_to(context.host_stats, visit.egress_grant.report(), context.rate_limit)


def _known(visit: PageVisit) -> RememberedPage | None:
    """Return the corpus's record of the page, so that only a changed one is fetched; None for a page to show."""
    memory = visit.context.known_pages if visit.directed.purpose in ("index", "map") else None
    return memory.recall(visit.corpus, visit.url) if memory is not None else None


def _crawl(visit: PageVisit, known: RememberedPage | None) -> CrawledPage | UnchangedPage:
    if known is not None and visit.directed.by_sitemap and (unchanged := _unchanged_by_sitemap(visit, known)):
        return unchanged
    if reason := reason_to_render_at_once(visit):
        with contextlib.suppress(InvalidInput):  # a download, which HTTP alone can read
            return _finished(visit, render_and_read(visit, visit.url, reason), known)
    compared = None if known is None or known.rendered else known  # a 304 says nothing about content that scripts load
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
    links = _links_to_follow(visit, () if directives.nofollow else known.links, answer.final_url)
    return UnchangedPage(visit.url, answer.final_url, "not_modified", now, answer.elapsed_ms, visit.directed, links)


def _finished(visit: PageVisit, read: ReadPage, known: RememberedPage | None) -> CrawledPage | UnchangedPage:
    """Return the page with its links, or as unchanged."""
    page = read.page
    links = _links_to_follow(visit, read.links, page.final_url)
    if known is not None and _is_as_it_was(read, known):
        visit.note("memory", f"the same content as at {known.fetched_at:%Y-%m-%d %H:%M} UTC")
        at, took_ms = page.fetched_at, page.elapsed_ms
        return UnchangedPage(page.url, page.final_url, "same_content", at, took_ms, visit.directed, links)
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
    """Return whether the indexed content still holds: the same body at the same address, under the same conditions."""
    return (
        known.final_url == read.page.final_url
        and known.nosnippet == read.directives.nosnippet
        and known.body_sha256 == hashlib.sha256(read.page.body).hexdigest()
    )


def _links_to_follow(visit: PageVisit, links: tuple[PageLink, ...], page_url: str) -> tuple[str, ...]:
    """Return the links to follow, the best first; none if the directive leads no further."""
    directed, scope = visit.directed, visit.directed.scope
    if directed.depth >= directed.max_depth or (scope is None and directed.page_allowance < 2):
        visit.note("links", f"{len(links)} found, none followed: the directive ends here")
        return ()
    listed = _sitemap_urls(visit, page_url)
    found = (*links, *map(PageLink, listed))
    frontier = ranked(
        found if scope is None else (one for one in found if is_in_scope(scope, one.url)),
        page_url=page_url,
        query=directed.search_query,
        known=listed,
        came_by=directed.came_by,
        doubts=visit.context.doubts(visit.corpus),
    )
    for left_out in frontier.left_out:
        visit.note("trap", f"{left_out.url}: {left_out.trap}")
    for url in frontier.urls:
        visit.note("link", url)
    return frontier.urls


def _unchanged_by_sitemap(visit: PageVisit, known: RememberedPage) -> UnchangedPage | None:
    """Return the page as unchanged if its sitemap dates its last change at least a day before it was last read.

    The day allows for the many sitemaps that have no time of day.
    """
    listed = _sitemap_urls(visit, visit.url).get(visit.url)
    if listed is None or listed.last_modified is None or listed.last_modified > known.fetched_at - timedelta(days=1):
        return None
    visit.note("memory", f"its sitemap says: not modified since {listed.last_modified:%Y-%m-%d %H:%M} UTC")
    now = visit.context.clock()
    return UnchangedPage(known.url, known.final_url, "sitemap", now, 0.0, visit.directed)


def _sitemap_urls(visit: PageVisit, page_url: str) -> Mapping[str, SitemapUrl]:
    """Return the site's sitemap entries; none below depth 0, as the first page had them read, or without allowance."""
    if visit.directed.depth > 0 or visit.meter.is_used_up:
        return {}
    attempt = visit.attempt()
    found = visit.context.site_maps.of(
        page_url,
        proxy_url=visit.egress_grant.url,
        pre_request=attempt.pre_request,
        deadline=visit.deadline,
        guess=visit.directed.scope is not None,
    )
    attempt.ended(failed=False)
    visit.note("sitemap", f"{len(found)} addresses")
    return found


def fetch_page(visit: PageVisit, url: str, known: RememberedPage | None) -> Fetched | NotModified:
    """Return the site's answer, whatever its status; if the page is `known`, possibly that it was not modified.

    Raises as `Fetcher.fetch`, and BudgetExhausted if the page is larger or slower than the remaining allowance.
    """
    settings, meter = visit.context.settings, visit.meter
    limits = FetchLimits(
        timeout_seconds=meter.seconds_left(settings.page_timeout_seconds),
        max_bytes=meter.bytes_left(settings.max_page_bytes),
    )
    attempt, started = visit.attempt(), visit.context.clock()
    try:
        answer = visit.context.fetcher.fetch(
            url,
            limits=limits,
            etag=known.etag if known else None,
            last_modified=known.last_modified if known else None,
            conditions_for=known.final_url if known else None,
            pre_request=attempt.pre_request,
            deadline=visit.deadline,
            proxy_url=visit.egress_grant.url,
        )
    except (Overloaded, CircuitOpen):
        raise  # we are busy, or no request was sent
    except TimedOut as error:
        site_seconds = visit.seconds_since(started) - attempt.waited_seconds
        if not visit.deadline.has_passed or site_seconds > visit.deadline.seconds / 2:  # else our own wait took it
            visit.require_patience(error, url, limits.timeout_seconds)
            attempt.ended(failed=True)
        raise
    except Unavailable:
        attempt.ended(failed=True)
        raise
    except PolicyRefused as error:
        raise _too_large(visit, error, url, limits.max_bytes) from error
    finally:
        meter.took(visit.seconds_since(started) - attempt.waited_seconds, at_most=limits.timeout_seconds)
    visit.count_received(answer.final_url, answer.received_bytes)
    if isinstance(answer, NotModified):
        attempt.ended(failed=False)
        visit.keep_pace(answer.final_url, 304, None)
        return answer
    attempt.ended(failed=answer.status >= 500)
    visit.note("answer", f"{answer.status} {answer.media_type} of {len(answer.body)} bytes at {answer.final_url}")
    visit.keep_pace(answer.final_url, answer.status, answer.headers.get("retry-after"))
    return answer


def read_answer(visit: PageVisit, answer: Fetched) -> ReadPage:
    """Return the page that the site answers with.

    Raises PageGone or NoIndex if it may not stay in the index, the error that its status stands for, and PolicyRefused
    (`media_type`) if nothing here can read it.
    """
    visit.require_page(answer.final_url, answer.status, answer.headers.get("retry-after"))
    media_type = judge_media_type(answer)
    page = CrawledPage(
        body=answer.body,
        url=visit.url,
        final_url=answer.final_url,
        status=answer.status,
        media_type=media_type,
        charset=answer.charset,
        fetched_at=visit.context.clock(),
        elapsed_ms=answer.elapsed_ms,
        directed=visit.directed,
        etag=answer.headers.get("etag"),
        last_modified=answer.headers.get("last-modified"),
    )
    html = decode(answer.body, answer.charset) if media_type in _HTML_TYPES else ""
    return visit.read(page, html, answer.headers.get("x-robots-tag"))


def _too_large(visit: PageVisit, error: PolicyRefused, url: str, max_bytes: int) -> PolicyRefused | BudgetExhausted:
    """Turn `bytes` refusals into BudgetExhausted if the run's remaining allowance was the limit."""
    if error.rule != "bytes":
        return error
    visit.meter.bytes += max_bytes
    if max_bytes < visit.context.settings.max_page_bytes:
        return BudgetExhausted(f"{url} is larger than the {max_bytes} bytes that are left")
    return error


def reason_to_render_at_once(visit: PageVisit) -> str | None:
    """Return the reason to render the page without fetching it first; None to fetch it."""
    context, directed = visit.context, visit.directed
    if directed.render == "always":
        return "the directive asks for it"
    if directed.render == "never" or context.browser is None:
        return None
    if directed.screenshot:
        return "a picture is asked for"
    return context.host_memory.needs_browser(host_of(visit.url)) if context.host_memory is not None else None


def render_and_read(visit: PageVisit, url: str, reason: str, *, shell: PageFacts | None = None) -> ReadPage:
    """Render the page at `url` in the browser. `shell` has the facts of its HTML as fetched, if it was fetched first.

    Raises:
        InvalidInput: the address leads to a download.
        PolicyRefused: rule `render`: there is no browser; rules `egress` and `malformed_response`, from the proxy;
            rule `robots`, for the browser's final address; and as `Browser.render`.
        PageGone, NoIndex: it may not stay in the index. Also the error that its status stands for.
        BudgetExhausted: the page is slower than the remaining allowance.
    """
    if visit.context.browser is None:
        raise PolicyRefused(
            "render",
            f"{url} needs a browser: {reason}",
            "pip install 'sluice[crawl]' and a Chromium; see `sluice doctor`",
        )
    visit.note("browser", reason)
    before_ms, rendered = visit.meter.milliseconds, _rendered(visit, visit.context.browser, url)
    headers = {name.lower(): value for name, value in rendered.headers.items()}
    _raise_proxy_answer(headers, rendered.final_url)
    visit.note("answer", f"{rendered.status}, {len(rendered.html)} characters at {rendered.final_url}")
    visit.keep_pace(rendered.final_url, rendered.status, headers.get("retry-after"))
    final_url = normalise_url(rendered.final_url, field="final_url")
    if final_url != url:  # robots.txt must allow the final address, however reached
        visit.context.robots.check(final_url, visit.deadline)
    visit.require_page(final_url, rendered.status, headers.get("retry-after"), rendered=True)
    page = CrawledPage(
        body=rendered.html.encode("utf-8", "replace"),
        url=visit.url,
        final_url=final_url,
        status=rendered.status,
        media_type=HTML,
        charset="utf-8",
        fetched_at=visit.context.clock(),
        elapsed_ms=visit.meter.milliseconds - before_ms,
        directed=visit.directed,
        rendered=True,
        render_reason=reason,
        etag=headers.get("etag"),
        last_modified=headers.get("last-modified"),
        screenshot=rendered.screenshot,
    )
    read = visit.read(page, rendered.html, headers.get("x-robots-tag"))
    if shell is not None:
        visit.learn(final_url, was_shell=True, helped=browser_helped(shell, read.facts))
    return read


def _rendered(visit: PageVisit, browser: Browser, url: str) -> Rendered:
    """Render the page within the remaining allowance. The browser's own failures do not count against the host."""
    settings, meter = visit.context.settings, visit.meter
    most_seconds = meter.seconds_left(settings.page_timeout_seconds)
    most_bytes = meter.bytes_left(settings.max_page_bytes)
    attempt = visit.attempt()
    attempt.pre_request(url)
    bytes_before, started = visit.egress_grant.report().bytes_in, visit.context.clock()
    waited_before = attempt.waited_seconds
    try:
        rendered = browser.render(
            url,
            proxy_url=visit.egress_grant.url,
            user_agent=settings.agent,
            limits=RenderLimits(
                timeout_seconds=most_seconds,
                max_bytes=most_bytes,
                within_seconds=visit.deadline.left_seconds(),
                max_nodes=settings.max_nodes,
                max_requests=settings.max_requests_per_page,
            ),
            pre_request=attempt.pre_request,
            screenshot=visit.directed.screenshot,
            run_id=visit.run_id,
        )
    except TimedOut as error:
        if not visit.deadline.has_passed:
            visit.require_patience(error, url, most_seconds)
        raise
    finally:
        waited = attempt.waited_seconds - waited_before
        meter.took(visit.seconds_since(started) - waited, at_most=most_seconds)
        visit.count_received(url, visit.egress_grant.report().bytes_in - bytes_before)
    attempt.ended(failed=rendered.status >= 500)
    return rendered


def _raise_proxy_answer(headers: Mapping[str, str], url: str) -> None:
    """Raise the error with which the egress proxy answered in place of the site; such answers are marked by headers."""
    if rule := headers.get("x-sluice-refused"):
        raise PolicyRefused("egress", f"{rule}: {url}", EGRESS_REMEDY)
    if (failed := headers.get("x-sluice-failed", "")).startswith(MALFORMED_RESPONSE):
        raise malformed_response(host_of(url), failed.partition(": ")[2])
