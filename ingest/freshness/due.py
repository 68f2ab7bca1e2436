"""Computes when a page is due: once it is more likely than not that it has changed.

A page that changes at random moments, on average every `h / ln 2` days, is unchanged after `t` days with probability
`0.5 ** (t / h)`; `h` is its half-life (Cho and Garcia-Molina, Estimating Frequency of Change, 2003, also model
changes as a Poisson process).
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sluice.contracts.ingest import WatchedPage
from sluice.ingest.settings import FreshnessSettings

_DAY = timedelta(days=1)

MOST_PRIORS = 4.0
"""Largest half-life of a page, as a multiple of the expected one: every page is checked now and then."""
SITEMAP_HALF_LIVES = 4.0
"""Half-lives for which a page's sitemap is believed: after that the page itself is requested."""


class DuePage(NamedTuple):
    """A page that is due, and its age in half-lives."""

    page: WatchedPage
    half_lives: float
    by_sitemap: bool
    """Whether its sitemap may vouch that it has not changed."""


def half_life_days(page: WatchedPage, settings: FreshnessSettings) -> float:
    """Return how many days the page is expected to stay unchanged.

    The expected half-life is the prior, and weighs as much as one change: with a rate of changes of prior
    mean `ln 2 / prior` (a Gamma distribution of shape 1), the rate after `changes` in `watched` days has the mean
    `(1 + changes) / (prior / ln 2 + watched)`, whose half-life is `(prior + ln 2 * watched) / (1 + changes)`. A page
    that answers cite is due at the target age of their profile, at the latest.
    """
    prior = settings.half_life_days
    watched = (page.fetched_at - page.watched_since) / _DAY
    learned = min((prior + math.log(2) * watched) / (1 + page.changes), MOST_PRIORS * prior)
    aims = (settings.target_age_days[name] for name in page.cited_by if name in settings.target_age_days)
    return min((learned, *aims))


def shortest_expected(settings: FreshnessSettings) -> timedelta:
    """Return the shortest half-life expected of a page without history."""
    return timedelta(days=min(settings.half_life_days, *settings.target_age_days.values()))


def choose_due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime, most: int) -> list[DuePage]:
    """Return at most `most` of the pages that are due, of each owner in turn the longest overdue."""
    of_owner: defaultdict[str | None, list[DuePage]] = defaultdict(list)
    for due in _due(pages, settings, now):
        own = of_owner[due.page.owner]
        own.append(due)
        if len(own) > 2 * most:
            own[:] = heapq.nsmallest(most, own, key=_order)
    turns = [(turn, *_order(due), due) for own in of_owner.values() for turn, due in enumerate(sorted(own, key=_order))]
    return [due for *_, due in heapq.nsmallest(most, turns, key=lambda placed: placed[:-1])]


def _order(due: DuePage) -> tuple[float, str]:
    return -due.half_lives, due.page.url


def _due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime) -> Iterable[DuePage]:
    for page in pages:
        half_life = half_life_days(page, settings)
        half_lives = (now - page.fetched_at) / _DAY / half_life
        if half_lives >= 1:
            yield DuePage(page, half_lives, (now - page.asked_at) / _DAY < SITEMAP_HALF_LIVES * half_life)
