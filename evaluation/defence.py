"""Self-defence: the gate steps back when outcomes get worse, and comes forward when they recover.

A window holds one measure of each run, in the order of their decisions, and closes when it is full or old. A closed one
is bad, good, neither, or void where it holds too few runs. `watch` is the state machine of one defence of one profile:

                 two bad windows in a row
    watches  ------------------------------>  steps back
             <------------------------------
                 two good windows in a row, another configuration, or an operator

Void windows count for nothing, in either direction. A window that is neither breaks a row. What is between the two
thresholds changes nothing: that is the hysteresis.

Intervals are of 95 %: Wilson's for satisfaction and for the share of slow runs, the normal one for the gain in
freshness. A ceiling of the day's cost is no estimate, so one look at it is enough: when it is nearly used up the gate
answers from the local corpus alone. The two shares lie apart, so that work which is reserved and given back does not
make the defence alternate; the next UTC day, or a higher ceiling, ends it.

All of it is values in, values out; `docs/decisions/0022-self-defence.md` says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sluice.contracts.base import LaterText, Value, is_none
from sluice.contracts.learning.control import Defence, DefenceName
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.run_totals import mean_interval, wilson_interval

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


def add(window: Window, measured: tuple[float, float], at: float) -> Window:
    """The window with one run more."""
    value, age = measured
    began_at = at if window.began_at is None else window.began_at
    update = {"began_at": began_at, "values": (*window.values, value), "ages": (*window.ages, age)}
    return window.model_copy(update=update)  # not validated: a run is folded in some microseconds


Verdict = Literal["bad", "good", "neither", "void"]

FLOOR = 0.7
"""Satisfaction below which the gate steps back."""
HEAL_MARGIN = 0.03
"""How far above the floor satisfaction must be to come forward again."""
LEAST_GAIN = 0.05
"""The gain in freshness is none below this share of the age that the cited text would have without the crawl."""
SLOW_SHARE = 0.05
"""Runs that may be slower than the threshold of the 95th percentile."""
BASELINE_FACTOR = 1.2
"""How much slower than its first windows a profile may become."""


class Closed(Value):
    """A closed window and what it shows. `low` and `high` are the ends of the interval of `value`."""

    closed_at: float
    runs: Annotated[int, Field(ge=0)]
    value: float
    low: float
    high: float
    verdict: Verdict
    why: LaterText = None


def judge_satisfaction(window: Window, closed_at: float) -> Closed:
    """Bad where the interval ends below 0.7; good where it begins above 0.73."""
    runs = len(window.values)
    total = math.fsum(window.values)
    low, high = _share(total, runs)
    verdict: Verdict = "bad" if high < FLOOR else "good" if low > FLOOR + HEAL_MARGIN else "neither"
    value = total / runs if runs else 0.0
    why = f"satisfaction {value:.2f} ({low:.2f} to {high:.2f}) of {runs} judged runs"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def judge_freshness(window: Window, closed_at: float, before: Closed | None, stale_seconds: float) -> Closed:
    """Bad where crawling gains nothing though the text is old, and does not begin to; good where it gains.

    It gains nothing where the interval of the gain ends below `LEAST_GAIN` of the age without the crawl, and the
    slope from the window before has an interval that does not lie above 0. Text that is younger than `stale_seconds`
    leaves nothing to gain: that is good, whatever the gain.
    """
    runs = len(window.values)
    gain = mean_interval(math.fsum(window.values), math.fsum(value * value for value in window.values), runs)
    if gain is None or runs < LEAST:
        return _closed(closed_at, runs, (0.0, 0.0, 0.0), "void", f"{runs} runs went outside")
    value, low, high = gain.estimate, gain.low, gain.high
    age = math.fsum(window.ages) / runs
    least = LEAST_GAIN * age
    rises = before is not None and value - before.value > math.hypot(value - low, before.value - before.low)
    if age < stale_seconds or low > least:
        verdict: Verdict = "good"
    else:
        verdict = "bad" if high < least and not rises else "neither"
    why = f"crawling made text of {_told(age)} younger by {_told(value)} ({_told(low)} to {_told(high)}) in {runs} runs"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def judge_latency(window: Window, closed_at: float, threshold_ms: float) -> Closed:
    """Bad where surely more than one run in twenty is slower than the threshold; good where no more are.

    `value`, `low` and `high` are the share of runs that are slower.
    """
    runs = len(window.values)
    slow = sum(value > threshold_ms for value in window.values)
    low, high = _share(slow, runs)
    value = slow / runs if runs else 0.0
    verdict: Verdict = "bad" if low > SLOW_SHARE else "good" if value <= SLOW_SHARE else "neither"
    threshold = f"threshold {threshold_ms / 1_000:.1f} s" if math.isfinite(threshold_ms) else "of the baseline"
    why = f"p95 of {runs} runs {percentile_95(window.values) / 1_000:.1f} s, {threshold}"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def percentile_95(values: Sequence[float]) -> float:
    """The nearest-rank 95th percentile; 0 of nothing."""
    ordered = sorted(values)
    return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else 0.0


def _closed(closed_at: float, runs: int, figures: tuple[float, float, float], verdict: Verdict, why: str) -> Closed:
    value, low, high = (round(figure, 6) for figure in figures)
    told: Verdict = "void" if runs < LEAST else verdict
    return Closed(closed_at=closed_at, runs=runs, value=value, low=low, high=high, verdict=told, why=why)


def _share(total: float, count: int) -> tuple[float, float]:
    interval = wilson_interval(total, count)
    return (interval.low, interval.high) if interval else (0.0, 1.0)


def _told(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if abs(seconds) >= 86_400 else f"{seconds / 3_600:.1f} hours"


NEAR = 0.95
"""Share of a day's ceiling from which nothing more is asked outside: what is left is for runs under way."""
FAR = 0.8
"""Share below which it is again."""


class CostVerdict(NamedTuple):
    """`why` names the ceiling that is used up most."""

    verdict: Verdict
    why: str


def judge_cost(used: Mapping[str, float]) -> CostVerdict:
    """What the shares of the day's ceilings that are used say, by setting; without a ceiling it is void."""
    if not used:
        return CostVerdict("void", "no ceiling")
    setting = max(used, key=lambda name: used[name])
    share = used[setting]
    verdict: Verdict = "bad" if share >= NEAR else "good" if share < FAR else "neither"
    return CostVerdict(verdict, f"{share:.0%} of {setting} is used")


IN_A_ROW = 2
"""Windows that must agree."""
BASELINE_WINDOWS = 5
"""Of a profile, whose 95th percentiles are averaged: that of one window alone is 20 % too low now and then, and the
threshold would be what is usual."""
TO_SWITCH = 10
"""Runs in a row by which another configuration takes the place of the one that is watched: while one process after the
other gets a new one, both decide."""
REMEMBERED = 8
"""Closed windows that are kept to be shown."""

Change = Literal["trip", "heal"]


class DefenceState(Value):
    """All that the next look needs to know of the looks before: bounded, JSON, kept in the ledger.

    `tripped` is the step back that stands. `configuration` is the one that is watched (see `configuration_of`),
    `falls_back_to` the one that decides in its place, and `failed` those that were stepped back from and did not heal.
    """

    configuration: LaterText = None
    window: Window = EMPTY
    before: Annotated[Closed | None, Field(exclude_if=is_none)] = None
    bad: int = 0
    good: int = 0
    baseline_ms: tuple[float, ...] = ()
    closed: tuple[Closed, ...] = ()
    tripped: Annotated[Defence | None, Field(exclude_if=is_none)] = None
    falls_back_to: LaterText = None
    failed: tuple[str, ...] = ()
    other: LaterText = None
    others: int = 0
    """The configuration of the latest runs, where it is another one, and how many in a row they are."""
    lifted_day: LaterText = None
    """The UTC day for which an operator has lifted the defence of cost."""


def watch(
    name: DefenceName, state: DefenceState, run: RunOutcome, stale_seconds: float
) -> tuple[DefenceState, Change | None]:
    """The state with one run more, and whether its window, closing, trips or heals the defence.

    Some runs in a row of another configuration begin everything anew: what is measured of one says nothing of the
    other. Where the gate steps back from the one before, that ends with it. Cited text younger than `stale_seconds` is
    fresh: crawling need gain nothing.
    """
    at, configuration = run.decided_at.timestamp(), configuration_of(run)
    if run.is_stepped_back or run.arm == "canary":
        return state, None  # a canary has a test of its own
    if state.configuration != configuration:
        others = state.others + 1 if state.other == configuration else 1
        state = state.model_copy(update={"other": configuration, "others": others})
        if state.configuration is not None and state.others < TO_SWITCH:
            return state, None
        was_tripped, state = state.tripped is not None, begin_anew(state, configuration)
        state, _ = watch(name, state, run, stale_seconds)
        return state, "heal" if was_tripped else None
    state = state if state.others == 0 else state.model_copy(update={"other": None, "others": 0})
    measured = measure(name, run)
    if measured is None:
        return state, None
    if state.window.began_at is not None and at - state.window.began_at > LONGEST_SECONDS:
        state, change = _close(name, state, at, stale_seconds)
        return state.model_copy(update={"window": add(state.window, measured, at)}), change
    state = state.model_copy(update={"window": add(state.window, measured, at)})
    full = LEAST if state.tripped else FULL
    return _close(name, state, at, stale_seconds) if len(state.window.values) >= full else (state, None)


def configuration_of(run: RunOutcome) -> str:
    """What decided the run: the hash of a profile, with the version of a learned model behind a "+" where one did."""
    decided_by_model = run.arm == "promoted" and run.model_version
    return f"{run.config_hash}+{run.model_version}" if decided_by_model else run.config_hash


def begin_anew(state: DefenceState, configuration: str) -> DefenceState:
    """A state of which only the configurations that failed, and the profile's baseline, remain."""
    return DefenceState(configuration=configuration, failed=state.failed, baseline_ms=state.baseline_ms)


def trip(state: DefenceState, defence: Defence, falls_back_to: str | None) -> DefenceState:
    """The state in which `defence` stands."""
    failed = state.failed
    if defence.step == "previous_configuration" and state.configuration is not None:
        failed = (*(one for one in failed if one != state.configuration), state.configuration)[-REMEMBERED:]
    return state.model_copy(
        update={"tripped": defence, "falls_back_to": falls_back_to, "failed": failed, **_NO_WINDOWS}
    )


def heal(state: DefenceState) -> DefenceState:
    """The state in which nothing stands, and the configuration is no longer one that failed."""
    failed = tuple(one for one in state.failed if one != state.configuration)
    return state.model_copy(update={"tripped": None, "falls_back_to": None, "failed": failed, **_NO_WINDOWS})


_NO_WINDOWS = {"window": EMPTY, "bad": 0, "good": 0}


def _close(
    name: DefenceName, state: DefenceState, at: float, stale_seconds: float
) -> tuple[DefenceState, Change | None]:
    state, closed = _judged(name, state, at, stale_seconds)
    if closed.verdict == "void":
        return state.model_copy(update={"window": EMPTY}), None
    bad = state.bad + 1 if closed.verdict == "bad" else 0
    good = state.good + 1 if closed.verdict == "good" else 0
    told = (*state.closed, closed)[-REMEMBERED:]
    update = {"window": EMPTY, "before": closed, "bad": bad, "good": good, "closed": told}
    state = state.model_copy(update=update)
    if state.tripped is None:
        return state, "trip" if bad >= IN_A_ROW else None
    return state, "heal" if good >= IN_A_ROW else None


def _judged(name: DefenceName, state: DefenceState, at: float, stale_seconds: float) -> tuple[DefenceState, Closed]:
    match name:
        case "freshness":
            return state, judge_freshness(state.window, at, state.before, stale_seconds)
        case "latency":
            if len(state.window.values) >= LEAST and len(state.baseline_ms) < BASELINE_WINDOWS:
                baseline = (*state.baseline_ms, percentile_95(state.window.values))
                state = state.model_copy(update={"baseline_ms": baseline})
                return state, judge_latency(state.window, at, math.inf)
            threshold = BASELINE_FACTOR * fmean(state.baseline_ms or (math.inf,))
            return state, judge_latency(state.window, at, threshold)
        case _:
            return state, judge_satisfaction(state.window, at)
