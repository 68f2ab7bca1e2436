"""The state machine of one defence of one profile, fed with runs in the order of their decisions.

                 two bad windows in a row
    watches  ------------------------------>  steps back
             <------------------------------
                 two good windows in a row, another configuration, or an operator

Void windows count for nothing, in either direction. A window that is neither breaks a row. What is between the two
thresholds changes nothing: that is the hysteresis.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Value, is_none
from sluice.contracts.learning.control import Defence, DefenceName
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.evaluation.defence.verdicts import (
    BASELINE_FACTOR,
    EMPTY,
    FULL,
    LEAST,
    Closed,
    Window,
    add,
    judge_freshness,
    judge_latency,
    judge_satisfaction,
    measure,
    percentile_95,
    spans_too_long,
)

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
        state = _heard_of(configuration, state)
        if state.configuration is not None and state.others < TO_SWITCH:
            return state, None
        was_tripped, state = state.tripped is not None, begin_anew(state, configuration)
        state, _ = watch(name, state, run, stale_seconds)
        return state, "heal" if was_tripped else None
    state = state if state.others == 0 else state.model_copy(update={"other": None, "others": 0})
    measured = measure(name, run)
    if measured is None:
        return state, None
    if spans_too_long(state.window, at):
        state, change = _close(name, state, at, stale_seconds)
        return _with_window(state, add(state.window, measured, at)), change
    state = _with_window(state, add(state.window, measured, at))
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
    update = {
        "tripped": defence,
        "falls_back_to": falls_back_to,
        "failed": failed,
        "window": EMPTY,
        "bad": 0,
        "good": 0,
    }
    return state.model_copy(update=update)


def heal(state: DefenceState) -> DefenceState:
    """The state in which nothing stands, and the configuration is no longer one that failed."""
    failed = tuple(one for one in state.failed if one != state.configuration)
    update = {"tripped": None, "falls_back_to": None, "failed": failed, "window": EMPTY, "bad": 0, "good": 0}
    return state.model_copy(update=update)


def _heard_of(configuration: str, state: DefenceState) -> DefenceState:
    others = state.others + 1 if state.other == configuration else 1
    return state.model_copy(update={"other": configuration, "others": others})


def _close(
    name: DefenceName, state: DefenceState, at: float, stale_seconds: float
) -> tuple[DefenceState, Change | None]:
    state, closed = _judged(name, state, at, stale_seconds)
    if closed.verdict == "void":
        return _with_window(state, EMPTY), None
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


def _with_window(state: DefenceState, window: Window) -> DefenceState:
    return state.model_copy(update={"window": window})
