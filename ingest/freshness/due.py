"""Computes when a page is due: once it is more likely than not that it has changed.

A page that changes at random moments, on average every `h / ln 2` days, is as it was after `t` days with probability
`0.5 ** (t / h)`; `h` is its half-life (Cho and Garcia-Molina, Estimating Frequency of Change, 2003, take changes for a
Poisson process too).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sluice.contracts.ingest import WatchedPage
from sluice.ingest.settings import FreshnessSettings

_DAY = timedelta(days=1)

MOST_PRIORS = 4.0
"""Times the expected half-life that a page's own may come to: every page is asked for now and then."""
SITEMAP_HALF_LIVES = 4.0
"""How long a page's sitemap is believed: then its site is asked for the page itself, whatever the sitemap says."""


class DuePage(NamedTuple):
    """A page that is due, and for how many of its half-lives it was not seen."""

    page: WatchedPage
    half_lives: float
    by_sitemap: bool
    """Whether its sitemap may say that it has not changed."""


def half_life_days(page: WatchedPage, settings: FreshnessSettings) -> float:
    """How many days the page is expected to stay as it is.

    The expected half-life is the prior, and weighs as much as one change: with a rate of changes of prior
    mean `ln 2 / prior` (a Gamma distribution of shape 1), the rate after `changes` in `watched` days has the mean
    `(1 + changes) / (prior / ln 2 + watched)`, whose half-life is `(prior + ln 2 * watched) / (1 + changes)`. What an
    answer cites is due by the age that its profile aims at, at the latest.
    """
    prior = settings.half_life_days
    watched = (page.fetched_at - page.watched_since) / _DAY
    learned = min((prior + math.log(2) * watched) / (1 + page.changes), MOST_PRIORS * prior)
    aims = (settings.target_age_days[name] for name in page.cited_by if name in settings.target_age_days)
    return min((learned, *aims))


def shortest_expected(settings: FreshnessSettings) -> timedelta:
    """The shortest half-life that is expected of a page of which nothing is known."""
    return timedelta(days=min(settings.half_life_days, *settings.target_age_days.values()))


def choose_due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime, most: int) -> list[DuePage]:
    """At most `most` of the pages that are due, the longest overdue first."""
    return heapq.nsmallest(most, _due(pages, settings, now), key=lambda due: (-due.half_lives, due.page.url))


def _due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime) -> Iterable[DuePage]:
    for page in pages:
        half_life = half_life_days(page, settings)
        half_lives = (now - page.fetched_at) / _DAY / half_life
        if half_lives >= 1:
            yield DuePage(page, half_lives, (now - page.asked_at) / _DAY < SITEMAP_HALF_LIVES * half_life)
