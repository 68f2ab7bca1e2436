"""Feeds the evaluator from the ledger: each refresh reads the runs that have come of age since the last."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sluice.evaluation.evaluator import Evaluator, Windowing
from sluice.ledger.learning.outcomes import Place

if TYPE_CHECKING:
    from sluice.ledger.learning.outcomes import Outcomes

RUNS_AT_ONCE = 5_000
"""Of one refresh: a fifth of a second. After a start the past is read in as many as it takes."""


class EvaluationFeed:
    """An evaluator, and how far it has read. It begins so far back that no window that is kept is missing."""

    def __init__(self, outcomes: Outcomes, windowing: Windowing, clock: Callable[[], float] = time.time) -> None:
        self.evaluator = Evaluator(windowing)
        self._outcomes = outcomes
        self._clock = clock
        kept = windowing.kept * windowing.seconds
        self._place = Place(max(0.0, math.floor(clock() / windowing.seconds) * windowing.seconds - kept))

    @property
    def behind_seconds(self) -> float:
        """How much of the past is still to be read."""
        return max(0.0, self._horizon - self._place.moment)

    @property
    def _horizon(self) -> float:
        return self._clock() - self.evaluator.windowing.grace_seconds

    def refresh(self, most: int = RUNS_AT_ONCE) -> bool:
        """Fold at most so many runs; whether all that were decided longer ago than the grace are in.

        Raises:
            Unavailable: the ledger does not answer; what was read before is in.
        """
        horizon = self._horizon
        runs, self._place = self._outcomes.page(self._place, horizon, most)
        self.evaluator.fold(runs)
        if len(runs) == most:
            return False
        self._place = max(self._place, Place(horizon))
        self.evaluator.close_until(horizon)
        return True
