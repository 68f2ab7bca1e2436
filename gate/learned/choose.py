"""From the probability that the corpus answers to a plan.

What the profile says of talk and of a session that suffices decides as it does without a model. The rest of the
profile's score moves the probability: age lowers it by its share, and what relieves raises it. What is worth the
profile's `search` in the score is worth one half here:

    usable = probability x (1 - (staleness and newer_year in the score) / (2 x search))
                         + (relief in the score) / (2 x search)                              within [0, 1]
"""

from __future__ import annotations

import math

from sluice.contracts.plan import Plan
from sluice.gate.learned.model import Thresholds
from sluice.gate.profile import Profile
from sluice.gate.signals import Signals

DECIMALS = 6
LEAST_SEARCH = 0.01
"""Stands for a profile's `search` that is lower: such a profile always searches."""
_AGE = ("staleness", "newer_year")
_RELIEF = ("self_contained", "session_sufficiency")


def choose_learned_plan(probability: float, thresholds: Thresholds, signals: Signals, profile: Profile) -> Plan:
    """The plan that `probability` and the other signals ask for, before any request, rule or ceiling is looked at."""
    if signals.talk is not None:
        return Plan.RETRIEVE if signals.talk == "assistant" else Plan.SKIP
    if signals["session_sufficiency"] >= profile.thresholds.skip and not signals.kind.time_sensitive:
        return Plan.SKIP
    usable = usable_probability(probability, signals, profile)
    if usable < thresholds.full_loop_below:
        return Plan.FULL_LOOP
    return Plan.SEARCH if usable < thresholds.search_below else Plan.RETRIEVE


def usable_probability(probability: float, signals: Signals, profile: Profile) -> float:
    """How probable it is that what the corpus answers is of use: not too old, or not needed; to six places."""
    whole = 2 * max(LEAST_SEARCH, profile.thresholds.search)
    age = math.fsum(getattr(profile.weights, name) * signals[name] for name in _AGE) / whole
    relief = -math.fsum(getattr(profile.weights, name) * signals[name] for name in _RELIEF) / whole
    return round(min(1.0, max(0.0, probability * max(0.0, 1 - age) + relief)), DECIMALS)
