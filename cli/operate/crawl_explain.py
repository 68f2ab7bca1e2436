"""`sluice crawl URL --explain`: one page is asked for, and each decision about it is printed. Nothing is recorded."""

from __future__ import annotations

import typer

from sluice.cli.output import console, marked, print_json
from sluice.contracts.errors import SluiceError
from sluice.contracts.ingest import CrawlDirected, Render
from sluice.ingest.crawl.crawled_page import CrawledPage, Note
from sluice.ingest.crawl.crawler import UnchangedPage
from sluice.ingest.crawl.page_visit import BudgetMeter
from sluice.ingest.extract.extract import extract
from sluice.ingest.settings import CrawlSettings
from sluice.ingest.url import normalise_url
from sluice.workers.context import Context

LINKS_SHOWN = 20
"""Links and traps that are printed one by one; `--json` has all."""


def explain(context: Context, corpus: str, url: str, render: Render | None, *, screenshot: bool, as_json: bool) -> None:
    """Print how `url` would be crawled. Its links are listed and not followed.

    Raises:
        typer.Exit: with 1, where the page cannot be had.
    """
    decisions: list[tuple[str, str]] = []

    def note(about: str, what: str) -> None:
        decisions.append((about, what))

    _note_withdrawn(context, corpus, url, note)
    page, ended = _crawled(
        context, corpus, _directive(context.settings.crawl, url, render, screenshot), note_to=decisions
    )
    if page is not None:
        note("page", _described(page))
    if as_json:
        rows = [{"about": about, "what": what} for about, what in decisions]
        print_json({"url": url, "ended": ended or "crawled", "decisions": rows})
    else:
        _print(decisions)
    if ended:
        raise typer.Exit(1)


def _note_withdrawn(context: Context, corpus: str, url: str, note: Note) -> None:
    """What became of the page earlier, where it was in the index and had to leave it."""
    known = context.page_memory.withdrawn(corpus, normalise_url(url))
    if known is not None:
        why = known.by.replace("_", " ")
        note("memory", f"withdrawn from the index at {known.withdrawn_at:%Y-%m-%d %H:%M} UTC: {why}")


def _directive(settings: CrawlSettings, url: str, render: Render | None, screenshot: bool) -> CrawlDirected:
    # Two pages and one level, so that its links are ranked as a run would rank them.
    return CrawlDirected(
        url=url,
        max_depth=1,
        page_allowance=2,
        byte_allowance=settings.run_bytes,
        render=render or settings.render,
        screenshot=screenshot,
    )


def _crawled(
    context: Context, corpus: str, directed: CrawlDirected, note_to: list[tuple[str, str]]
) -> tuple[CrawledPage | UnchangedPage | None, str]:
    """The page, or None and why there is none."""
    meter, ended = BudgetMeter(directed.allowance), ""
    page: CrawledPage | UnchangedPage | None = None
    try:
        page = context.crawler.crawl(
            directed, meter, corpus=corpus, run_id="explain", note=lambda about, what: note_to.append((about, what))
        )
    except SluiceError as error:
        ended = error.code
        note_to.append(("ended", f"{error.code}: {error}"))
    if meter.egress is not None:
        report = meter.egress
        passed = f"{report.requests} requests to {', '.join(report.hosts) or 'no host'}, {report.bytes_in} bytes in"
        note_to.append(("egress", passed))
        for refusal, count in report.refusals:
            told = f"{refusal.host}:{refusal.port} refused by rule {refusal.rule}, {count} times: {refusal.detail}"
            note_to.append(("egress", told))
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
        console.print(f"[bold]{about:<{width}}[/]  {marked(what)}", highlight=False, soft_wrap=True)
    for about, count in shown.items():
        if about in ("link", "trap") and count > LINKS_SHOWN:
            console.print(f"[dim]and {count - LINKS_SHOWN} more: {about}[/]")
