"""One page on its way: see `ingest.crawl.crawler` for the steps. What every page's crawl works with is a
`CrawlContext`."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from contracts.errors import (
    BudgetExhausted,
    InvalidInput,
    Overloaded,
    PolicyRefused,
    TimedOut,
    Unavailable,
)
from contracts.hosts import HostCounts
from contracts.ingest import CrawlDirected
from contracts.known_pages import PageLink, PageMemory, RememberedPage
from ingest.browser.page import RenderLimits
from ingest.cancel_check import CancelCheck, never_cancelled
from ingest.circuit_breaker import CircuitOpen, HostBreakers
from ingest.crawl.budget_meter import BudgetMeter
from ingest.crawl.crawled_page import CrawledPage, Egress, EgressGrant, Note, RenderedPage, Renderer, UnchangedPage
from ingest.crawl.frontier import ranked
from ingest.crawl.page_scan import PageFacts, browser_helped, read_page
from ingest.crawl.sitemap import SitemapUrl
from ingest.crawl.sitemap_cache import SiteMaps
from ingest.crawl.withdrawal import GONE, NoIndex, PageGone
from ingest.deadline import Deadline
from ingest.extract.charset import decode
from ingest.extract.media_types import HTML
from ingest.http.fetch import (
    EGRESS_REMEDY,
    MALFORMED_RESPONSE,
    Fetched,
    Fetcher,
    FetchLimits,
    NotModified,
    malformed_response,
)
from ingest.politeness.host_attempt import HostAttempt
from ingest.politeness.host_rendering import HostMemory
from ingest.politeness.host_stats import HostFigures
from ingest.politeness.host_tally import HostCounters
from ingest.politeness.rate_limit import HostRateLimit
from ingest.politeness.response_verdict import judge_media_type, judge_status, retry_after_seconds
from ingest.politeness.robots import RobotsCache, product_token
from ingest.politeness.robots_meta import Directives, read_directives
from ingest.settings import CrawlSettings
from ingest.url import host_of, normalise_url

_HTML_TYPES = frozenset({HTML, "application/xhtml+xml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlContext:
    """What every page's crawl works with. `clock` gives times with their zone.

    `wanted` is called before anything is asked of a site; what it raises ends the crawl. Without a `memory` every
    page is read anew, without `hosts` nothing is learned of them, without `figures` nothing is counted.
    """

    settings: CrawlSettings
    egress: Egress
    fetcher: Fetcher
    robots: RobotsCache
    turns: HostRateLimit
    breakers: HostBreakers
    browser: Renderer | None
    site_maps: SiteMaps
    clock: Callable[[], datetime]
    check_cancelled: CancelCheck = never_cancelled
    memory: PageMemory | None = None
    hosts: HostMemory | None = None
    figures: HostFigures | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """What a page says, and what it and its answer ask of robots."""

    facts: PageFacts
    directives: Directives

    @property
    def links(self) -> tuple[PageLink, ...]:
        """Where it leads, unless it asks that nobody follow."""
        return () if self.directives.nofollow else self.facts.anchors


class PageCrawl:
    """The crawl of one page. Of no use once it is done."""

    def __init__(
        self,
        context: CrawlContext,
        directed: CrawlDirected,
        meter: BudgetMeter,
        egress_grant: EgressGrant,
        corpus: str,
        run_id: str,
        note: Note,
    ) -> None:
        self._context = context
        self._settings = context.settings
        self._directed = directed
        self._meter = meter
        self._egress_grant = egress_grant
        self._corpus = corpus
        self._run_id = run_id
        self._note = note
        self._counters = HostCounters()
        self._deadline = Deadline(context.settings.page_deadline_seconds)
        self._token = product_token(context.settings.agent)
        self._url = normalise_url(directed.url)

    def page(self, url: str) -> CrawledPage | UnchangedPage:
        """What came of `url`. Raises as `Crawler.crawl` does."""
        try:
            page = self._page(url)
            self._counters.add(host_of(page.final_url), HostCounts(pages=1, rendered=int(_was_rendered(page))))
            return page
        finally:
            if self._context.figures is not None:
                self._counters.tell(self._context.figures, self._egress_grant.report(), self._context.turns)

    def _page(self, url: str) -> CrawledPage | UnchangedPage:
        if reason := self._reason_to_render_at_once(url):
            with contextlib.suppress(InvalidInput):  # a download, which HTTP alone can read
                return self._rendered_page(url, reason)
        answer = self._answer(url)
        if isinstance(answer, NotModified):
            return self._not_modified(url, answer)
        page, read = self._judged(url, answer)
        reason = read.facts.browser_reason
        if self._directed.render == "never" or reason is None:
            self._learn(page.final_url, was_shell=reason is not None, helped=None)
            return self._finished(page, read)
        if self._context.browser is None or self._meter.is_used_up:
            self._note("browser", f"would be needed, but is not to be had: {reason}")
            return self._finished(replace(page, render_reason=reason), read)
        return self._rendered_page(page.final_url, reason, shell=read.facts)

    # Over HTTP.

    def _answer(self, url: str) -> Fetched | NotModified:
        """What the site answers, whatever it is, within what is left of the allowance."""
        limits = FetchLimits(
            timeout_seconds=self._meter.seconds_left(self._settings.page_timeout_seconds),
            max_bytes=self._meter.bytes_left(self._settings.max_page_bytes),
        )
        attempt, started = self._attempt(), self._context.clock()
        known = self._known_over_http
        try:
            answer = self._context.fetcher.fetch(
                url,
                limits=limits,
                etag=known.etag if known else None,
                last_modified=known.last_modified if known else None,
                conditions_for=known.final_url if known else None,
                pre_request=attempt.pre_request,
                deadline=self._deadline,
                proxy_url=self._egress_grant.url,
            )
        except (Overloaded, CircuitOpen):
            raise  # we are busy, or asked nobody
        except TimedOut as error:
            site_seconds = self._seconds_since(started) - attempt.waited_seconds
            if not self._deadline.has_passed or site_seconds > self._deadline.seconds / 2:  # else the way took it
                self._require_patience(error, url, limits.timeout_seconds)
                attempt.ended(failed=True)
            raise
        except Unavailable:
            attempt.ended(failed=True)
            raise
        except PolicyRefused as error:
            raise self._too_large(error, url, limits.max_bytes) from error
        finally:
            self._meter.took(self._seconds_since(started) - attempt.waited_seconds, at_most=limits.timeout_seconds)
        self._meter.bytes += answer.received_bytes
        self._counters.add(host_of(answer.final_url), HostCounts(received_bytes=answer.received_bytes))
        if isinstance(answer, NotModified):
            attempt.ended(failed=False)
            return answer
        attempt.ended(failed=answer.status >= 500)
        self._note("answer", f"{answer.status} {answer.media_type} of {len(answer.body)} bytes at {answer.final_url}")
        self._keep_pace(answer.final_url, answer.status, answer.headers.get("retry-after"))
        return answer

    def _judged(self, url: str, answer: Fetched) -> tuple[CrawledPage, _Read]:
        self._require_page(answer.final_url, answer.status)
        judge_status(answer.status, answer.headers.get("retry-after"), url, self._context.clock())
        media_type = judge_media_type(answer)
        html = decode(answer.body, answer.charset) if media_type in _HTML_TYPES else ""
        read = self._read(html, answer.final_url, answer.headers.get("x-robots-tag"))
        page = CrawledPage(
            body=answer.body,
            url=url,
            final_url=answer.final_url,
            status=answer.status,
            media_type=media_type,
            charset=answer.charset,
            fetched_at=self._context.clock(),
            elapsed_ms=answer.elapsed_ms,
            directed=self._directed,
            etag=answer.headers.get("etag"),
            last_modified=answer.headers.get("last-modified"),
        )
        return page, read

    # In the browser.

    def _reason_to_render_at_once(self, url: str) -> str | None:
        if self._directed.render == "always":
            return "the directive asks for it"
        if self._directed.render == "never" or self._context.browser is None:
            return None
        if self._directed.screenshot:
            return "a picture is asked for"
        if self._context.hosts is None:
            return None
        return self._context.hosts.needs_browser(host_of(url))

    def _rendered_page(self, url: str, reason: str, *, shell: PageFacts | None = None) -> CrawledPage | UnchangedPage:
        if self._context.browser is None:
            raise PolicyRefused("render", f"{url} needs a browser: {reason}", "a Chromium; see `sluice doctor`")
        self._note("browser", reason)
        before_ms, rendered = self._meter.milliseconds, self._rendered(self._context.browser, url)
        headers = {name.lower(): value for name, value in rendered.headers.items()}
        fetched_at = self._context.clock()
        if rule := headers.get("x-sluice-refused"):  # the browser was sent on to where nobody may go
            raise PolicyRefused("egress", f"{rule}: {rendered.final_url}", EGRESS_REMEDY)
        if (failed := headers.get("x-sluice-failed", "")).startswith(MALFORMED_RESPONSE):
            raise malformed_response(host_of(rendered.final_url), failed.partition(": ")[2])
        self._note("answer", f"{rendered.status}, {len(rendered.html)} characters at {rendered.final_url}")
        self._keep_pace(rendered.final_url, rendered.status, headers.get("retry-after"))
        final_url = self._where_it_ended(url, rendered.final_url)
        self._require_page(final_url, rendered.status, rendered=True)
        judge_status(rendered.status, headers.get("retry-after"), url, fetched_at)
        read = self._read(rendered.html, final_url, headers.get("x-robots-tag"), rendered=True)
        if shell is not None:
            self._learn(final_url, was_shell=True, helped=browser_helped(shell, read.facts))
        page = CrawledPage(
            body=rendered.html.encode("utf-8", "replace"),
            url=self._url,
            final_url=final_url,
            status=rendered.status,
            media_type=HTML,
            charset="utf-8",
            fetched_at=fetched_at,
            elapsed_ms=self._meter.milliseconds - before_ms,
            directed=self._directed,
            rendered=True,
            render_reason=reason,
            etag=headers.get("etag"),
            last_modified=headers.get("last-modified"),
            screenshot=rendered.screenshot,
        )
        return self._finished(page, read)

    def _rendered(self, browser: Renderer, url: str) -> RenderedPage:
        """The page in the browser, within what is left. A browser's own trouble says nothing about the host."""
        most_seconds = self._meter.seconds_left(self._settings.page_timeout_seconds)
        most_bytes = self._meter.bytes_left(self._settings.max_page_bytes)
        attempt = self._attempt()
        attempt.pre_request(url)
        bytes_before, started = self._egress_grant.report().bytes_in, self._context.clock()
        waited_before = attempt.waited_seconds
        try:
            rendered = browser.render(
                url,
                proxy_url=self._egress_grant.url,
                user_agent=self._settings.agent,
                limits=RenderLimits(
                    timeout_seconds=most_seconds,
                    max_bytes=most_bytes,
                    within_seconds=self._deadline.left_seconds(),
                    max_nodes=self._settings.max_nodes,
                    max_requests=self._settings.max_requests_per_page,
                ),
                pre_request=attempt.pre_request,
                screenshot=self._directed.screenshot,
                run_id=self._run_id,
            )
        except TimedOut as error:
            if not self._deadline.has_passed:
                self._require_patience(error, url, most_seconds)
            raise
        finally:
            waited = attempt.waited_seconds - waited_before
            self._meter.took(self._seconds_since(started) - waited, at_most=most_seconds)
            received = self._egress_grant.report().bytes_in - bytes_before
            self._meter.bytes += received
            self._counters.add(host_of(url), HostCounts(received_bytes=received))
        attempt.ended(failed=rendered.status >= 500)
        return rendered

    def _where_it_ended(self, url: str, final_url: str) -> str:
        """What robots.txt keeps for itself is not kept by us, by whatever way the browser came there."""
        ended = normalise_url(final_url, field="final_url")
        if ended != url:
            self._context.robots.check(ended, self._deadline)
        return ended

    # What is known of the page already.

    @cached_property
    def _known(self) -> RememberedPage | None:
        """What the corpus holds of the page, where pages are asked for again only if they changed."""
        if self._context.memory is None or not self._settings.revisit:
            return None
        return self._context.memory.recall(self._corpus, self._url)

    @property
    def _known_over_http(self) -> RememberedPage | None:
        """As `_known`; a 304 says nothing of a page that its scripts fill."""
        return None if self._known is None or self._known.rendered else self._known

    def _not_modified(self, url: str, answer: NotModified) -> CrawledPage | UnchangedPage:
        known = self._known_over_http
        if known is None:
            raise Unavailable(f"{url} answers 304 to a request without conditions")
        self._note("memory", f"the site says: not modified since {known.fetched_at:%Y-%m-%d %H:%M} UTC")
        self._keep_pace(answer.final_url, 304, None)
        directives = read_directives(answer.headers.get("x-robots-tag"), (), self._token, self._context.clock())
        self._require_indexable(directives, answer.final_url)
        if directives.nosnippet and not known.nosnippet:
            self._note("memory", "but no text of it may be shown from now on: it is read anew")
            self._known = None
            return self._page(url)
        return UnchangedPage(
            url=url,
            final_url=answer.final_url,
            by="not_modified",
            fetched_at=self._context.clock(),
            elapsed_ms=answer.elapsed_ms,
            directed=self._directed,
            links=self._ways_on(() if directives.nofollow else known.links, answer.final_url),
        )

    # What the page says.

    def _read(self, html: str, url: str, robots_tag: str | None, *, rendered: bool = False) -> _Read:
        facts = read_page(html, url, self._token)
        directives = read_directives(robots_tag, facts.meta_robots, self._token, self._context.clock())
        self._require_indexable(directives, url, rendered=rendered)
        return _Read(facts, directives)

    def _require_indexable(self, directives: Directives, url: str, *, rendered: bool = False) -> None:
        told = [name for name in ("noindex", "nofollow", "noarchive", "nosnippet") if getattr(directives, name)]
        self._note("directives", ", ".join(told) or "none for us")
        if directives.noindex:
            raise NoIndex(self._url, url, rendered=rendered)

    def _require_page(self, final_url: str, status: int, *, rendered: bool = False) -> None:
        if status in GONE:
            raise PageGone(self._url, final_url, status, rendered=rendered)

    def _finished(self, page: CrawledPage, read: _Read) -> CrawledPage | UnchangedPage:
        """The page with its links; or that it is as it was."""
        links = self._ways_on(read.links, page.final_url)
        known = self._known
        if known is not None and _is_as_it_was(page, read, known):
            self._note("memory", f"the same content as at {known.fetched_at:%Y-%m-%d %H:%M} UTC")
            return UnchangedPage(
                url=page.url,
                final_url=page.final_url,
                by="same_content",
                fetched_at=page.fetched_at,
                elapsed_ms=page.elapsed_ms,
                directed=self._directed,
                links=links,
            )
        noarchive = read.directives.noarchive
        return replace(
            page,
            canonical_url=read.facts.canonical_url,
            noarchive=noarchive,
            nosnippet=read.directives.nosnippet,
            screenshot=None if noarchive else page.screenshot,
            page_links=read.links,
            links=links,
        )

    def _ways_on(self, links: tuple[PageLink, ...], page_url: str) -> tuple[str, ...]:
        """Where to go on from here, the best first; nowhere where the directive leads no further."""
        if self._directed.depth >= self._directed.max_depth or self._directed.page_allowance < 2:
            self._note("links", f"{len(links)} found, none followed: the directive ends here")
            return ()
        known = self._site_map(page_url)
        frontier = ranked(
            (*links, *map(PageLink, known)),
            page_url=page_url,
            query=self._directed.search_query,
            known=known,
            came_by=self._directed.came_by,
        )
        for left_out in frontier.left_out:
            self._note("trap", f"{left_out.url}: {left_out.trap}")
        for url in frontier.urls:
            self._note("link", url)
        return frontier.urls

    def _site_map(self, page_url: str) -> Mapping[str, SitemapUrl]:
        """What the site's own maps say, where a run begins: further in they were read already."""
        if not self._settings.sitemaps or self._directed.depth > 0 or self._meter.is_used_up:
            return {}
        attempt = self._attempt()
        found = self._context.site_maps.of(
            page_url, proxy_url=self._egress_grant.url, pre_request=attempt.pre_request, deadline=self._deadline
        )
        attempt.ended(failed=False)
        self._note("sitemap", f"{len(found)} addresses")
        return found

    # Manners.

    def _attempt(self) -> HostAttempt:
        return HostAttempt(
            self._context.breakers, self._pre_request, self._context.clock, on_failure=self._count_failure
        )

    def _pre_request(self, url: str) -> None:
        """Robots first, then the host's turn: what is disallowed costs nobody a turn."""
        context, host = self._context, host_of(url)
        context.check_cancelled()
        try:
            verdict = context.robots.check(url, self._deadline)
        except PolicyRefused as refusal:
            self._counters.add(host, HostCounts(robots_refusals=int(refusal.rule.startswith("robots"))))
            self._note(refusal.rule, refusal.problem)
            raise
        interval_seconds = context.robots.crawl_delay_seconds(url, self._deadline)
        self._note("robots", f"{url} is allowed: {verdict.line or verdict.reason}")
        left_seconds = self._deadline.left_seconds()
        waited = context.turns.wait_turn(host, interval_seconds=interval_seconds, at_most_seconds=left_seconds)
        self._note("turn", f"{host}: waited {waited:.2f} s")
        self._counters.add(host, HostCounts(requests=1, waited_seconds=waited))

    def _keep_pace(self, url: str, status: int, retry_after: str | None) -> None:
        """Slower where a site says that we are too fast, and by and by faster again."""
        host = host_of(url)
        if status in {429, 503}:
            pause = retry_after_seconds(retry_after, self._context.clock()) if retry_after else None
            self._context.turns.slow_down(host, pause)
            self._note("turn", f"{host} answers {status}: slower from now on")
        elif status < 500:
            self._context.turns.went_well(host)

    def _count_failure(self, origin: str) -> None:
        self._counters.add(host_of(origin), HostCounts(failures=1))

    def _learn(self, url: str, *, was_shell: bool, helped: bool | None) -> None:
        if self._context.hosts is not None:
            self._context.hosts.learned(host_of(url), was_shell, helped)

    # What it costs.

    def _too_large(self, error: PolicyRefused, url: str, max_bytes: int) -> PolicyRefused | BudgetExhausted:
        """A page too large for what its run has left is a matter of budget, not of policy."""
        if error.rule != "bytes":
            return error
        self._meter.bytes += max_bytes
        if max_bytes < self._settings.max_page_bytes:
            return BudgetExhausted(f"{url} is larger than the {max_bytes} bytes that are left")
        return error

    def _require_patience(self, error: TimedOut, url: str, limit_seconds: float) -> None:
        """A page too slow for what its run has left is a matter of budget, and its site is not at fault."""
        if limit_seconds < self._settings.page_timeout_seconds:
            limit_ms = limit_seconds * 1_000
            raise BudgetExhausted(f"{url} takes longer than the {limit_ms:g} milliseconds that are left") from error

    def _seconds_since(self, started: datetime) -> float:
        return (self._context.clock() - started).total_seconds()


def _is_as_it_was(page: CrawledPage, read: _Read, known: RememberedPage) -> bool:
    """Whether what the index holds of it stands: the same body in the same place, under the same conditions."""
    return (
        known.final_url == page.final_url
        and known.nosnippet == read.directives.nosnippet
        and known.body_sha256 == hashlib.sha256(page.body).hexdigest()
    )


def _was_rendered(page: CrawledPage | UnchangedPage) -> bool:
    return isinstance(page, CrawledPage) and page.rendered
