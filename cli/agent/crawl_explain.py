"""`sluice crawl URL --explain`: fetches one page and prints each decision about it. Records nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.cli.command import Shown
from sluice.cli.output import console, marked
from sluice.contracts.ingest import Render
from sluice.contracts.operations.crawling import CrawlDecision
from sluice.workers.context import Context
from sluice.workers.service.crawling import explain_page

LINKS_SHOWN = 20
"""Most links and traps printed one by one; `--json` has all."""


def explain(context: Context, corpus: str, url: str, render: Render | None, *, screenshot: bool) -> Shown:
    """Show the crawl of `url`; exit code 1 where the page cannot be fetched. Its links are listed and not followed."""
    found = explain_page(context, corpus, url, render or context.settings.crawl.render, screenshot=screenshot)
    return Shown(
        found.model_dump(mode="json"), lambda: _print(found.decisions), exit_code=int(found.ended != "crawled")
    )


def _print(decisions: Sequence[CrawlDecision]) -> None:
    width = max((len(one.about) for one in decisions), default=0)
    shown: dict[str, int] = {}
    for one in decisions:
        shown[one.about] = shown.get(one.about, 0) + 1
        if one.about in ("link", "trap") and shown[one.about] > LINKS_SHOWN:
            continue
        console.print(f"[bold]{one.about:<{width}}[/]  {marked(one.what)}")
    for about, count in shown.items():
        if about in ("link", "trap") and count > LINKS_SHOWN:
            console.print(f"[dim]and {count - LINKS_SHOWN} more: {about}[/]")
