"""How much a memory counts besides its relevance: by its age in iterations, its outcome, its source, how it fared.

Gains are small, so that relevance decides first: an old memory that says what was asked goes before a new one that
hardly does. Being shown in prompts is no factor.

    weight of an iteration = recency x outcome
    weight of a learning   = recency x source x observed x helped x disputed     (below 2.4)
"""

from __future__ import annotations

import math
from bisect import bisect_right
from datetime import datetime

from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.journal.feature_memory import FeatureMemory, RecordedIteration

NEWEST_GAIN = 0.25
"""What is of the last iteration counts for a quarter more than what is very old."""
HALF_LIFE_ITERATIONS = 20.0
OUTCOME_WEIGHTS = {
    IterationOutcome.SUCCESS: 1.0,
    IterationOutcome.FAILURE: 1.0,
    IterationOutcome.PARTIAL: 0.9,
    IterationOutcome.TIMEOUT: 0.8,
    IterationOutcome.RATE_LIMITED: 0.6,
}
"""What worked and what failed is both worth knowing; an iteration that was cut short knows less."""
PRIORITY_GAIN = 0.05
"""For each step from `Auto` to `OpusReviewed`."""
REVIEWED_GAIN = 0.05
DOUBLED_HITS_GAIN = 0.05
"""Each time that the count of independent observations doubles, four times at most."""
MOST_DOUBLINGS = 4
HELPED_GAIN = 0.3
"""At most, for what helped each time. What failed each time falls towards 0 instead."""
CONFLICT_WEIGHT = 0.8
"""For a learning that another one contradicts."""


def in_order(state: FeatureMemory) -> list[RecordedIteration]:
    """The iterations in the order in which they happened: numbers begin anew with a new loop, time does not."""
    return sorted(state.iterations.values(), key=lambda one: one.record.timestamp)


class Ages:
    """How many iterations happened since a moment."""

    def __init__(self, state: FeatureMemory) -> None:
        self._moments = state.moments

    def since(self, moment: datetime) -> int:
        """0 for the last iteration and for what came after it."""
        return max(0, len(self._moments) - bisect_right(self._moments, moment))


def recency(age: int) -> float:
    """From 1 + `NEWEST_GAIN` down to 1."""
    return 1.0 + NEWEST_GAIN * math.pow(2.0, -age / HALF_LIFE_ITERATIONS)


def weigh_record(one: RecordedIteration, ages: Ages) -> float:
    """The weight of an iteration."""
    return recency(ages.since(one.record.timestamp)) * OUTCOME_WEIGHTS[one.record.outcome]


def weigh_learning(learning: FeatureLearning, ages: Ages) -> float:
    """The weight of a learning."""
    source = 1.0 + PRIORITY_GAIN * learning.source.priority + REVIEWED_GAIN * learning.reviewed
    observed = 1.0 + DOUBLED_HITS_GAIN * min(MOST_DOUBLINGS, math.log2(learning.hit_count))
    rate = fared(learning)
    helped = min(rate, 1.0) + HELPED_GAIN * max(0.0, rate - 1.0)
    disputed = CONFLICT_WEIGHT if learning.conflicts_with else 1.0
    return recency(ages.since(learning.timestamp)) * source * observed * helped * disputed


def fared(learning: FeatureLearning) -> float:
    """How a learning fared where it was shown: Laplace's rule of succession, times 2.

    2 (helped + 1) / (helped + failed_again + 2) is 1 at the beginning, always below 2, and falls towards 0 where what
    the learning is about failed again and again.
    """
    return 2.0 * (learning.helped + 1) / (learning.helped + learning.failed_again + 2)
