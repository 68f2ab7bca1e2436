"""Feeds the evaluator from the ledger: each refresh reads the runs that became old enough since the last."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from sluice.evaluation.evaluator import Evaluator, Windowing
from sluice.ledger.learning.outcomes import Outcomes, Place

RUNS_AT_ONCE = 5_000
"""Runs of one refresh: a fifth of a second. After a start, the past takes as many refreshes as it needs."""


class EvaluationFeed:
    """An evaluator and its position in the runs. It begins far enough back to fill every window that is kept."""

    def __init__(self, outcomes: Outcomes, windowing: Windowing, clock: Callable[[], float] = time.time) -> None:
        self.evaluator = Evaluator(windowing)
        self._outcomes = outcomes
        self._clock = clock
        kept = windowing.kept * windowing.seconds
        self._place = Place(max(0.0, math.floor(clock() / windowing.seconds) * windowing.seconds - kept))

    @property
    def behind_seconds(self) -> float:
        """Seconds of the past that are still to be read."""
        return max(0.0, self._horizon - self._place.moment)

    @property
    def _horizon(self) -> float:
        return self._clock() - self.evaluator.windowing.grace_seconds

    def refresh(self, most: int = RUNS_AT_ONCE) -> bool:
        """Fold at most `most` runs; return whether all runs decided before the grace period are folded.

        Raises:
            Unavailable: the ledger does not answer; runs read before are folded.
        """
        horizon = self._horizon
        runs, self._place = self._outcomes.page(self._place, horizon, most)
        self.evaluator.fold(runs)
        if len(runs) == most:
            return False
        self._place = max(self._place, Place(horizon))
        self.evaluator.close_until(horizon)
        return True
