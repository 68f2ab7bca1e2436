"""Compares two reports of the same questions: the changes, their significance, and the drops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sluice.contracts.base import Value
from sluice.contracts.errors import Conflict
from sluice.contracts.retrieval import Strategy
from sluice.evaluation.retrieval.measures import HEADLINES, MEASURES, Floats, randomisation_p
from sluice.evaluation.retrieval.report import Report, StrategyReport

MAX_DROP = 0.05
"""The relative drop of a headline measure that fails a comparison: users do not notice a difference below 5 %, by the
rule of thumb of Spärck Jones (Automatic indexing, Journal of Documentation 30(4), 1974)."""
TIE = 1e-6
"""Values that differ by no more are equal: a report keeps six digits."""


class Change(Value):
    """One measure of one strategy in both reports. Wins are questions that are better after.

    `difference` is after - before, `relative` the same as a share of before (None where that is 0). `p` is of a
    two-sided paired randomisation test: the probability of a difference as large by chance alone.
    """

    strategy: Strategy
    measure: str
    before: float
    after: float
    difference: float
    relative: float | None
    p: float
    wins: int
    losses: int
    ties: int
    is_drop: bool


class Comparison(Value):
    """All changes, and the strategies that only one of the reports has."""

    case_count: int
    max_drop: float
    changes: tuple[Change, ...]
    only_in_one: tuple[Strategy, ...]

    @property
    def drops(self) -> tuple[Change, ...]:
        """Return the headline measures that fell by more than the allowed drop."""
        return tuple(change for change in self.changes if change.is_drop)


def compare(before: Report, after: Report, max_drop: float = MAX_DROP) -> Comparison:
    """Return the changes from one report to another of the same questions and judgments.

    Raises `Conflict` if the questions or judgments differ, or no strategy or measure is in both.
    """
    if before.cases_sha256 != after.cases_sha256:
        raise Conflict(
            f"the reports are of different questions or judgments ({before.case_count} of {before.subject.source}, "
            f"{after.case_count} of {after.subject.source}); evaluate both sides on the same ones"
        )
    common = [strategy for strategy in before.strategies if strategy in after.strategies]
    if not common:
        raise Conflict("the reports have no strategy in common; evaluate both sides with the same --strategy")
    return Comparison(
        case_count=before.case_count,
        max_drop=max_drop,
        changes=tuple(
            change
            for strategy in common
            for change in _changes(strategy, before.strategies[strategy], after.strategies[strategy], max_drop)
        ),
        only_in_one=tuple(sorted({*before.strategies} ^ {*after.strategies})),
    )


def _changes(strategy: Strategy, before: StrategyReport, after: StrategyReport, max_drop: float) -> list[Change]:
    measures = [name for name in MEASURES if name in before.values and name in after.values]
    if not measures:
        raise Conflict(f"the reports have no measure of {strategy} in common; evaluate both sides with this version")
    differences = np.column_stack([_differences(before.values[name], after.values[name]) for name in measures])
    chances = randomisation_p(differences)
    means = ((before.means[name].mean, after.means[name].mean) for name in measures)
    return [
        Change(
            strategy=strategy,
            measure=measure,
            before=was,
            after=is_now,
            difference=is_now - was,
            relative=(relative := (is_now - was) / was if was else None),
            p=float(p),
            wins=int((column > 0).sum()),
            losses=int((column < 0).sum()),
            ties=int((column == 0).sum()),
            is_drop=measure in HEADLINES and relative is not None and relative < -max_drop - TIE,
        )
        for measure, (was, is_now), column, p in zip(measures, means, differences.T, chances, strict=True)
    ]


def _differences(before: Mapping[str, float], after: Mapping[str, float]) -> Floats:
    """Return after - before of each question, shape (questions,)."""
    if before.keys() != after.keys():
        raise Conflict("the reports have values of different questions: one of them is not as it was written")
    found = np.array([after[case] - value for case, value in before.items()], dtype=np.float64)
    return np.where(np.abs(found) <= TIE, 0.0, found)
