"""Folds the latest runs into windows, for the dashboards and for self-defence.

Runs are folded in the order of their decisions, each once, some time after the decision (`Windowing.grace_seconds`), so
that late feedback is included. A profile's window closes with its N-th judged run, or at the next multiple of its
length on the clock, whichever comes first. So windows follow from the ledger alone: an evaluator that starts at such a
time computes the same ones. A window keeps totals for each plan, a profile its latest windows: memory is bounded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.run_totals import RunTotals, Summary, summarise

GRACE_SECONDS = 3_600.0
"""Time after a run's decision during which feedback counts."""


@dataclass(frozen=True, slots=True)
class Windowing:
    """Closing of windows, grace for late feedback, and number of windows kept per profile."""

    runs: int = 200
    """Judged runs that close a window."""
    seconds: float = 86_400.0
    """Longest window, however few of its runs were judged; windows end at multiples of it from 00:00 UTC."""
    grace_seconds: float = GRACE_SECONDS
    kept: int = 32


@dataclass(slots=True)
class Window:
    """Runs of one profile that were decided from `began_at` to before `ends_at` (seconds since 1970).

    `ends_at` is when the window closes by the clock; for a closed one, the moment after its last run's decision or the
    clock's. All moments are times of decisions.
    """

    profile: str
    began_at: float
    ends_at: float
    is_closed: bool = False
    plans: dict[Plan, RunTotals] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """Return the number of judged runs of all plans."""
        return sum(totals.satisfaction.count for totals in self.plans.values())

    @property
    def runs(self) -> int:
        """Return the number of runs of all plans."""
        return sum(totals.runs for totals in self.plans.values())


class Evaluator:
    """The windows of every profile. Pure: its only input is `fold`, and it reads no clock."""

    def __init__(self, windowing: Windowing | None = None) -> None:
        self.windowing = windowing or Windowing()
        self._windows: dict[str, deque[Window]] = {}
        self.folded = 0

    def fold(self, runs: Iterable[RunOutcome]) -> None:
        """Count runs, in the order of their decisions, each once; a late run counts in the open window.

        Feedback that came more than the grace after the decision is ignored, or a restart would compute other windows.
        """
        grace = self.windowing.grace_seconds
        for run in runs:
            moment = run.decided_at.timestamp()
            window = self._window_at(run.profile, moment)
            is_judged = bool(run.signals) and run.judged_at is not None and run.judged_at.timestamp() <= moment + grace
            window.plans.setdefault(run.plan, RunTotals()).add(run, judged=is_judged)
            self.folded += 1
            if is_judged and window.judged >= self.windowing.runs:
                window.is_closed = True
                window.ends_at = max(moment, window.began_at)

    def close_until(self, moment: float) -> None:
        """Close the windows that end by `moment`, as if a run had been decided then."""
        for windows in self._windows.values():
            windows[-1].is_closed = windows[-1].is_closed or moment >= windows[-1].ends_at

    def profiles(self) -> tuple[str, ...]:
        """Return the profiles that have decided a run, in alphabetical order."""
        return tuple(sorted(self._windows))

    def windows(self, profile: str) -> tuple[Window, ...]:
        """Return the kept windows of a profile, oldest first; the last one may be open."""
        return tuple(self._windows.get(profile, ()))

    def _window_at(self, profile: str, moment: float) -> Window:
        windows = self._windows.setdefault(profile, deque(maxlen=self.windowing.kept))
        if windows and moment >= windows[-1].ends_at:
            windows[-1].is_closed = True
        if not windows or windows[-1].is_closed:
            began_at = max(moment, windows[-1].ends_at) if windows else moment
            length = self.windowing.seconds
            windows.append(Window(profile, began_at, (math.floor(began_at / length) + 1) * length))
        return windows[-1]


def summarise_windows(windows: Iterable[Window], plan: Plan | None = None) -> Summary:
    """Return the figures of one plan's runs over all windows; of all plans with None."""
    total = RunTotals()
    for window in windows:
        for one, totals in window.plans.items():
            if plan in (None, one):
                total.merge(totals)
    return summarise(total)
