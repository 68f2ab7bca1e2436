"""The fit of a learned gate, by scikit-learn (the extra `fit`): a logistic regression, calibrated on unseen scores.

The model is a plain value of numbers; using it needs no library. It is compared with the profile on
cases that its fit did not see, per collection, in three ways:

    five folds          fitted on all collections, a fifth of the articles of each held back
    five folds, own     as that, on the one collection alone
    left out            fitted on the other collections alone: the result on a corpus that no fit has seen
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.evaluation.learned_gate import Interval, Resamples, area, f1
from sluice.gate.learned.model import FEATURES, FEATURES_VERSION, Costs, GateModel, Knot, Term, Thresholds
from sluice.gate.profile import Profile
from sluice.text.words import sigmoid
from sluice.workers.training.examples import Example, Flags, Floats, Table

Way = Literal["five folds", "five folds, own", "left out"]
WAYS: tuple[Way, ...] = get_args(Way)
FOLDS = 5
RIDGE = 1.0
"""scikit-learn's C: the inverse of the ridge, for features of scale 1 and some thousand runs."""
ISOTONIC_FROM = 1_000
"""Cases from which isotonic regression is the better calibration; below it is Platt's (measured: true error at 200
points 0.048 against 0.031, at 1,000 0.017 against 0.025)."""
SOURCES_APART = 3
"""Sources from which on the scores to calibrate on come from models that did not see the whole source."""
SUREST = 0.99
"""Highest probability of a case, either way: some thousand cases support no more."""
FEWEST = 50
"""Cases of each label below which nothing is fitted."""
STANDARD_NORMAL_SCALE = 1e-6
"""Least scale of a feature: one that does not vary gets a weight of 0 in effect."""


def fit_gate(examples: Sequence[Example], version: str, fingerprint: str, costs: Costs | None = None) -> GateModel:
    """Fit a calibrated model to the examples.

    Raises:
        InvalidInput: there are too few examples of a label.
        Unavailable: scikit-learn is not installed; names the extra.
    """
    table, costs = Table.of(examples), costs or Costs()
    covered = int(table.covered.sum())
    if min(covered, len(examples) - covered) < FEWEST:
        raise InvalidInput(
            "examples",
            f"{covered} that the corpus answered and {len(examples) - covered} that it did not",
            f"at least {FEWEST} of each; give collections with --data, or wait for more feedback",
        )
    terms, bias = _fit_terms(table)
    unseen = np.empty(len(examples))
    for held in folds_for_calibration(examples):
        own_terms, own_bias = _fit_terms(Table(table.features[~held], table.covered[~held], table.weights[~held]))
        unseen[held] = _scores(table.features[held], own_terms, own_bias)
    return GateModel(
        version=version,
        features_version=FEATURES_VERSION,
        embedder_fingerprint=fingerprint,
        bias=bias,
        terms=terms,
        costs=costs,
        thresholds=Thresholds.of_costs(costs),
        **(_isotonic(unseen, table) if len(unseen) >= ISOTONIC_FROM else _platt(unseen, table)),
    )


def folds_for_calibration(examples: Sequence[Example]) -> Iterator[Flags]:
    """Yield the examples that each fold holds back: whole sources if there are several, else whole articles."""
    sources = sorted({one.source for one in examples})
    if len(sources) >= SOURCES_APART:
        names = np.array([one.source for one in examples])
        yield from (names == source for source in sources)
    else:
        yield from folds_of_articles(examples)


def folds_of_articles(examples: Sequence[Example]) -> Iterator[Flags]:
    """Yield the examples that each of five folds holds back: whole articles, by a hash of their names."""
    numbers = np.array([fold_of(one.article) for one in examples])
    yield from (held for number in range(FOLDS) if (held := numbers == number).any())


def fold_of(article: str) -> int:
    """Return the fold of an article, the same on every machine."""
    return int.from_bytes(sha256(f"fold:{article}".encode()).digest()[:8], "big") % FOLDS


def load_fitting(module: str) -> Any:
    """Import a module of scikit-learn. Raises `Unavailable` if it is not installed; the error names the extra."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise Unavailable("scikit-learn is not installed: pip install 'sluice[fit]' brings it") from error


def _fit_terms(table: Table) -> tuple[tuple[Term, ...], float]:
    weights = table.weights / table.weights.sum()
    means = weights @ table.features
    scales = np.maximum(STANDARD_NORMAL_SCALE, np.sqrt(weights @ (table.features - means) ** 2))
    regression = load_fitting("linear_model").LogisticRegression(C=RIDGE, max_iter=1_000, tol=1e-8)
    regression.fit((table.features - means) / scales, table.covered, sample_weight=table.weights)
    terms = tuple(
        Term(feature=name, mean=float(mean), scale=float(scale), weight=float(weight))
        for name, mean, scale, weight in zip(FEATURES, means, scales, regression.coef_[0], strict=True)
    )
    return terms, float(regression.intercept_[0])


def _scores(features: Floats, terms: Sequence[Term], bias: float) -> Floats:
    """Compute `GateModel.score` for many at once: exactly what the model gives, so that knots lie where scores will."""
    return np.array(
        [
            sigmoid(math.fsum([bias, *(t.weight * ((v - t.mean) / t.scale) for t, v in zip(terms, row, strict=True))]))
            for row in features.tolist()
        ]
    )


def _isotonic(scores: Floats, table: Table) -> dict[str, Any]:
    regression = load_fitting("isotonic").IsotonicRegression(
        y_min=1 - SUREST, y_max=SUREST, increasing=True, out_of_bounds="clip"
    )
    regression.fit(scores, table.covered.astype(float), sample_weight=table.weights)
    knots = zip(regression.X_thresholds_.tolist(), regression.y_thresholds_.tolist(), strict=True)
    calibration = tuple(Knot(score=score, probability=probability) for score, probability in knots)
    return {"calibration_method": "isotonic", "calibration": calibration}


def _platt(scores: Floats, table: Table) -> dict[str, Any]:
    log_odds = np.log(scores / (1 - scores))[:, None]
    regression = load_fitting("linear_model").LogisticRegression(C=1e6, max_iter=1_000)
    regression.fit(log_odds, table.covered, sample_weight=table.weights)
    slope, intercept = float(regression.coef_[0, 0]), float(regression.intercept_[0])
    return {"calibration_method": "platt", "platt_slope": slope, "platt_intercept": intercept}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One collection: the learned gate against the profile's score, on the same cases. F1 is of going outside."""

    source: str
    way: Way
    cases: int
    heuristic_f1: float
    heuristic_area: float
    learned_f1: float
    learned_area: float
    difference: Interval
    calibration_error: Interval
    perfect_calibration_error: float
    """Calibration error that exactly right probabilities would show on so many cases."""


def compare(
    examples: Sequence[Example], ways: Sequence[Way], fingerprint: str, costs: Costs, profile: Profile
) -> Iterator[Comparison]:
    """Compare each collection in each way; leave out one with too few examples to be fitted so."""
    for source in sorted({one.source for one in examples}):
        own = [one for one in examples if one.source == source]
        for way in ways:
            try:
                probabilities = _unseen(own, examples, way, fingerprint, costs)
            except InvalidInput:
                continue
            yield measure(own, probabilities, way, costs, profile)


def measure(examples: Sequence[Example], probabilities: Floats, way: Way, costs: Costs, profile: Profile) -> Comparison:
    """Compare model and profile on cases that have the given probabilities of an answer."""
    thresholds = Thresholds.of_costs(costs)
    covered = np.array([one.is_covered for one in examples])
    weights = np.array([one.weight for one in examples])
    goes = np.array(
        [one.goes(float(p), thresholds, profile) for one, p in zip(examples, probabilities, strict=True)], dtype=bool
    )
    heuristic_goes = np.array([one.heuristic_goes for one in examples])
    heuristic_scores = np.array([one.heuristic_score for one in examples])
    known = {name: number for number, name in enumerate(dict.fromkeys(one.question for one in examples))}
    resamples = Resamples(np.array([known[one.question] for one in examples], dtype=np.int64))
    return Comparison(
        source=examples[0].source,
        way=way,
        cases=len(examples),
        heuristic_f1=f1(~covered, heuristic_goes, weights),
        heuristic_area=area(~covered, heuristic_scores, weights),
        learned_f1=f1(~covered, goes, weights),
        learned_area=area(~covered, -probabilities, weights),
        difference=resamples.f1_difference(~covered, goes, heuristic_goes, weights),
        calibration_error=resamples.calibration_error(probabilities, covered, weights),
        perfect_calibration_error=resamples.perfect_calibration_error(probabilities, weights),
    )


def unseen_probabilities(
    own: Sequence[Example], everything: Sequence[Example], fingerprint: str, costs: Costs
) -> Floats:
    """Return probabilities for one source's cases from models that saw none of it, or else none of the case's article.

    Raises `InvalidInput` if there are too few examples for either.
    """
    try:
        return _unseen(own, everything, "left out", fingerprint, costs)
    except InvalidInput:
        return _unseen(own, everything, "five folds", fingerprint, costs)


def _unseen(own: Sequence[Example], everything: Sequence[Example], way: Way, fingerprint: str, costs: Costs) -> Floats:
    others = [one for one in everything if one.source != own[0].source]
    if way == "left out":
        return _asked(fit_gate(others, "left-out", fingerprint, costs), own)
    pool: Sequence[Example] = own if way == "five folds, own" else [*own, *others]
    probabilities = np.empty(len(own))
    for held in folds_of_articles(pool):
        own_held = held[: len(own)]
        if own_held.any():
            fitted_on = [one for one, is_held in zip(pool, held, strict=True) if not is_held]
            of_fold = [one for one, is_held in zip(own, own_held, strict=True) if is_held]
            probabilities[own_held] = _asked(fit_gate(fitted_on, "fold", fingerprint, costs), of_fold)
    return probabilities


def _asked(model: GateModel, examples: Sequence[Example]) -> Floats:
    return np.array([model.probability(one.features) for one in examples])
