"""Windows of runs: what one defence looks at, at most a hundred runs at a time.

A run belongs to the window of its decision. A window closes when it is full, or when it spans too long; what it then
holds is void where it is too little. Runs that a step back steered are not looked at at all: while the gate steps
back, the windows hold the trickle alone.
"""

from __future__ import annotations

from sluice.contracts.base import Value
from sluice.contracts.learning.control import DefenceName
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan

FULL = 100
"""Runs of a window while the gate does as it is configured. At a true satisfaction of 0.72 two windows in a row fall
under 0.7, with the upper end of their interval, once in 25,000 pairs."""
LEAST = 50
"""Runs without which a window says nothing; and those of a window while the gate steps back, as the trickle is thin."""
LONGEST_SECONDS = 30 * 86_400.0
"""How long a window may span: a trickle of two judged runs a day fills one within it."""


class Window(Value):
    """An open window. `values` are what was measured of each run, `ages` how old its text would be without a crawl."""

    began_at: float | None = None
    values: tuple[float, ...] = ()
    ages: tuple[float, ...] = ()


EMPTY = Window()


def measure(name: DefenceName, run: RunOutcome) -> tuple[float, float] | None:
    """What the defence reads of a run, and the age of the text that it would cite without its crawl; None: nothing.

    Satisfaction in [0, 1] of a judged run; the gain in freshness, in seconds, of one that went outside; the
    milliseconds of one that crawled.
    """
    match name:
        case "satisfaction":
            return None if run.satisfaction is None else (run.satisfaction, 0.0)
        case "freshness":
            gain, age = run.freshness_gain_seconds, run.cited_age_without_crawl_seconds
            went_out = run.plan in (Plan.SEARCH, Plan.FULL_LOOP)
            return (gain, age) if went_out and gain is not None and age is not None else None
        case "latency":
            crawled = run.plan is Plan.FULL_LOOP and run.milliseconds is not None
            return (run.milliseconds or 0.0, 0.0) if crawled else None
        case "cost":
            return None  # read from the day's account, not from runs


def spans_too_long(window: Window, at: float) -> bool:
    """Whether a run decided at `at` (seconds since the epoch) comes too late for the window."""
    return window.began_at is not None and at - window.began_at > LONGEST_SECONDS


def add(window: Window, measured: tuple[float, float], at: float) -> Window:
    """The window with one run more."""
    value, age = measured
    began_at = at if window.began_at is None else window.began_at
    update = {"began_at": began_at, "values": (*window.values, value), "ages": (*window.ages, age)}
    return window.model_copy(update=update)  # not validated: a run is folded in some microseconds
