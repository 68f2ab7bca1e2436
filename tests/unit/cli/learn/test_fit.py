"""The fit of a learned gate: what it finds in made-up cases, what it refuses, and that its file says what the fit said.

Without scikit-learn (the extra `fit`) the tests that fit are skipped.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.contracts.gate import CoverageProbed, GateRequested, ProbeHit
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.gate.learned.model import FEATURES, Costs, Knot
from sluice.gate.profile import load_profiles
from sluice.gate.signals import read_signals
from sluice.workers.training.examples import Example, examples_of_runs, weigh_together
from sluice.workers.training.fit import FOLDS, compare, fit_gate, fold_of, folds_for_calibration, folds_of_articles
from sluice.workers.training.training import Training

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROFILE = load_profiles()["default"]
REQUEST = GateRequested(query="when was the bridge opened")
PROBE = CoverageProbed(
    generation="g",
    chunk_count=9,
    model_fingerprint="test",
    hits=(ProbeHit(chunk_id="c", document_id="d", dense_similarity=0.6, fetched_at=NOW),),
    probed_at=NOW,
)
SIGNALS = read_signals(REQUEST, PROBE, PROFILE)


def examples(count: int, source: str = "made-up", seed: int = 0) -> list[Example]:
    """Cases that are covered with the probability logistic(8 x (best_cosine - 0.5)); half of them by score outside."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        cosine = float(random.random())
        covered = bool(random.random() < 1 / (1 + np.exp(-8 * (cosine - 0.5))))
        others = dict.fromkeys(FEATURES, 0.5) | {"best_cosine": cosine}
        found.append(
            Example(
                source,
                f"{source}-{number // 4}",
                f"{source}-{number}",
                "near",
                others,
                SIGNALS,
                covered,
                1.0,
                False,
                0.5,
            )
        )
    return found


def test_the_fit_finds_the_probability_that_made_the_cases() -> None:
    pytest.importorskip("sklearn", reason="the extra fit is not installed")
    model = fit_gate(examples(3_000), "v1", "test")
    assert model.calibration_method == "isotonic"
    for cosine in (0.2, 0.5, 0.8):
        said = model.probability(dict.fromkeys(FEATURES, 0.5) | {"best_cosine": cosine})
        assert said == pytest.approx(1 / (1 + np.exp(-8 * (cosine - 0.5))), abs=0.08)


def test_few_cases_are_calibrated_by_two_numbers() -> None:
    pytest.importorskip("sklearn", reason="the extra fit is not installed")
    assert fit_gate(examples(400), "v1", "test").calibration_method == "platt"


def test_the_same_cases_give_the_same_bytes() -> None:
    pytest.importorskip("sklearn", reason="the extra fit is not installed")
    assert fit_gate(examples(500), "v1", "test").to_bytes() == fit_gate(examples(500), "v1", "test").to_bytes()


def test_the_knots_of_a_file_say_what_scikit_learn_says() -> None:
    isotonic = pytest.importorskip("sklearn.isotonic", reason="the extra fit is not installed")
    random = np.random.default_rng(3)
    scores = random.random(3_000)
    happened = random.random(3_000) < scores**2
    fitted = isotonic.IsotonicRegression(out_of_bounds="clip").fit(scores, happened)
    knots = tuple(
        Knot(score=score, probability=chance)
        for score, chance in zip(fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist(), strict=True)
    )
    again = tuple(Knot.model_validate_json(knot.model_dump_json()) for knot in knots)
    asked = np.concatenate([random.random(10_000), scores, [-1.0, 0.0, 1.0, 2.0]])
    lines = np.interp(asked, [one.score for one in again], [one.probability for one in again])
    assert lines.tolist() == fitted.predict(asked).tolist()


def test_too_few_cases_of_a_label_are_refused_with_what_helps() -> None:
    with pytest.raises(InvalidInput, match="--data"):
        fit_gate(examples(60), "v1", "test")


def test_where_the_extra_is_absent_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(Unavailable, match=r"sluice\[fit\]"):
        fit_gate(examples(400), "v1", "test")


def test_an_article_is_wholly_in_one_fold() -> None:
    cases = examples(400)
    held = list(folds_of_articles(cases))
    assert len(held) == FOLDS
    assert sum(held).tolist() == [1] * len(cases)  # type: ignore[union-attr]
    for case in cases:
        assert held[fold_of(case.article)][cases.index(case)]


def test_of_three_sources_each_is_held_back_whole() -> None:
    cases = [*examples(8, "a"), *examples(8, "b"), *examples(8, "c")]
    assert [mask.tolist().count(True) for mask in folds_for_calibration(cases)] == [8, 8, 8]
    assert len(list(folds_for_calibration(cases[:16]))) <= FOLDS


def test_collections_fade_as_runs_come() -> None:
    prior, runs = examples(100), examples(300, "runs")
    alone = weigh_together(prior, [], 1_000.0)
    beside = weigh_together(prior, runs, 1_000.0)
    assert sum(one.weight for one in alone) == pytest.approx(1_000)
    assert sum(one.weight for one in beside if one.source == "made-up") == pytest.approx(1_000 * 1_000 / 1_300)
    assert [one.weight for one in beside if one.source == "runs"] == [1.0] * 300


def owned(cases: list[Example], owner: str) -> list[Example]:
    return [replace(one, source="runs", weight=1.0, owner=owner) for one in cases]


def test_a_flood_of_one_owners_labels_does_not_turn_the_decisions_for_another() -> None:
    pytest.importorskip("sklearn", reason="the extra fit is not installed")
    prior = examples(600)
    honest = owned(examples(400, seed=1), "key_honest")
    flood = owned([replace(one, is_covered=not one.is_covered) for one in examples(5_000, seed=2)], "key_hostile")

    def goes(runs: list[Example], *, several_owners: bool) -> list[bool]:
        cases = weigh_together(prior, runs, 1_000.0, several_owners=several_owners)
        model = fit_gate(cases, "v1", "test")
        return [model.probability(one.features) < 0.5 for one in honest]

    def alike(one: list[bool], other: list[bool]) -> float:
        return float(np.mean([mine == theirs for mine, theirs in zip(one, other, strict=True)]))

    without = goes(honest, several_owners=True)
    assert alike(goes([*honest, *flood], several_owners=True), without) > 0.9
    assert alike(goes([*honest, *flood], several_owners=False), without) < 0.2, "what bounds nobody is turned round"


def test_of_several_owners_none_weighs_more_than_a_third_or_than_the_second() -> None:
    runs = [*owned(examples(2_000), "a"), *owned(examples(300), "b"), *owned(examples(10), "c")]

    def shares(found: list[Example]) -> dict[str, float]:
        total = sum(one.weight for one in found)
        return {owner: sum(one.weight for one in found if one.owner == owner) / total for owner in ("a", "b", "c")}

    with_collections = shares(weigh_together(examples(100), runs, 1_000.0, several_owners=True))
    assert with_collections["a"] == pytest.approx(1 / 3, abs=0.01)
    alone = shares(weigh_together([], runs, 1_000.0, several_owners=True))
    assert alone["a"] == pytest.approx(alone["b"])
    assert shares(weigh_together([], runs, 1_000.0))["a"] == pytest.approx(2_000 / 2_310)
    with pytest.raises(InvalidInput, match="no key may outweigh"):
        weigh_together([], runs[:2_000], 1_000.0, several_owners=True)


def test_the_report_says_what_each_owners_labels_weigh_and_what_a_model_without_them_is_worth_on_them() -> None:
    pytest.importorskip("sklearn", reason="the extra fit is not installed")
    runs = [*owned(examples(600, seed=1), "key_a"), *owned(examples(150, seed=2), "key_b")]
    files = Training("v1", "test", PROFILE, examples(300), runs, (), 1_000.0, Costs(), several_owners=True).files()
    told = json.loads(files["metadata.json"])["runs"]["owners"]
    assert [(one["owner"], one["count"]) for one in told] == [("key_a", 600), ("key_b", 150)]
    assert told[0]["share"] == pytest.approx(1 / 3, abs=0.01)
    assert all(len(one["f1"]) == 2 for one in told)
    report = files["report.md"].decode()
    assert "Labels by API key" in report
    assert "key_a" in report


def outcome(**fields: Any) -> RunOutcome:
    known = {
        "run_id": "run_1",
        "corpus": "default",
        "profile": "default",
        "plan": Plan.RETRIEVE,
        "config_hash": "0" * 64,
    }
    return RunOutcome.model_validate(known | {"decided_at": NOW, "signals": {"user_acceptance": 1.0}} | fields)


def test_runs_answered_from_the_corpus_alone_say_whether_it_was_enough() -> None:
    told = [
        (outcome(run_id="good"), REQUEST, PROBE),
        (outcome(run_id="bad", signals={"task_satisfaction": 0.0}), REQUEST, PROBE),
        (outcome(run_id="outside", plan=Plan.SEARCH), REQUEST, PROBE),
        (outcome(run_id="unjudged", signals={}), REQUEST, PROBE),
    ]
    assert [(one.question, one.is_covered) for one in examples_of_runs(told, PROFILE)] == [
        ("good", True),
        ("bad", False),
    ]


@pytest.mark.parametrize(("propensity", "weight"), [(1.0, 1.0), (0.1, 10.0), (0.01, 20.0)])
def test_a_rare_draw_weighs_by_its_inverse_and_never_more_than_twenty(propensity: float, weight: float) -> None:
    [one] = examples_of_runs([(outcome(propensity=propensity), REQUEST, PROBE)], PROFILE)
    assert one.weight == pytest.approx(weight)


def test_a_comparison_tells_the_gain_over_the_profile_with_its_interval() -> None:
    pytest.importorskip("sklearn", reason="the extra fit is not installed")
    cases = [*examples(800, "a"), *examples(800, "b", seed=1)]
    stubborn = [replace(one, heuristic_goes=False) for one in cases]
    found = list(compare(stubborn, ["left out"], "test", Costs(), PROFILE))
    assert [one.source for one in found] == ["a", "b"]
    for one in found:
        assert one.heuristic_f1 == 0.0
        assert one.learned_f1 > 0.6
        assert 0.5 < one.difference.low < one.difference.value < one.difference.high
        assert one.calibration_error.value < 0.08
