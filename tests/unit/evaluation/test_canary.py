"""The verdict on a canary's stage: hard stops, a worse one stopped, a good one promoted, and no data is no pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bench.canary.simulate import World, simulate
from sluice.contracts.learning.control import Arm, Cause
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.report import to_markdown
from sluice.evaluation.rollout.ab_report import compare_plans, list_blocks, make_report
from sluice.evaluation.rollout.arm_figures import ArmFigures, Moments, fold
from sluice.evaluation.rollout.canary import ASSUMED_COVERAGE, WINDOW_RUNS, expected_runs, judge_stage, read_judging
from sluice.gate.learned.rollout import begin

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def arm(runs: int, satisfied: float, **fields: object) -> ArmFigures:
    """An arm of so many judged runs, each a unit."""
    good = round(runs * satisfied)
    moments = Moments(runs, runs, good, runs, good, good)
    return replace(ArmFigures(runs=runs, units=runs, ended=runs, moments={"satisfaction": moments}), **fields)  # type: ignore[arg-type]


def outcome(number: int, of: Arm, **fields: object) -> RunOutcome:
    facts = {
        "run_id": f"run_{number}",
        "corpus": "docs",
        "profile": "default",
        "plan": Plan.RETRIEVE,
        "config_hash": "0" * 64,
        "model_version": "m1",
        "arm": of,
        "bucket": (number % 1_000) / 1_000,
        "decided_at": NOW + timedelta(seconds=number),
        "finished_at": NOW + timedelta(seconds=number + 1),
        "status": "finished",
        "milliseconds": 100.0,
    }
    return RunOutcome.model_validate(facts | fields)


@pytest.mark.parametrize(
    ("canary", "control", "is_last", "kind"),
    [
        (arm(9_000, 0.72), arm(9_000, 0.80), False, "stop"),
        (arm(9_000, 0.80), arm(9_000, 0.80), True, "promote"),
        (arm(800, 0.80), arm(800, 0.80), False, "promote"),  # the early stage excludes a loss of 10 %
        (arm(800, 0.80), arm(800, 0.80), True, "continue"),  # the last one does not yet exclude 5 %
        (arm(9_000, 0.76), arm(9_000, 0.80), True, "continue"),  # worse by 5 %, not by more
        (arm(40, 0.10), arm(40, 0.90), False, "continue"),  # too few for the test's normal limit
        (ArmFigures(), ArmFigures(), False, "inconclusive"),
        (arm(9_000, 0.80), ArmFigures(runs=9_000, units=9_000), False, "inconclusive"),
    ],
)
def test_the_verdict_follows_from_what_is_shown(
    canary: ArmFigures, control: ArmFigures, is_last: bool, kind: str
) -> None:
    assert judge_stage(canary, control, is_last=is_last).kind == kind


def test_a_stage_at_its_end_without_evidence_is_inconclusive() -> None:
    verdict = judge_stage(arm(1_500, 0.78), arm(1_500, 0.80), is_last=True, stage_is_over=True)
    assert verdict.kind == "inconclusive"
    assert "at its end" in verdict.why


def test_arms_of_unequal_size_or_unequal_feedback_give_no_verdict() -> None:
    unequal = judge_stage(arm(9_000, 0.72), arm(8_000, 0.80), is_last=False)
    assert (unequal.kind, unequal.sample_ratio_p < 0.001) == ("inconclusive", True)
    unheard = judge_stage(arm(9_000, 0.8), replace(arm(9_000, 0.8), runs=12_000), is_last=False)
    assert unheard.kind == "inconclusive"
    assert "not judged alike" in unheard.why


SLOW = tuple([100.0] * (2 * WINDOW_RUNS))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"failed_checks": 1}, "severity P0"),
        ({"ended": 60, "failed": 12}, "20.0% of its runs failed"),
        ({"usd_of_day": 3.0}, "share of the day's budget"),
        ({"latest_milliseconds": tuple([250.0] * (2 * WINDOW_RUNS))}, "latency is out of bounds"),
    ],
)
def test_hard_stops_need_no_statistics(fields: dict[str, object], said: str) -> None:
    control = arm(60, 0.8, latest_milliseconds=SLOW)
    verdict = judge_stage(arm(60, 0.8, **fields), control, is_last=False, usd_of_day=2.0)
    assert verdict.kind == "stop"
    assert said in verdict.why


def test_one_run_of_twenty_that_is_slow_by_nature_stops_nothing() -> None:
    mixed = tuple(2_000.0 if number % 17 == 0 else 100.0 for number in range(2 * WINDOW_RUNS))
    usual = tuple(2_000.0 if number % 25 == 0 else 100.0 for number in range(2 * WINDOW_RUNS))
    canary, control = arm(200, 0.8, latest_milliseconds=mixed), arm(200, 0.8, latest_milliseconds=usual)
    assert judge_stage(canary, control, is_last=False).kind == "continue"


def test_a_model_that_costs_far_more_is_promoted_by_an_operator_alone() -> None:
    cheap = Moments.of([(1, 0.01 * (1 + number % 3)) for number in range(9_000)])
    costly = Moments.of([(1, 0.02 * (1 + number % 3)) for number in range(9_000)])
    canary, control = arm(9_000, 0.8), arm(9_000, 0.8)
    canary.moments["usd"], control.moments["usd"] = costly, cheap
    verdict = judge_stage(canary, control, is_last=True)
    assert verdict.kind == "inconclusive"
    assert "cost is over 20% more" in verdict.why


def test_runs_are_folded_into_arms_by_their_units() -> None:
    runs = [outcome(number, "canary" if number % 2 else "control", signals={"benchmark": 1.0}) for number in range(40)]
    runs += [outcome(100, "canary", bucket=0.001, status="failed", failed_checks=2, usd=0.5)]
    runs += [outcome(101, "canary", model_version="another")]
    arms = fold(runs, "m1", NOW.date())
    canary = arms["canary"]
    assert (canary.runs, canary.units, canary.ended, canary.failed, canary.failed_checks) == (21, 20, 21, 1, 2)
    assert (canary.judged, canary.of("satisfaction").mean, canary.usd_of_day) == (20, 1.0, 0.5)
    assert arms["control"].runs == 20


def test_a_stage_is_longer_the_fewer_runs_are_judged_and_that_is_said_beforehand() -> None:
    all_judged, some = expected_runs((0.1, 0.5, 1.0)), expected_runs((0.1, 0.5, 1.0), coverage=0.2)
    assert [round(few / many) for few, many in zip(some, all_judged, strict=True)] == [5, 5]
    assert all_judged[0] == 5 * all_judged[1]
    assert read_judging([None] * 100).coverage == ASSUMED_COVERAGE
    known = read_judging([0.9] * 60 + [None] * 140)
    assert (round(known.satisfaction, 6), known.coverage) == (0.9, 0.3)
    assert "30.0% were judged" in known.told


def test_the_report_names_a_model_that_is_a_tenth_worse() -> None:
    rollout = begin(
        None, "m1", "0" * 64, Cause(at=NOW, operator="ann"), stages=(0.1, 0.5, 1.0), expected_runs=(100, 20)
    )
    arms: dict[Arm, ArmFigures] = {"canary": arm(5_000, 0.72), "control": arm(5_000, 0.80)}
    verdict = judge_stage(arms["canary"], arms["control"], is_last=False)
    page = to_markdown(list_blocks(make_report(rollout, verdict, arms, compare_plans([], "m1", {}), 50, 100)))
    assert "Model m1 is WORSE than the gate's weights: satisfaction 0.720 against 0.800, -10.0%" in page
    assert "| canary | 5000 | 5000 | 5000 | 0 | 5000 |" in page
    assert "p = 1" in page


def test_no_good_canary_is_stopped_and_nearly_every_bad_one_is() -> None:
    """The bench's simulation with fewer canaries; its figures of 1,000 stand in bench/canary/README.md."""
    assert simulate(World(), 60, 3).ends["stopped"] <= 1
    assert simulate(World(loss=0.2), 40, 3).ends["stopped"] >= 39
