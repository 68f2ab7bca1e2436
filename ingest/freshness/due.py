"""When a page is due: once it is more likely than not that it changed since it was seen.

A page that changes at random moments, on average every `h / ln 2` days, is as it was after `t` days with probability
`0.5 ** (t / h)`; `h` is its half-life (Cho and Garcia-Molina, Estimating Frequency of Change, 2003, take changes for a
Poisson process too).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from contracts.known_pages import WatchedPage
from ingest.settings import FreshnessSettings
from ingest.url import host_of


class DuePage(NamedTuple):
    """A page that is due, and for how many of its half-lives it was not seen."""

    page: WatchedPage
    half_lives: float


def first_due(settings: FreshnessSettings, now: datetime) -> datetime:
    """A page that was seen since then cannot be due."""
    shortest = min((settings.half_life_days, *settings.host_half_life_days.values()))
    return now - timedelta(days=shortest)


def choose_due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime, most: int) -> list[DuePage]:
    """At most `most` of the pages that are due, the longest overdue first."""
    return heapq.nsmallest(most, _due(pages, settings, now), key=lambda due: (-due.half_lives, due.page.url))


def _due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime) -> Iterable[DuePage]:
    for page in pages:
        age_days = (now - page.fetched_at) / timedelta(days=1)
        half_lives = age_days / settings.half_life_of(host_of(page.url))
        if half_lives >= 1:
            yield DuePage(page, half_lives)
