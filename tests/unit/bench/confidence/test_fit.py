"""The fit of confidence: it finds the formula that made its cases, and says how wrong another one is."""

from __future__ import annotations

import numpy as np
import pytest

from bench.confidence.cases import Case
from bench.confidence.fit import fit_formula, fit_isotonic, log_odds_of_answers, weigh
from bench.confidence.report import judge_left_out, table_of_calibration
from sluice.trust.confidence import BY_MEANING, Formula, probability

TRUE = Formula(bias=-3.0, closeness=6.0, coverage=2.0, chunks=0.2)


def made_cases(collection: str, count: int, seed: int) -> list[Case]:
    """Questions whose best of three passages answers with the probability that `TRUE` gives it."""
    random = np.random.default_rng(seed)
    cases = []
    for number in range(count):
        figures, chunks = random.random((3, 2)), int(random.integers(3, 5_000))
        best = max(TRUE.log_odds(cosine, coverage, chunks) for cosine, coverage in figures)
        hit = random.random() < probability(best)
        kind = "covered" if hit else ("near", "far")[number % 2]
        cases.append(Case(collection, kind, "topic", number, chunks, figures, np.array([hit, False, False])))
    return cases


def test_the_fit_finds_the_formula_by_which_the_best_passages_answer() -> None:
    cases = made_cases("squad20_dev", 4_000, seed=1)
    fitted = fit_formula(cases, by_meaning=True, start=BY_MEANING)
    assert fitted.closeness == pytest.approx(TRUE.closeness, rel=0.2)
    assert fitted.coverage == pytest.approx(TRUE.coverage, rel=0.3)
    assert fitted.chunks > 0
    assert fit_formula(cases, by_meaning=False, start=BY_MEANING).closeness == 0.0


def test_collections_weigh_the_same_and_a_missing_kind_has_its_partners_share() -> None:
    cases = made_cases("cacm", 200, seed=2) + made_cases("npl", 50, seed=3)
    weights = weigh(cases)
    totals = {
        (name, kind): sum(
            weight for case, weight in zip(cases, weights, strict=True) if case.collection == name and case.kind == kind
        )
        for name in ("cacm", "npl")
        for kind in ("covered", "near", "far")
    }
    assert totals["cacm", "covered"] == pytest.approx(500)
    assert totals["npl", "covered"] == pytest.approx(500)
    assert totals["npl", "near"] == pytest.approx(totals["npl", "far"]) == pytest.approx(250)


def test_isotonic_regression_never_falls_and_keeps_the_mean() -> None:
    cases = made_cases("npl", 500, seed=4)
    happened = np.array([float(case.answered) for case in cases])
    log_odds = log_odds_of_answers(cases, TRUE)
    middles, chances = fit_isotonic(log_odds, happened, np.ones(len(cases)))
    assert (np.diff(chances) > 0).all()
    assert (np.diff(middles) > 0).all()
    assert np.interp(log_odds, middles, chances).mean() == pytest.approx(happened.mean(), abs=0.02)


def test_the_table_has_a_row_for_each_collection_with_the_error_and_its_interval() -> None:
    cases = [case for row, name in enumerate(("squad20_dev", "npl")) for case in made_cases(name, 150, seed=row)]
    judged = [one for one in judge_left_out([*cases, *made_cases("cacm", 150, seed=9)]) if one.cases]
    rows = list(table_of_calibration(judged))[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| squad20_dev", "| npl", "| cacm"]
    for row in rows:
        error, interval = row.split(" | ")[2:4]
        low, high = map(float, interval.split("–"))
        assert 0 < low <= high < 0.4
        assert float(error) < 0.3
