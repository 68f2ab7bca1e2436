"""`sluice crawl URL --explain`: fetches one page and prints each decision about it. Records nothing."""

from __future__ import annotations

from sluice.cli.command import Shown
from sluice.cli.output import console, marked
from sluice.contracts.errors import SluiceError
from sluice.contracts.ingest import CrawlDirected, Render
from sluice.ingest.crawl.crawled_page import CrawledPage, Note
from sluice.ingest.crawl.crawler import UnchangedPage
from sluice.ingest.crawl.page_visit import BudgetMeter
from sluice.ingest.extract.extract import extract
from sluice.ingest.url import normalise_url
from sluice.workers.context import Context

LINKS_SHOWN = 20
"""Most links and traps printed one by one; `--json` has all."""


def explain(context: Context, corpus: str, url: str, render: Render | None, *, screenshot: bool) -> Shown:
    """Show the crawl of `url`; exit code 1 where the page cannot be fetched. Its links are listed and not followed."""
    decisions: list[tuple[str, str]] = []

    def note(about: str, what: str) -> None:
        decisions.append((about, what))

    _note_withdrawn(context, corpus, url, note)
    # Two pages and one level, so that its links are ranked as a run would rank them.
    directed = CrawlDirected(
        url=url,
        max_depth=1,
        page_allowance=2,
        byte_allowance=context.settings.crawl.run_bytes,
        render=render or context.settings.crawl.render,
        screenshot=screenshot,
    )
    page, ended = _crawled(context, corpus, directed, note)
    if page is not None:
        note("page", _described(page))
    rows = [{"about": about, "what": what} for about, what in decisions]
    value = {"url": url, "ended": ended or "crawled", "decisions": rows}
    return Shown(value, lambda: _print(decisions), exit_code=int(bool(ended)))


def _note_withdrawn(context: Context, corpus: str, url: str, note: Note) -> None:
    """Note the page's earlier withdrawal, where it was in the index and had to leave it."""
    known = context.page_memory.withdrawn(corpus, normalise_url(url))
    if known is not None:
        why = known.by.replace("_", " ")
        note("memory", f"withdrawn from the index at {known.withdrawn_at:%Y-%m-%d %H:%M} UTC: {why}")


def _crawled(
    context: Context, corpus: str, directed: CrawlDirected, note: Note
) -> tuple[CrawledPage | UnchangedPage | None, str]:
    """Return the page, or None, with the code of the error that ended the crawl."""
    meter, ended = BudgetMeter(directed.allowance), ""
    page: CrawledPage | UnchangedPage | None = None
    try:
        page = context.crawler.crawl(directed, meter, corpus=corpus, run_id="explain", note=note)
    except SluiceError as error:
        ended = error.code
        note("ended", f"{error.code}: {error}")
    if (report := meter.egress) is not None:
        asked = f"{report.requests} requests to {', '.join(report.hosts) or 'no host'}"
        note("egress", f"{asked}, {report.bytes_in} bytes in")
        for one, count in report.refusals:
            note("egress", f"{one.host}:{one.port} refused by rule {one.rule}, {count} times: {one.detail}")
    return page, ended


def _described(page: CrawledPage | UnchangedPage) -> str:
    if isinstance(page, UnchangedPage):
        return f"unchanged ({page.by.replace('_', ' ')}); nothing would be read again"
    try:
        found = extract(page.body, page.media_type, charset=page.charset, url=page.final_url)
    except SluiceError as error:
        return f"cannot be read: {error}"
    title = f"“{found.title}”" if found.title else "no title"
    picture = f", a picture of {len(page.screenshot)} bytes" if page.screenshot else ""
    return f"{title}, {len(found.text)} characters as {found.form}, confidence {found.confidence:.2f}{picture}"


def _print(decisions: list[tuple[str, str]]) -> None:
    width = max((len(about) for about, _ in decisions), default=0)
    shown: dict[str, int] = {}
    for about, what in decisions:
        shown[about] = shown.get(about, 0) + 1
        if about in ("link", "trap") and shown[about] > LINKS_SHOWN:
            continue
        console.print(f"[bold]{about:<{width}}[/]  {marked(what)}")
    for about, count in shown.items():
        if about in ("link", "trap") and count > LINKS_SHOWN:
            console.print(f"[dim]and {count - LINKS_SHOWN} more: {about}[/]")
