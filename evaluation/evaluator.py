"""How the latest runs did, in windows: what the gate steps back by, what a rollout and a dashboard read.

Runs are folded in the order of their decisions, each once, a while after its decision (`Windowing.grace_seconds`), so
that late feedback is in it. A profile's window closes with its N-th judged run, or at the next mark of the clock that
is a multiple of its length, whichever comes first. So the windows follow from the ledger alone: an evaluator that
starts anew at such a mark has the same ones.

A window keeps totals for each way in which runs of the profile were decided (`Group`); a profile keeps its latest
windows. So memory is bounded, however many runs there are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sluice.contracts.learning.control import Arm
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.run_totals import RunTotals, Summary, summarise

MOST_GROUPS = 128
"""Of one window; runs of further ones are counted in one group of their plan alone."""


@dataclass(frozen=True, slots=True)
class Windowing:
    """When a window closes, when it says too little, and how many are kept.

    `counts_judged`: a window closes at `runs` judged runs, else at `runs` runs of any kind.
    """

    runs: int = 200
    seconds: float = 86_400.0
    least_judged: int = 50
    grace_seconds: float = 3_600.0
    kept: int = 32
    counts_judged: bool = True


class Group(NamedTuple):
    """One way in which runs of a profile were decided."""

    plan: Plan
    config_hash: str
    model_version: str | None
    arm: Arm | None
    flags: str
    """The features that were off, in order."""
    is_trickle: bool
    is_stepped_back: bool


@dataclass(slots=True)
class Window:
    """Runs of one profile that were decided from `began_at` to before `ends_at` (seconds since 1970).

    `ends_at` is when the window closes by the clock; of one that is closed, the moment after its last run's decision
    or the clock's. Moments are of decisions.
    """

    profile: str
    began_at: float
    ends_at: float
    is_closed: bool = False
    groups: dict[Group, RunTotals] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """Judged runs of all groups."""
        return sum(totals.satisfaction.count for totals in self.groups.values())

    @property
    def runs(self) -> int:
        """Runs of all groups."""
        return sum(totals.runs for totals in self.groups.values())

    def summary(self, where: Callable[[Group], bool] | None = None) -> Summary:
        """The figures of the groups that `where` holds for; of all without it."""
        return summarise(merge_groups([self], where))


class Evaluator:
    """The windows of every profile. Pure: what it knows it was told by `fold`, and it reads no clock."""

    def __init__(self, windowing: Windowing | None = None) -> None:
        self.windowing = windowing or Windowing()
        self._windows: dict[str, deque[Window]] = {}
        self._counted: dict[str, int] = {}
        self.folded = 0

    def fold(self, runs: Iterable[RunOutcome]) -> None:
        """Count runs, in the order of their decisions, each once; a run that comes late counts in the open window.

        Feedback that came more than the grace after the decision does not count, or a restart would show other windows.
        """
        grace = self.windowing.grace_seconds
        for run in runs:
            moment = run.decided_at.timestamp()
            window = self._window_at(run.profile, moment)
            is_judged = bool(run.signals) and run.judged_at is not None and run.judged_at.timestamp() <= moment + grace
            group = group_of(run)
            totals = window.groups.get(group)
            if totals is None:
                totals = window.groups.setdefault(_bounded(group, len(window.groups)), RunTotals())
            totals.add(run, judged=is_judged)
            self.folded += 1
            if is_judged or not self.windowing.counts_judged:
                self._count(window, moment)

    def close_until(self, moment: float) -> None:
        """Close the windows whose time has come at `moment`, as if a run had been decided then."""
        for windows in self._windows.values():
            window = windows[-1]
            if not window.is_closed and moment >= window.ends_at:
                window.is_closed = True

    def profiles(self) -> tuple[str, ...]:
        """Those that runs were decided by."""
        return tuple(sorted(self._windows))

    def windows(self, profile: str) -> tuple[Window, ...]:
        """The closed windows of a profile that are kept, oldest first."""
        return tuple(window for window in self._windows.get(profile, ()) if window.is_closed)

    def open_window(self, profile: str) -> Window | None:
        """The window that runs are counted in now; None before the next run begins one."""
        windows = self._windows.get(profile)
        return windows[-1] if windows and not windows[-1].is_closed else None

    def is_void(self, window: Window) -> bool:
        """Whether too few of its runs were judged to say anything of satisfaction."""
        return window.judged < self.windowing.least_judged

    def all_windows(self, profile: str | None = None) -> Iterator[Window]:
        """Every window that is kept, closed or open, of one profile or of all."""
        for name in self.profiles() if profile is None else (profile,):
            yield from self._windows.get(name, ())

    def _window_at(self, profile: str, moment: float) -> Window:
        windows = self._windows.setdefault(profile, deque(maxlen=self.windowing.kept))
        if windows and not windows[-1].is_closed and moment >= windows[-1].ends_at:
            windows[-1].is_closed = True
        if not windows or windows[-1].is_closed:
            began_at = max(moment, windows[-1].ends_at) if windows else moment
            windows.append(Window(profile, began_at, self._next_mark(began_at)))
            self._counted[profile] = 0
        return windows[-1]

    def _next_mark(self, moment: float) -> float:
        seconds = self.windowing.seconds
        return (math.floor(moment / seconds) + 1) * seconds

    def _count(self, window: Window, moment: float) -> None:
        self._counted[window.profile] += 1
        if self._counted[window.profile] >= self.windowing.runs:
            window.is_closed = True
            window.ends_at = max(moment, window.began_at)


def group_of(run: RunOutcome) -> Group:
    """How the run was decided."""
    return Group(run.plan, run.config_hash, run.model_version, run.arm, run.flags, run.is_trickle, run.is_stepped_back)


def merge_groups(windows: Iterable[Window], where: Callable[[Group], bool] | None = None) -> RunTotals:
    """The runs of all groups that `where` holds for (of all without it), over all windows."""
    total = RunTotals()
    for window in windows:
        for group, totals in window.groups.items():
            if where is None or where(group):
                total.merge(totals)
    return total


def _bounded(group: Group, known: int) -> Group:
    return group if known < MOST_GROUPS else Group(group.plan, "", None, None, "", False, False)
