"""How many gate runs a stage of a canary takes at most, said before it begins.

A stage is as long as it takes to tell, with the wanted power, a model that is no different from one that is worse by
the margin, and one that is 10 % worse from one that is 5 % worse: whichever takes longer. Runs without feedback tell
nothing, so both are divided by the share of runs that are judged. The look at a fixed moment is counted; looking all
the way finds most differences earlier.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from sluice.contracts.errors import InvalidInput
from sluice.evaluation.rollout.canary import ALPHA, EARLY_MARGIN, MARGIN, SCALE
from sluice.evaluation.rollout.sequential import half_width

POWER = 0.97
"""At the stage's end. 95 % are wanted, and the variance is estimated."""
WORSE = 0.10
"""The loss of satisfaction, as a share, that a stage is long enough to find."""
ASSUMED_SATISFACTION = 0.8
ASSUMED_COVERAGE = 0.2
LEAST_JUDGED = 50
MOST_RUNS = 100_000_000


def expected_runs(
    stages: Sequence[float], *, satisfaction: float = ASSUMED_SATISFACTION, coverage: float = 1.0
) -> tuple[int, ...]:
    """The most gate runs of each stage with a control: the stages but the last, which is everything.

    `satisfaction` is the mean of the gate as it is, `coverage` the share of its runs that get feedback. A later stage
    has the runs of those before it too, and is said as if it had none: those may have been few.

    Raises:
        InvalidInput: `coverage` or `satisfaction` is not above 0 and at most 1.
    """
    for name, value in (("coverage", coverage), ("satisfaction", satisfaction)):
        if not 0 < value <= 1:
            raise InvalidInput(name, f"{value} is not above 0 and at most 1", "the share of runs with feedback")
    lengths = []
    for number, share in enumerate(stages[:-1]):
        margin = MARGIN if number == len(stages) - 2 else EARLY_MARGIN
        alike, worse = satisfaction, (1 - WORSE) * satisfaction
        needed = max(judged_units(satisfaction, alike, margin), judged_units(satisfaction, worse, WORSE - MARGIN))
        lengths.append(math.ceil(needed / share / coverage))
    return tuple(lengths)


def judged_units(satisfaction: float, canary: float, excess: float, power: float = POWER) -> int:
    """Judged units of each arm until a difference of `excess` x satisfaction beyond the tested one is found so often.

    `canary` is its own satisfaction. The variances are those of values of 0 and 1, the largest that values in [0, 1]
    with these means can have.
    """
    distance = excess * satisfaction
    variance = _variance(canary) + (1 - MARGIN) ** 2 * _variance(satisfaction)
    spread = NormalDist().inv_cdf(power)
    few, many = 1, MOST_RUNS
    while few < many:
        units = (few + many) // 2
        of_mean = variance / units
        if distance - spread * math.sqrt(of_mean) >= half_width(of_mean, SCALE, 2 * ALPHA):
            many = units
        else:
            few = units + 1
    return few


def _variance(mean: float) -> float:
    return max(mean * (1 - mean), 0.01)


@dataclass(frozen=True, slots=True)
class Judging:
    """How many runs are judged and how satisfied they are, and in words where that comes from."""

    satisfaction: float
    coverage: float
    told: str


def read_judging(satisfactions: Iterable[float | None]) -> Judging:
    """What to expect of the runs to come, from those before; None is a run that was not judged.

    Of fewer than fifty judged runs nothing is read: satisfaction and coverage are assumed, and said to be.
    """
    runs, judged, total = 0, 0, 0.0
    for satisfaction in satisfactions:
        runs += 1
        if satisfaction is not None:
            judged, total = judged + 1, total + satisfaction
    if judged < LEAST_JUDGED:
        told = f"only {judged} of {runs} runs before were judged: assumed are a satisfaction of {ASSUMED_SATISFACTION}"
        return Judging(ASSUMED_SATISFACTION, ASSUMED_COVERAGE, f"{told} and feedback on {ASSUMED_COVERAGE:.0%}")
    mean, coverage = max(total / judged, 0.01), judged / runs
    return Judging(
        mean, coverage, f"of {runs} runs before {coverage:.1%} were judged, with a satisfaction of {mean:.3f}"
    )
