"""The gate steps back on two windows that surely are bad, and comes forward on two that surely are good."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from sluice.contracts.learning.control import Defence, DefenceName
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.defence import (
    BASELINE_WINDOWS,
    FULL,
    LEAST,
    LONGEST_SECONDS,
    TO_SWITCH,
    Change,
    DefenceState,
    heal,
    trip,
    watch,
)

NOON = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0
STALE_SECONDS = 30 * DAY
NEW, OLD = "a" * 64, "b" * 64
STANDING = Defence(
    name="satisfaction",
    step="previous_configuration",
    profile="default",
    since=datetime.fromtimestamp(NOON, UTC),
    why="satisfaction 0.50",
    lifted_by="sluice gate defences satisfaction --lift",
)


def a_run(number: int, **facts: object) -> RunOutcome:
    fields = {"run_id": f"run_{number}", "corpus": "docs", "profile": "default", "plan": Plan.FULL_LOOP}
    moment = datetime.fromtimestamp(NOON + number * 60, UTC)
    return RunOutcome.model_validate({**fields, "config_hash": NEW, "decided_at": moment, **facts})


def judged(share: float, runs: int, first: int = 0, **facts: object) -> list[RunOutcome]:
    """Runs of which that share did well, evenly spread."""
    did_well = [int((at + 1) * share) > int(at * share) for at in range(runs)]
    return [a_run(first + at, signals={"tool_success": float(well)}, **facts) for at, well in enumerate(did_well)]


def changes(
    runs: Iterable[RunOutcome], state: DefenceState | None = None, name: DefenceName = "satisfaction"
) -> tuple[DefenceState, list[Change]]:
    state, found = state or DefenceState(), []
    for run in runs:
        state, change = watch(name, state, run, STALE_SECONDS)
        found += [change] if change else []
    return state, found


def stepped_back(state: DefenceState | None = None) -> DefenceState:
    return trip(state or DefenceState(configuration=NEW), STANDING, OLD)


def test_two_windows_that_surely_lie_under_the_floor_trip_it() -> None:
    assert changes(judged(0.5, 2 * FULL - 1))[1] == []
    state, found = changes(judged(0.5, 2 * FULL))
    assert found == ["trip"]
    assert [closed.verdict for closed in state.closed] == ["bad", "bad"]


def test_windows_whose_mean_is_under_the_floor_but_whose_interval_is_not_trip_nothing() -> None:
    assert changes(judged(0.66, 10 * FULL))[1] == []


def test_one_bad_window_between_others_trips_nothing() -> None:
    runs = [run for at in range(6) for run in judged(0.5 if at % 2 else 0.9, FULL, at * FULL)]
    assert changes(runs)[1] == []


def test_a_void_window_neither_trips_nor_breaks_a_row() -> None:
    state, _ = changes(judged(0.5, FULL))
    few = judged(0.0, LEAST - 1, 1_000)
    late = int(LONGEST_SECONDS / 60) + 2_000
    state, found = changes([*few, *judged(0.5, FULL, late)], state)
    assert found == ["trip"]
    assert [closed.runs for closed in state.closed] == [FULL, FULL]


def test_a_run_that_nobody_judged_counts_for_nothing() -> None:
    state, found = changes([a_run(number) for number in range(5 * FULL)])
    assert (state.window.values, found) == ((), [])


def test_runs_that_a_step_back_steered_and_those_of_a_canary_are_not_looked_at() -> None:
    for facts in ({"is_stepped_back": True, "config_hash": OLD}, {"arm": "canary", "model_version": "3"}):
        state, found = changes(judged(0.1, 5 * FULL, **facts), DefenceState(configuration=NEW))
        assert (state, found) == (DefenceState(configuration=NEW), [])


def test_a_promoted_model_is_another_configuration_than_the_profile_alone() -> None:
    state, _ = changes(judged(0.5, FULL, arm="promoted", model_version="7"))
    assert state.configuration == f"{NEW}+7"


def test_it_heals_by_two_small_windows_that_surely_lie_above_the_floor_and_its_margin() -> None:
    assert changes(judged(0.9, 2 * LEAST - 1), stepped_back())[1] == []
    assert changes(judged(0.9, 2 * LEAST), stepped_back())[1] == ["heal"]


def test_between_the_floor_and_the_margin_nothing_changes_in_either_direction() -> None:
    assert changes(judged(0.76, 10 * LEAST), stepped_back())[1] == []
    assert changes(judged(0.76, 10 * FULL))[1] == []


def test_another_configuration_ends_a_step_back_and_begins_anew() -> None:
    few = judged(0.2, TO_SWITCH - 1, config_hash="c" * 64)
    state, found = changes([*few, *judged(0.9, 1), *few], stepped_back())
    assert found == [], "two processes decide by different ones while the new one is brought out"
    state, found = changes(judged(0.2, 1, config_hash="c" * 64), state)
    assert found == ["heal"]
    assert state.tripped is None
    assert state.configuration == "c" * 64
    assert state.failed == (NEW,), "what failed is no configuration to fall back to"


def test_a_configuration_that_heals_is_no_longer_one_that_failed() -> None:
    state = stepped_back()
    assert state.failed == (NEW,)
    assert heal(state).failed == ()


def fresh(gain_days: float, age_days: float, runs: int, first: int = 0) -> list[RunOutcome]:
    without = age_days * DAY
    spread = (-0.1 * DAY, 0.1 * DAY)
    return [
        a_run(
            first + at,
            cited_age_without_crawl_seconds=without,
            cited_age_seconds=max(0.0, without - gain_days * DAY + spread[at % 2]),
        )
        for at in range(runs)
    ]


def test_crawls_that_gain_nothing_where_text_is_old_stagnate() -> None:
    assert changes(fresh(0.5, 90, 2 * FULL), name="freshness")[1] == ["trip"]


def test_steady_and_fresh_is_no_stagnation() -> None:
    assert changes(fresh(0.0, 5, 6 * FULL), name="freshness")[1] == []


def test_a_steady_gain_is_no_stagnation() -> None:
    assert changes(fresh(40, 90, 6 * FULL), name="freshness")[1] == []


def test_a_gain_that_is_small_but_rises_does_not_stagnate() -> None:
    runs = [run for at in range(4) for run in fresh(1 + at, 90, FULL, at * FULL)]
    assert changes(runs, name="freshness")[1] == []


def test_freshness_heals_when_crawls_gain_again() -> None:
    assert changes(fresh(40, 90, 2 * LEAST), stepped_back(), "freshness")[1] == ["heal"]


def lasting(seconds: float, runs: int, first: int = 0, **facts: object) -> list[RunOutcome]:
    return [a_run(first + at, milliseconds=seconds * 1_000, **facts) for at in range(runs)]


def test_crawling_runs_that_become_slower_than_the_first_windows_by_a_fifth_trip_latency() -> None:
    first = BASELINE_WINDOWS * FULL
    state, found = changes([*lasting(4.0, first), *lasting(4.7, 2 * FULL, first)], name="latency")
    assert found == [], "within 1.2 times the baseline"
    assert state.baseline_ms == (4_000.0,) * BASELINE_WINDOWS
    state, found = changes(lasting(5.0, 2 * FULL, first + 2 * FULL), state, "latency")
    assert found == ["trip"]
    assert changes(lasting(4.1, 2 * LEAST, first + 4 * FULL), stepped_back(state), "latency")[1] == ["heal"]


def test_a_few_slow_runs_are_no_slow_window() -> None:
    runs = [lasting(60.0 if at % 15 == 0 else 4.0, 1, at)[0] for at in range(6 * FULL)]
    _, found = changes([*lasting(4.0, BASELINE_WINDOWS * FULL), *runs], name="latency")
    assert found == [], "7 % of a hundred may be 5 % of all"


def test_runs_that_only_retrieve_say_nothing_of_crawling() -> None:
    runs = lasting(60.0, 5 * FULL, plan=Plan.RETRIEVE)
    assert changes(runs, name="latency")[0].window.values == ()
