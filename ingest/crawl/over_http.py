"""A page fetched over HTTP: one exchange within what is left of the allowance, judged and read."""

from __future__ import annotations

from sluice.contracts.errors import BudgetExhausted, Overloaded, PolicyRefused, TimedOut, Unavailable
from sluice.contracts.known_pages import RememberedPage
from sluice.ingest.circuit_breaker import CircuitOpen
from sluice.ingest.crawl.crawled_page import CrawledPage
from sluice.ingest.crawl.page_visit import PageVisit, ReadPage
from sluice.ingest.extract.charset import decode
from sluice.ingest.extract.media_types import HTML
from sluice.ingest.http.fetch import Fetched, FetchLimits, NotModified
from sluice.ingest.politeness.response_verdict import judge_media_type

_HTML_TYPES = frozenset({HTML, "application/xhtml+xml"})


def fetch_page(visit: PageVisit, url: str, known: RememberedPage | None) -> Fetched | NotModified:
    """What the site answers, whatever its status; where the page is `known`, also that it was not modified.

    Raises:
        BudgetExhausted: the page is larger or slower than what is left.
        PolicyRefused, Overloaded, TimedOut, Unavailable, InvalidInput: as `Fetcher.fetch`.
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
        raise  # we are busy, or the site was not asked
    except TimedOut as error:
        site_seconds = visit.seconds_since(started) - attempt.waited_seconds
        if not visit.deadline.has_passed or site_seconds > visit.deadline.seconds / 2:  # else waiting took the time
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
    """The page that the site answers with.

    Raises:
        PageGone, NoIndex: it may not stay in the index.
        PolicyRefused: rule `media_type`: nothing here can read it. Also what its status means.
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
    """A page too large for what its run has left is a matter of budget, not of policy."""
    if error.rule != "bytes":
        return error
    visit.meter.bytes += max_bytes
    if max_bytes < visit.context.settings.max_page_bytes:
        return BudgetExhausted(f"{url} is larger than the {max_bytes} bytes that are left")
    return error
