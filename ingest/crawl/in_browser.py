"""A page shown by the browser: when that is wanted, and one rendering within what is left of the allowance."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.contracts.errors import PolicyRefused, TimedOut
from sluice.ingest.browser.page import RenderLimits
from sluice.ingest.crawl.crawled_page import CrawledPage, RenderedPage, Renderer
from sluice.ingest.crawl.page_scan import PageFacts, browser_helped
from sluice.ingest.crawl.page_visit import PageVisit, ReadPage
from sluice.ingest.extract.media_types import HTML
from sluice.ingest.http.fetch import EGRESS_REMEDY, MALFORMED_RESPONSE, malformed_response
from sluice.ingest.url import host_of, normalise_url


def reason_to_render_at_once(visit: PageVisit) -> str | None:
    """Why the page should go to the browser without being fetched first; None where it is fetched."""
    context, directed = visit.context, visit.directed
    if directed.render == "always":
        return "the directive asks for it"
    if directed.render == "never" or context.browser is None:
        return None
    if directed.screenshot:
        return "a picture is asked for"
    return context.host_memory.needs_browser(host_of(visit.url)) if context.host_memory is not None else None


def render_and_read(visit: PageVisit, url: str, reason: str, *, shell: PageFacts | None = None) -> ReadPage:
    """The page at `url` as the browser shows it. `shell` is what it was without one, where it was fetched first.

    Raises:
        InvalidInput: the address leads to a download.
        PolicyRefused: rule `render`: there is no browser; rules `egress` and `malformed_response`, as the proxy says;
            rule `robots`, of where the browser ended; and as `Renderer.render`.
        PageGone, NoIndex: it may not stay in the index. Also what its status means.
        BudgetExhausted: the page is slower than what is left.
    """
    if visit.context.browser is None:
        raise PolicyRefused("render", f"{url} needs a browser: {reason}", "a Chromium; see `sluice doctor`")
    visit.note("browser", reason)
    before_ms, rendered = visit.meter.milliseconds, _rendered(visit, visit.context.browser, url)
    headers = {name.lower(): value for name, value in rendered.headers.items()}
    _raise_proxy_answer(headers, rendered.final_url)
    visit.note("answer", f"{rendered.status}, {len(rendered.html)} characters at {rendered.final_url}")
    visit.keep_pace(rendered.final_url, rendered.status, headers.get("retry-after"))
    final_url = _where_it_ended(visit, url, rendered.final_url)
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


def _rendered(visit: PageVisit, browser: Renderer, url: str) -> RenderedPage:
    """The page in the browser, within what is left. A browser's own trouble says nothing about the host."""
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
    """What the egress proxy answered in the place of the site, by its marks."""
    if rule := headers.get("x-sluice-refused"):
        raise PolicyRefused("egress", f"{rule}: {url}", EGRESS_REMEDY)
    if (failed := headers.get("x-sluice-failed", "")).startswith(MALFORMED_RESPONSE):
        raise malformed_response(host_of(url), failed.partition(": ")[2])


def _where_it_ended(visit: PageVisit, url: str, final_url: str) -> str:
    """The address of the document in canonical form, which robots.txt must allow however the browser came there."""
    ended = normalise_url(final_url, field="final_url")
    if ended != url:
        visit.context.robots.check(ended, visit.deadline)
    return ended
