"""Asking again for the pages of a corpus that are due: an ordinary crawl of each, without its links.

A page that is as it was costs its site a conditional request; one that changed is chunked anew, and of its chunks only
those are embedded whose text is new; one that is gone is withdrawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from sluice.contracts.gate import Limits
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageUnchanged, PageWithdrawn
from sluice.ingest.freshness.due import DuePage, choose_due, shortest_expected
from sluice.ledger.ledger import Ledger
from sluice.workers.context import Context
from sluice.workers.service.service import Service


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What a run found: how many pages it asked for, and how they were."""

    run_id: str
    asked: int = 0
    unchanged: int = 0
    read: int = 0
    withdrawn: int = 0
    tokens: int = 0
    """That were embedded."""


def due_pages(context: Context, corpus: str, now: datetime) -> list[DuePage]:
    """The pages of the corpus that are due, the longest overdue first, as many as are asked for at a time."""
    settings = context.settings.freshness
    watched = context.page_memory.watched(corpus, now, shortest_expected(settings))
    return choose_due(watched, settings, now, settings.max_pages)


def recheck(context: Context, corpus: str, now: datetime | None = None) -> str | None:
    """Record a run that asks again for the pages that are due; its id, or None where none is due.

    Raises:
        PolicyRefused: crawling is off.
        BudgetExhausted: the day leaves no room for a page.
        Overloaded: the crawl's queue is full.
    """
    due = due_pages(context, corpus, now or datetime.now(UTC))
    if not due:
        return None
    believing_sitemap = frozenset(one.page.url for one in due if one.by_sitemap)
    urls = [one.page.url for one in due]
    return Service(context).crawl(corpus, urls, Limits(max_depth=0), by_sitemap=believing_sitemap).run_id


def rechecked(ledger: Ledger, run_id: str) -> Rechecked:
    """What a recheck has found so far."""
    kinds = (CrawlDirected, PageUnchanged, PageCrawled, PageWithdrawn)
    found = Counter({kind.kind: len(ledger.events_of_kind(run_id, kind.kind)) for kind in kinds})
    return Rechecked(
        run_id,
        asked=found[CrawlDirected.kind],
        unchanged=found[PageUnchanged.kind],
        read=found[PageCrawled.kind],
        withdrawn=found[PageWithdrawn.kind],
        tokens=ledger.run(run_id).spend.tokens,
    )
