"""Compares a learned gate with the profile on cases that its fit did not see: per collection, in three ways.

five folds          fitted on all collections, a fifth of the articles of each held back
five folds, own     as that, on the one collection alone
left out            fitted on the other collections alone: what it does on a corpus that none has seen
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sluice.contracts.errors import InvalidInput
from sluice.evaluation.learned_gate import Interval, Resamples, area, f1
from sluice.gate.learned.model import Costs, GateModel, Thresholds
from sluice.gate.profile import Profile
from sluice.workers.training.examples import Example, Flags, Floats
from sluice.workers.training.fit import fit_gate, fold_of

Way = Literal["five folds", "five folds, own", "left out"]
WAYS: tuple[Way, ...] = get_args(Way)
ENOUGH_FOR_CALIBRATION = 1_000
"""Cases of a collection from which its calibration error says more than chance: a perfect model measures .03 there."""


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
    """What probabilities that are exactly right would measure on so many cases."""


def compare(
    examples: Sequence[Example], ways: Sequence[Way], fingerprint: str, costs: Costs, profile: Profile
) -> Iterator[Comparison]:
    """Each collection in each way; one that cannot be fitted so, since too little is left, is left out."""
    for source in sorted({one.source for one in examples}):
        own = [one for one in examples if one.source == source]
        for way in ways:
            try:
                probabilities = _unseen(own, examples, way, fingerprint, costs)
            except InvalidInput:
                continue
            yield measure(own, probabilities, way, costs, profile)


def measure(examples: Sequence[Example], probabilities: Floats, way: Way, costs: Costs, profile: Profile) -> Comparison:
    """The comparison on cases that have the given probabilities of an answer."""
    thresholds = Thresholds.of_costs(costs)
    covered = np.array([one.is_covered for one in examples])
    weights = np.array([one.weight for one in examples])
    goes = np.array(
        [one.goes(float(p), thresholds, profile) for one, p in zip(examples, probabilities, strict=True)], dtype=bool
    )
    heuristic_goes = np.array([one.heuristic_goes for one in examples])
    heuristic_scores = np.array([one.heuristic_score for one in examples])
    resamples = Resamples(_numbers([one.question for one in examples]))
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
    """What models say of the cases of one source that they did not see: of none of it, or else of no held article.

    Raises:
        InvalidInput: there are too few examples for either.
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
    pool_folds = [fold_of(one.article) for one in pool]
    own_folds, probabilities = np.array([fold_of(one.article) for one in own]), np.empty(len(own))
    for number in sorted(set(own_folds.tolist())):
        fitted_on = [one for one, fold in zip(pool, pool_folds, strict=True) if fold != number]
        held: Flags = own_folds == number
        of_fold = [one for one, is_held in zip(own, held, strict=True) if is_held]
        probabilities[held] = _asked(fit_gate(fitted_on, "fold", fingerprint, costs), of_fold)
    return probabilities


def _asked(model: GateModel, examples: Sequence[Example]) -> Floats:
    return np.array([model.probability(one.features) for one in examples])


def _numbers(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    known: Mapping[str, int] = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([known[name] for name in names], dtype=np.int64)
