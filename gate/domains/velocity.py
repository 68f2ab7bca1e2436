"""Velocity: how much more is published about the question's entity now than before.

A spike (a launch, a scandal) means that the corpus ages faster than its newest hit tells, so it speaks for going
outside. Only dates of publication count: the day on which a corpus was filled is no event in the world.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from sluice.contracts.profiles.measures import MentionVelocity

RECENT_DAYS = 7
EARLIER_DAYS = 28
LEAST_RECENT = 3
"""Documents of the last days below which nothing is a spike: two reports of one event are no chatter."""
DOUBLINGS_OF_A_SPIKE = 3.0
"""At eight times the rate of before the feature is full."""
SMOOTHING = 0.5
"""Documents added to both counts, so that a first report is no infinite rise (half a count, as Jeffreys' prior)."""
DECIMALS = 6
SECONDS_PER_DAY = 86_400.0


def measure_velocity(entity: str, published: Iterable[datetime], now: datetime) -> MentionVelocity:
    """Count documents that name `entity` by their dates of publication: the last 7 days, and the 28 before them."""
    ages = [(now - date).total_seconds() / SECONDS_PER_DAY for date in published]
    return MentionVelocity(
        entity=entity,
        recent_documents=sum(age < RECENT_DAYS for age in ages),
        recent_days=RECENT_DAYS,
        earlier_documents=sum(RECENT_DAYS <= age < RECENT_DAYS + EARLIER_DAYS for age in ages),
        earlier_days=EARLIER_DAYS,
    )


def rate_velocity(velocity: MentionVelocity | None) -> tuple[float, str]:
    """The feature, from 0 (no more than before) to 1 (eight times as much), and the measurement in words."""
    if velocity is None:
        return 0.0, "the question names no brand or company"
    recent = (velocity.recent_documents + SMOOTHING) / velocity.recent_days
    earlier = (velocity.earlier_documents + SMOOTHING) / velocity.earlier_days
    told = (
        f"{velocity.entity}: {velocity.recent_documents / velocity.recent_days:.2f} documents a day in "
        f"{velocity.recent_days} days, {velocity.earlier_documents / velocity.earlier_days:.2f} in the "
        f"{velocity.earlier_days} before"
    )
    if velocity.recent_documents < LEAST_RECENT:
        return 0.0, told
    return round(min(1.0, max(0.0, math.log2(recent / earlier) / DOUBLINGS_OF_A_SPIKE)), DECIMALS), told
