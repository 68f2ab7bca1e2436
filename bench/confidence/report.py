"""The tables: each collection by a formula that was fitted on the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from bench.confidence.cases import COLLECTIONS, MIDDLE, SMALL, Case
from bench.confidence.fit import (
    SHARES,
    fit_by_tokens,
    fit_formula,
    fit_isotonic,
    log_odds_of_answers,
    log_odds_of_passages,
    weigh,
)
from bench.gate.measures import Floats, area_under_curve, calibration_error, reliability
from sluice.trust.confidence import (
    BY_MEANING,
    BY_TOKENS,
    BY_WORDS,
    LIMITED_BELOW,
    Formula,
    JudgedAnswer,
    ReadFormula,
    fit_prior,
)

ONE_TOPIC = "climate_fever_sent"
"""Every document is about the climate, and of the sentences that support a claim few are marked: nothing is fitted
on it."""
ARTICLES = "squad20_dev"
FOLDS = 5
FLOORS = (0.1, 0.15, 0.2, 0.25, 0.3)
ABSENT = ("far", "stranger")
LOST = 0.08
_ABSTAINED = "abstained: stranger | topic missing | answer missing | unanswerable"
RESAMPLES = 300
OUTCOMES = (0, 30, 100, 300)
DRAWS = 10
INSIDE = 0.34
"""Probability from which the gate answers from the corpus."""
MIXES: Mapping[str, Mapping[str, float]] = {
    "answer / answer missing / topic missing 2 : 1 : 1 (assumed)": SHARES,
    "1 : 1 : 1": {"covered": 2.0, "near": 1.0, "unanswerable": 1.0, "far": 1.0, "stranger": 1.0},
    "3 : 1 : 1": {"covered": 3.0, "near": 0.5, "unanswerable": 0.5, "far": 0.5, "stranger": 0.5},
    "2 : 0 : 1": {"covered": 2.0, "near": 1e-6, "unanswerable": 1e-6, "far": 0.5, "stranger": 0.5},
    "1 : 0 : 1": {"covered": 2.0, "near": 1e-6, "unanswerable": 1e-6, "far": 1.0, "stranger": 1.0},
    "2 : 1 : 0": {"covered": 2.0, "near": 0.5, "unanswerable": 0.5, "far": 1e-6, "stranger": 1e-6},
}


@dataclass(frozen=True)
class Judged:
    """Cases of one collection, by a formula that none of them was fitted with."""

    name: str
    cases: Sequence[Case]
    formula: Formula
    said: Floats
    """The confidence of each answer, by the logistic curve."""
    said_isotonic: Floats

    @property
    def happened(self) -> Floats:
        return np.array([float(case.answered) for case in self.cases])

    @property
    def kinds(self) -> NDArray[np.str_]:
        return np.array([case.kind for case in self.cases])

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether a passage that answers was found: what can be lost."""
        return (self.kinds == "covered") & (self.happened > 0)


def judge_left_out(cases: Sequence[Case], *, by_meaning: bool = True) -> list[Judged]:
    """Each collection by the formula that is fitted on the others."""
    return [
        _judge(name, [case for case in cases if case.collection == name], _but(cases, name), by_meaning)
        for name in COLLECTIONS
    ]


def judge_shipped(cases: Sequence[Case]) -> list[Judged]:
    """Each collection by the formulas as they are shipped."""
    judged = []
    for name in COLLECTIONS:
        own = [case for case in cases if case.collection == name]
        said = _chance(log_odds_of_answers(own, BY_MEANING, BY_TOKENS))
        judged.append(Judged(name, own, BY_MEANING, said, said))
    return judged


def judge_articles(cases: Sequence[Case]) -> Judged:
    """SQuAD by folds of articles, each judged by the other folds and the other collections."""
    own = [case for case in cases if case.collection == ARTICLES and case.topic]
    parts = []
    for fold in range(FOLDS):
        held = [case for case in own if _fold(case.topic) == fold]
        others = [case for case in own if _fold(case.topic) != fold]
        parts.append(_judge(ARTICLES, held, [*others, *_but(cases, ARTICLES)], by_meaning=True))
    together = [case for part in parts for case in part.cases]
    said, isotonic = (
        np.concatenate([part.said for part in parts]),
        np.concatenate([part.said_isotonic for part in parts]),
    )
    return Judged(f"{ARTICLES}, folds of articles", together, parts[0].formula, said, isotonic)


def fit_all(cases: Sequence[Case]) -> tuple[Formula, ReadFormula | None, Formula]:
    """The formulas to ship, by meaning, by tokens and by words: fitted on all collections but the one of one topic."""
    chosen = _but(cases, "")
    return (
        fit_formula(chosen, by_meaning=True, start=BY_MEANING),
        fit_by_tokens(chosen),
        fit_formula(chosen, by_meaning=False, start=BY_WORDS),
    )


def table_of_calibration(judged: Sequence[Judged]) -> Iterator[str]:
    """ECE with its interval, Brier, area, and what isotonic regression would give."""
    yield "| left out | questions | ECE | 95 % interval | Brier | area, topic missing | answer missing | isotonic ECE |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for one in judged:
        weights = weigh(one.cases)
        error = calibration_error(one.said, one.happened, weights)
        low, high = _interval(one)
        brier = float(weights @ (one.said - one.happened) ** 2 / weights.sum())
        isotonic = calibration_error(one.said_isotonic, one.happened, weights)
        areas = " | ".join(f"{_area(one, kinds):.3f}" for kinds in (ABSENT, ("near", "unanswerable")))
        count = len({case.question for case in one.cases})
        yield (
            f"| {one.name} | {count:,} | {error:.3f} | {low:.3f}–{high:.3f} | {brier:.3f} | {areas} | {isotonic:.3f} |"
        )


def table_of_floors(judged: Sequence[Judged]) -> Iterator[str]:
    """What each floor loses, and of what it abstains."""
    yield f"| left out | floor | lost | right passage cited | passages cited | {_ABSTAINED} |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for one in judged:
        passages = [1 / (1 + np.exp(-log_odds_of_passages(case, one.formula))) for case in one.cases]
        found = np.nonzero(one.found)[0]
        for floor in FLOORS:
            kept = np.mean([(passages[row] >= floor)[one.cases[row].relevant].any() for row in found])
            cited = np.mean([(passages[row] >= floor).sum() for row in found])
            cells = " | ".join(
                _share_below(one, (kind,), floor) for kind in ("stranger", "far", "near", "unanswerable")
            )
            lost = float((one.said[one.found] < floor).mean())
            yield f"| {one.name} | {floor} | {lost:.3f} | {kept:.3f} | {cited:.1f} | {cells} |"


def table_of_operating_points(judged: Sequence[Judged]) -> Iterator[str]:
    """What is abstained of where a twelfth of the answerable is lost, whatever floor that takes."""
    yield f"| left out | floor | {_ABSTAINED} |\n|---|---:|---:|---:|---:|---:|"
    for one in judged:
        floor = float(np.quantile(one.said[one.found], LOST))
        cells = " | ".join(_share_below(one, (kind,), floor) for kind in ("stranger", "far", "near", "unanswerable"))
        yield f"| {one.name} | {floor:.2f} | {cells} |"


def table_of_limits(judged: Sequence[Judged]) -> Iterator[str]:
    """How many answers state their limits."""
    yield "| left out | answered | topic missing | answer missing | unanswerable |\n|---|---:|---:|---:|---:|"
    for one in judged:
        cells = [_share_below(one, kinds, LIMITED_BELOW) for kinds in (ABSENT, ("near",), ("unanswerable",))]
        yield f"| {one.name} | {float((one.said[one.found] < LIMITED_BELOW).mean()):.2f} | " + " | ".join(cells) + " |"


def table_of_mixes(one: Judged) -> Iterator[str]:
    """The error where questions come in other proportions than assumed."""
    yield "| proportions | ECE |\n|---|---:|"
    for name, shares in MIXES.items():
        yield f"| {name} | {calibration_error(one.said, one.happened, weigh(one.cases, shares)):.3f} |"


def table_of_priors(judged: Sequence[Judged]) -> Iterator[str]:
    """The error of the shipped formulas in each proportion, before and after the prior of some outcomes.

    The outcomes are drawn from half of the questions, of those that the gate keeps inside; the error is measured on the
    other half.
    """
    yield "| collection | proportions | " + " | ".join(f"ECE after {count} outcomes" for count in OUTCOMES) + " |"
    yield "|---|---|" + "---:|" * len(OUTCOMES)
    for one in judged:
        for name, shares in MIXES.items():
            cells = " | ".join(f"{_error_after(one, weigh(one.cases, shares), count):.3f}" for count in OUTCOMES)
            yield f"| {one.name} | {name} | {cells} |"


def _error_after(one: Judged, weights: Floats, count: int) -> float:
    errors, questions = [], np.array([case.question for case in one.cases])
    for seed in range(DRAWS):
        random = np.random.default_rng(seed)
        seen = np.isin(questions, random.permutation(np.unique(questions))[::2])
        chances = weights * seen * (one.said >= INSIDE)
        drawn = random.choice(len(questions), count, p=chances / chances.sum())
        outcomes = [JudgedAnswer(float(one.said[row]), float(one.happened[row]), "") for row in drawn]
        prior = fit_prior(outcomes, has_several=False)
        said = _chance(log_odds_of_answers(one.cases, BY_MEANING, BY_TOKENS, prior))
        errors.append(calibration_error(said[~seen], one.happened[~seen], weights[~seen]))
    return float(np.mean(errors))


def table_of_sizes(judged: Sequence[Judged]) -> Iterator[str]:
    """Said and happened by the size of the corpus, all collections that are fitted on together."""
    yield "| passages in the corpus | said | happened | lost at 0.2 | topic missing: abstained at 0.2 |"
    yield "|---|---:|---:|---:|---:|"
    sizes: Mapping[str, Callable[[int], bool]] = {
        f"up to {2 * SMALL}": lambda count: count <= 2 * SMALL,
        f"up to {2 * MIDDLE:,}": lambda count: 2 * SMALL < count <= 2 * MIDDLE,
        "more": lambda count: count > 2 * MIDDLE,
    }
    for name, holds in sizes.items():
        rows = [
            (said, case, weight)
            for one in judged
            if one.name != ONE_TOPIC
            for said, case, weight in zip(one.said, one.cases, weigh(one.cases), strict=True)
            if holds(case.chunk_count)
        ]
        said, weights = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
        happened = np.array([float(case.answered) for _, case, _ in rows])
        lost = float((said[happened > 0] < 0.2).mean())
        absent = np.array([case.kind in ABSENT for _, case, _ in rows])
        yield (
            f"| {name} | {float(weights @ said / weights.sum()):.2f} | {float(weights @ happened / weights.sum()):.2f} "
            f"| {lost:.3f} | {float((said[absent] < 0.2).mean()):.2f} |"
        )


def table_of_reliability(judged: Sequence[Judged]) -> list[str]:
    """Tenths of equal weight: what was said, and what happened; all collections that are fitted on together."""
    chosen = [one for one in judged if one.name != ONE_TOPIC]
    said, happened, weights = (
        np.concatenate([one.said for one in chosen]),
        np.concatenate([one.happened for one in chosen]),
        np.concatenate([weigh(one.cases) for one in chosen]),
    )
    return reliability(said, happened, weights)


def _judge(name: str, held: Sequence[Case], fitted_on: Sequence[Case], by_meaning: bool) -> Judged:
    formula = fit_formula(fitted_on, by_meaning=by_meaning, start=BY_MEANING if by_meaning else BY_WORDS)
    by_tokens = fit_by_tokens(fitted_on) if by_meaning else None
    known = np.array([float(case.answered) for case in fitted_on])
    curve = fit_isotonic(log_odds_of_answers(fitted_on, formula, by_tokens), known, weigh(fitted_on))
    log_odds = log_odds_of_answers(held, formula, by_tokens)
    return Judged(name, held, formula, _chance(log_odds), np.interp(log_odds, *curve))


def _chance(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def _but(cases: Sequence[Case], name: str) -> list[Case]:
    return [case for case in cases if case.collection not in (name, ONE_TOPIC)]


def _fold(topic: str) -> int:
    return sha256(topic.encode()).digest()[0] % FOLDS


def _area(one: Judged, kinds: Sequence[str]) -> float:
    chosen = one.found | np.isin(one.kinds, kinds)
    return area_under_curve(one.found[chosen], one.said[chosen])


def _share_below(one: Judged, kinds: Sequence[str], floor: float) -> str:
    chosen = np.isin(one.kinds, kinds)
    return f"{float((one.said[chosen] < floor).mean()):.2f}" if chosen.any() else ""


def _interval(one: Judged) -> tuple[float, float]:
    """The middle 95 % of the error over resamples of the questions, each with all its cases."""
    random = np.random.default_rng(1)
    weights, happened = weigh(one.cases), one.happened
    number = {question: row for row, question in enumerate(dict.fromkeys(case.question for case in one.cases))}
    owner = np.array([number[case.question] for case in one.cases])
    errors = []
    for _ in range(RESAMPLES):
        times = np.bincount(random.integers(len(number), size=len(number)), minlength=len(number))[owner]
        drawn = np.repeat(np.arange(len(owner)), times)
        errors.append(calibration_error(one.said[drawn], happened[drawn], weights[drawn]))
    low, high = np.quantile(errors, [0.025, 0.975])
    return float(low), float(high)
