"""Self-defence: the gate falls back when outcomes get worse, and returns when they recover.

A window holds one measure per run, in the order of their decisions, and closes when it is full or old. A closed one is
bad, good, neither, or void with too few runs. Each defence of a profile watches four scopes: the runs of one corpus by
one owner (an API key); those of one corpus by all owners; those of one owner in all corpora; and all. A window of more
than one corpus or owner is bad or good only if it stays so without any one of them, so nobody alone decides for others.
`watch` is the state machine of one defence in one scope:

                 two bad windows in a row
    watches  ------------------------------>  falls back
             <------------------------------
                 two good windows in a row, another configuration, or an operator

Void windows are ignored. A window that is neither breaks a row. Values between the thresholds change nothing
(hysteresis).

Intervals are of 95 %: Wilson's for satisfaction and for the share of slow runs, the normal one for the gain in
freshness. The day's cost is exact, so one check suffices: when its ceiling is nearly used up the gate answers from the
local corpus alone. `NEAR` and `FAR` lie apart, so that reservations and their release do not make the defence
alternate; the next UTC day, or a higher ceiling, ends it.

All functions are pure; `docs/decisions/0022-self-defence.md` gives the reasons.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from statistics import fmean
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sluice.contracts.base import LaterText, Value, is_none
from sluice.contracts.learning.control import Defence, DefenceName, Pin, Step
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.run_totals import mean_interval, percentile_95, wilson_interval

FULL = 100
"""Runs of a window while the gate does not fall back. At a true satisfaction of 0.72 two windows in a row fall under
0.7, with the upper end of their interval, once in 25,000 pairs."""
LEAST = 50
"""Fewest runs of a window that is not void; also its full size during a fallback, when only a few runs count."""
LONGEST_SECONDS = 30 * 86_400.0
"""Longest time span of a window: a trickle of two judged runs a day fills one within it."""
ALL = "*"
"""Stands for every profile, corpus or owner in a scope."""


class Scope(NamedTuple):
    """The runs that a defence watches and concerns: of a profile, a corpus and an owner; `ALL` for any."""

    profile: str = ALL
    corpus: str = ALL
    owner: str = ALL

    def covers(self, other: Scope) -> bool:
        """Return whether everything in the other scope is in this one."""
        return all(mine in (ALL, theirs) for mine, theirs in zip(self, other, strict=True))

    def around(self) -> tuple[Scope, Scope, Scope, Scope]:
        """Return the scopes of a profile that hold this one's runs: itself, and those of any corpus or owner."""
        return (self, self._replace(owner=ALL), self._replace(corpus=ALL), self._replace(corpus=ALL, owner=ALL))


def pinned(pins: Mapping[tuple[DefenceName, Scope], Pin], name: DefenceName, scope: Scope) -> Pin | None:
    """Return how an operator holds a defence in a scope; of several pins that cover it the narrowest counts."""
    found = [(one, pin) for (of, one), pin in pins.items() if of == name and one.covers(scope)]
    return min(found, key=lambda pair: (pair[0].corpus == ALL, pair[0].profile == ALL))[1] if found else None


class Window(Value):
    """An open window. `values` are the runs' measures, `ages` the ages of their cited text without a crawl.

    `parties` are the corpus and the owner of each, as far as the window's scope holds more than one.
    """

    began_at: float | None = None
    values: tuple[float, ...] = ()
    ages: tuple[float, ...] = ()
    parties: tuple[tuple[str, ...], ...] = ()

    def parts(self) -> list[Window]:
        """Return the windows that remain without any one party; the window itself where its scope has but one."""
        if not self.parties:
            return [self]
        return [self._without(party) for party in {(at, one) for run in self.parties for at, one in enumerate(run)}]

    def _without(self, party: tuple[int, str]) -> Window:
        at, left_out = party
        kept = [number for number, run in enumerate(self.parties) if run[at] != left_out]
        values, ages = (tuple(whole[number] for number in kept) for whole in (self.values, self.ages))
        return self.model_copy(update={"values": values, "ages": ages, "parties": ()})

    def least(self) -> int:
        """Return the number of runs without the party that has most."""
        names = zip(*self.parties, strict=True)
        return len(self.values) - max((max(Counter(one).values()) for one in names), default=0)


EMPTY = Window()


def measure(name: DefenceName, run: RunOutcome) -> tuple[float, float] | None:
    """Return the run's measure for the defence, and the age of its cited text without its crawl; None if it has none.

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


def add(window: Window, measured: tuple[float, float], at: float, party: tuple[str, ...] = ()) -> Window:
    """Return the window with one more run; of one party it takes at most `FULL`."""
    if any(names.count(one) >= FULL for names, one in zip(zip(*window.parties, strict=True), party, strict=False)):
        return window
    value, age = measured
    began_at = at if window.began_at is None else window.began_at
    update = {"began_at": began_at, "values": (*window.values, value), "ages": (*window.ages, age)}
    if party:
        update["parties"] = (*window.parties, party)
    return window.model_copy(update=update)  # not validated: a run is folded in some microseconds


Verdict = Literal["bad", "good", "neither", "void"]

FLOOR = 0.7
"""Satisfaction below which the gate falls back."""
HEAL_MARGIN = 0.03
"""Distance above the floor at which a fallback can end."""
LEAST_GAIN = 0.05
"""Share of the cited text's age without the crawl, below which a gain in freshness counts as none."""
SLOW_SHARE = 0.05
"""Share of runs that may be slower than the threshold of the 95th percentile."""
BASELINE_FACTOR = 1.2
"""Factor by which a profile may become slower than its first windows."""


class Closed(Value):
    """A closed window and its result. `low` and `high` are the ends of the interval of `value`."""

    closed_at: float
    runs: Annotated[int, Field(ge=0)]
    value: float
    low: float
    high: float
    verdict: Verdict
    why: LaterText = None


def judge_satisfaction(window: Window, closed_at: float) -> Closed:
    """Judge a window: bad if the interval ends below 0.7; good if it begins above 0.73."""
    runs = len(window.values)
    total = math.fsum(window.values)
    low, high = _share(total, runs)
    verdict: Verdict = "bad" if high < FLOOR else "good" if low > FLOOR + HEAL_MARGIN else "neither"
    value = total / runs if runs else 0.0
    why = f"satisfaction {value:.2f} ({low:.2f} to {high:.2f}) of {runs} judged runs"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


def judge_freshness(window: Window, closed_at: float, before: Closed | None, stale_seconds: float) -> Closed:
    """Judge a window: bad if crawling gains nothing on old text, and the gain does not rise; good if it gains.

    It gains nothing if the interval of the gain ends below `LEAST_GAIN` of the age without the crawl, and the slope
    from the window before has an interval that does not lie above 0. Text younger than `stale_seconds` leaves nothing
    to gain: then the window is good, whatever the gain.
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
    """Judge a window: bad if surely more than one run in twenty is slower than the threshold; good if no more are.

    `value`, `low` and `high` are the share of slower runs.
    """
    runs = len(window.values)
    slow = sum(value > threshold_ms for value in window.values)
    low, high = _share(slow, runs)
    value = slow / runs if runs else 0.0
    verdict: Verdict = "bad" if low > SLOW_SHARE else "good" if value <= SLOW_SHARE else "neither"
    threshold = f"threshold {threshold_ms / 1_000:.1f} s" if math.isfinite(threshold_ms) else "of the baseline"
    why = f"p95 of {runs} runs {percentile_95(window.values) / 1_000:.1f} s, {threshold}"
    return _closed(closed_at, runs, (value, low, high), verdict, why)


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
"""Share of a day's ceiling at which outside work stops: the rest is for runs under way."""
FAR = 0.8
"""Share below which outside work resumes."""


class CostVerdict(NamedTuple):
    """A verdict on the cost. `why` names the ceiling with the highest use."""

    verdict: Verdict
    why: str


def judge_cost(used: Mapping[str, float]) -> CostVerdict:
    """Judge the used shares of the day's ceilings, by setting; void without a ceiling."""
    if not used:
        return CostVerdict("void", "no ceiling")
    setting = max(used, key=lambda name: used[name])
    share = used[setting]
    verdict: Verdict = "bad" if share >= NEAR else "good" if share < FAR else "neither"
    return CostVerdict(verdict, f"{share:.0%} of {setting} is used")


IN_A_ROW = 2
"""Consecutive windows with the same verdict that cause a change."""
BASELINE_WINDOWS = 5
"""Windows of a profile whose 95th percentiles are averaged: a single one is sometimes 20 % too low, and normal latency
would then be above the threshold."""
TO_SWITCH = 10
"""Consecutive runs of another configuration after which it is watched instead: while processes restart one by one with
a new configuration, both decide."""
REMEMBERED = 8
"""Closed windows kept for display."""

Change = Literal["trip", "heal"]


class DefenceState(Value):
    """The state between runs: bounded, JSON, kept in the ledger.

    `tripped` is the fallback in force. `configuration` is the watched one (see `configuration_of`), `falls_back_to` the
    one that decides in its place, and `failed` those that were left by a fallback and did not heal.
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
    """`other` is the configuration of the latest runs if it is not the watched one, `others` their number in a row."""
    lifted_day: LaterText = None
    """The UTC day for which an operator has lifted the cost defence."""


def scope_of(name: DefenceName, run: RunOutcome) -> Scope:
    """Return the narrowest scope of a run's measure: satisfaction belongs to the key whose feedback counts."""
    return Scope(run.profile, run.corpus, run.label_of if name == "satisfaction" else run.owner)


def watch(
    name: DefenceName, state: DefenceState, run: RunOutcome, stale_seconds: float, scope: Scope | None = None
) -> tuple[DefenceState, Change | None]:
    """Return the state with one more run, and whether its window, by closing, trips or heals the defence.

    After some consecutive runs of another configuration the state begins again: measures of one configuration say
    nothing about another. This also ends a fallback of the previous configuration. Cited text younger than
    `stale_seconds` is fresh: crawling need gain nothing. `scope` is the state's; None: the run's own.
    """
    own = scope_of(name, run)
    party = tuple(one for one, whole in zip(own, scope or own, strict=True) if whole == ALL)
    at, configuration = run.decided_at.timestamp(), configuration_of(run)
    if run.is_stepped_back or run.arm == "canary":
        return state, None  # a canary has a test of its own
    if state.configuration != configuration:
        others = state.others + 1 if state.other == configuration else 1
        state = state.model_copy(update={"other": configuration, "others": others})
        if state.configuration is not None and state.others < TO_SWITCH:
            return state, None
        was_tripped, state = state.tripped is not None, begin_anew(state, configuration)
        state, _ = watch(name, state, run, stale_seconds, scope)
        return state, "heal" if was_tripped else None
    state = state if state.others == 0 else state.model_copy(update={"other": None, "others": 0})
    measured = measure(name, run)
    if measured is None:
        return state, None
    if state.window.began_at is not None and at - state.window.began_at > LONGEST_SECONDS:
        state, change = _close(name, state, at, stale_seconds)
        return state.model_copy(update={"window": add(state.window, measured, at, party)}), change
    state = state.model_copy(update={"window": add(state.window, measured, at, party)})
    full = LEAST if state.tripped else FULL
    return _close(name, state, at, stale_seconds) if state.window.least() >= full else (state, None)


def configuration_of(run: RunOutcome) -> str:
    """Return the run's configuration: a profile's hash, with "+" and the learned model's version if one decided."""
    decided_by_model = run.arm == "promoted" and run.model_version
    return f"{run.config_hash}+{run.model_version}" if decided_by_model else run.config_hash


def begin_anew(state: DefenceState, configuration: str) -> DefenceState:
    """Return a new state that keeps only the failed configurations and the profile's baseline."""
    return DefenceState(configuration=configuration, failed=state.failed, baseline_ms=state.baseline_ms)


def named(name: DefenceName, scope: Scope) -> dict[str, str]:
    """Return the facts by which an event names a defence: a corpus or an owner only where it is of one."""
    own = {field: one for field, one in scope._asdict().items() if one != ALL}
    return {"name": name, "profile": scope.profile, **own}


def stepping_back(name: DefenceName, scope: Scope, step: Step, since: datetime, why: str, lifted_by: str) -> Defence:
    """Return the fallback of a scope."""
    return Defence.model_validate(
        {**named(name, scope), "step": step, "since": since, "why": why, "lifted_by": lifted_by}
    )


def trip(state: DefenceState, defence: Defence, falls_back_to: str | None) -> DefenceState:
    """Return the state with `defence` in force."""
    failed = state.failed
    if defence.step == "previous_configuration" and state.configuration is not None:
        failed = (*(one for one in failed if one != state.configuration), state.configuration)[-REMEMBERED:]
    return state.model_copy(
        update={"tripped": defence, "falls_back_to": falls_back_to, "failed": failed, **_NO_WINDOWS}
    )


def heal(state: DefenceState) -> DefenceState:
    """Return the state without a fallback, and without the configuration among the failed ones."""
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
    """Judge the open window: what it shows as a whole, with the verdict that it has without any one of its parties."""
    parts = state.window.parts()
    baseline = state.baseline_ms
    if name == "latency" and state.window.least() >= LEAST and len(baseline) < BASELINE_WINDOWS:
        baseline = (*baseline, min(percentile_95(part.values) for part in parts))
    threshold = BASELINE_FACTOR * fmean(state.baseline_ms or (math.inf,)) if baseline == state.baseline_ms else math.inf
    whole, *others = (_judge(name, one, at, state.before, stale_seconds, threshold) for one in (state.window, *parts))
    verdicts = {one.verdict for one in others}
    verdict: Verdict = verdicts.pop() if len(verdicts) == 1 else "void" if "void" in verdicts else "neither"
    return state.model_copy(update={"baseline_ms": baseline}), whole.model_copy(update={"verdict": verdict})


def _judge(
    name: DefenceName, window: Window, at: float, before: Closed | None, stale_seconds: float, threshold_ms: float
) -> Closed:
    match name:
        case "freshness":
            return judge_freshness(window, at, before, stale_seconds)
        case "latency":
            return judge_latency(window, at, threshold_ms)
        case _:
            return judge_satisfaction(window, at)
