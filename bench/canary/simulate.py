"""One canary after the other, from its first run to its end, judged by the real code at every look.

A run is of the canary with the stage's share, and of the control with the same; each is judged with the probability
`coverage`, and then satisfied with the arm's probability. Runs are drawn between two looks at once (a binomial draw of
the arms, of the judged, of the satisfied): the verdict knows no more of them than their sums.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sluice.evaluation.rollout.arm_figures import ArmFigures, Moments
from sluice.evaluation.rollout.canary import expected_runs, judge_stage

STAGES = (0.1, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class World:
    """What is true: the satisfaction of the gate as it is, the canary's loss of it, and the share that is judged.

    `runs_per_session`: how many runs a unit has; `session_spread` how much sessions differ in their satisfaction.
    """

    satisfaction: float = 0.8
    loss: float = 0.0
    coverage: float = 1.0
    look_every: int = 200


@dataclass(frozen=True, slots=True)
class Ended:
    """How one canary ended: promoted, stopped, or inconclusive in a stage; and after how many gate runs."""

    end: str
    runs: int
    stage: float


def run_canary(world: World, generator: np.random.Generator, stages: Sequence[float] = STAGES) -> Ended:
    """One canary, from its first run to a verdict that ends it."""
    lengths = expected_runs(stages, satisfaction=world.satisfaction, coverage=world.coverage)
    arms = {"canary": ArmFigures(), "control": ArmFigures()}
    rates = {"canary": world.satisfaction * (1 - world.loss), "control": world.satisfaction}
    total = 0
    for number, (share, length) in enumerate(zip(stages, lengths, strict=False)):
        in_stage = 0
        while True:
            looked = min(world.look_every, length - in_stage)
            in_stage, total = in_stage + looked, total + looked
            sizes = generator.multinomial(looked, (share, share, 1 - 2 * share))
            for (name, arm), size in zip(tuple(arms.items()), sizes, strict=False):
                arms[name] = _with_runs(arm, int(size), world.coverage, rates[name], generator)
            verdict = judge_stage(
                arms["canary"], arms["control"], is_last=number == len(lengths) - 1, stage_is_over=in_stage >= length
            )
            if verdict.kind == "stop":
                return Ended("stopped", total, share)
            if verdict.kind == "promote":
                break
            if in_stage >= length:
                return Ended("inconclusive", total, share)
    return Ended("promoted", total, stages[-1])


def _with_runs(arm: ArmFigures, size: int, coverage: float, rate: float, generator: np.random.Generator) -> ArmFigures:
    judged = int(generator.binomial(size, coverage))
    satisfied = int(generator.binomial(judged, rate))
    new = Moments(judged, judged, satisfied, judged, satisfied, satisfied)  # each unit has one value, 0 or 1
    moments = {**arm.moments, "satisfaction": arm.of("satisfaction") + new}
    return replace(arm, runs=arm.runs + size, units=arm.units + size, ended=arm.ended + size, moments=moments)


@dataclass(frozen=True, slots=True)
class Canaries:
    """How many canaries ended in each way, and the median of the gate runs that those took which were stopped."""

    world: World
    canaries: int
    ends: Counter[str]
    stopped_after: float | None
    promoted_after: float | None
    longest: int


def simulate(world: World, canaries: int, seed: int) -> Canaries:
    """Many canaries of one world."""
    generator = np.random.default_rng(seed)
    ended = [run_canary(world, generator) for _ in range(canaries)]
    return Canaries(
        world,
        canaries,
        Counter(one.end for one in ended),
        _median([one.runs for one in ended if one.end == "stopped"]),
        _median([one.runs for one in ended if one.end == "promoted"]),
        max(one.runs for one in ended),
    )


def _median(runs: Sequence[int]) -> float | None:
    return statistics.median(runs) if runs else None
