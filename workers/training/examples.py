"""Makes the examples of a fit from collections and recorded runs: features, label and weight.

A recorded run shows whether the corpus was enough only if it was answered from the corpus alone (plan `retrieve`): its
satisfaction is the label. The gate of its time chose these runs, so each weighs by the inverse of the propensity of its
draw (Horvitz and Thompson, 1952), at most `MOST_WEIGHT`. Runs that always went outside teach nothing, and the
collections stand for them. One model decides for every owner (API key), so where there are several none has more than
`MOST_OF_OWNER` of the evidence, or than the owner with the second most.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import CoverageProbed, GateRequested
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.gate.decide import choose_plan, compute_score, coverage_score
from sluice.gate.learned.model import FEATURES, Thresholds, choose_learned_plan, read_features
from sluice.gate.profile import Profile
from sluice.gate.signals import Signals, read_signals

SHARES: Mapping[str, float] = {"covered": 1.0, "near": 0.5, "far": 0.5}
"""Weight of each kind in a collection: half of the questions are covered, and of the others half are near."""
MOST_WEIGHT = 20.0
"""A run of a share of 5 % or less counts as twenty: one run must not outweigh the rest."""
SATISFIED = 0.5
"""The satisfaction from which a run counts as answered."""
MOST_OF_OWNER = 1 / 3
"""The others, collections among them, outweigh the labels of any one owner two to one."""
LEAST_EVIDENCE = 100.0
"""Runs as which all evidence must weigh together once owners are bounded."""
RUNS_SOURCE = "runs"
OUTSIDE = (Plan.SEARCH, Plan.FULL_LOOP)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Example:
    """One case: its source, what the gate measured, whether the corpus answered, and its weight."""

    source: str
    """A collection, or the recorded runs."""
    article: str
    """Cases of one article are on one side of a split."""
    question: str
    kind: str
    features: Mapping[str, float]
    signals: Signals
    is_covered: bool
    weight: float
    heuristic_goes: bool
    """Whether the profile's score goes outside."""
    heuristic_score: float
    owner: str = ""
    """The API key whose feedback is the label of a recorded run."""

    def goes(self, probability: float, thresholds: Thresholds, profile: Profile) -> bool:
        """Return whether a model that gives `probability` goes outside."""
        return choose_learned_plan(probability, thresholds, self.signals, profile) in OUTSIDE


def make_example(
    source: str,
    article: str,
    question: str,
    kind: str,
    covered: bool,
    request: GateRequested,
    probed: CoverageProbed,
    profile: Profile,
) -> Example:
    """Return the example of one case, of weight 1: the gate's features of its probe, and what the profile would do."""
    signals = read_signals(request, probed, profile)
    plan = choose_plan(compute_score(signals, profile), signals, profile)
    return Example(
        source=source,
        article=article,
        question=question,
        kind=kind,
        features=read_features(probed),
        signals=signals,
        is_covered=covered,
        weight=1.0,
        heuristic_goes=plan in OUTSIDE,
        heuristic_score=coverage_score(signals, profile),
    )


def weigh_by_kind(examples: Sequence[Example]) -> list[Example]:
    """Weigh cases of collections: every collection weighs the same, and so do kinds by `SHARES`, in units of runs."""
    counts = Counter((one.source, one.kind) for one in examples)
    return [replace(one, weight=SHARES[one.kind] / counts[one.source, one.kind]) for one in examples]


def examples_of_runs(
    runs: Iterable[tuple[RunOutcome, GateRequested, CoverageProbed]], profile: Profile
) -> list[Example]:
    """Return the recorded runs that show whether the corpus was enough, weighed by the inverse of their propensity."""
    found = []
    for outcome, request, probed in runs:
        if outcome.plan is not Plan.RETRIEVE or outcome.satisfaction is None or not probed.hits:
            continue
        covered = outcome.satisfaction >= SATISFIED
        one = make_example(RUNS_SOURCE, request.query, outcome.run_id, "run", covered, request, probed, profile)
        found.append(replace(one, weight=min(MOST_WEIGHT, 1 / outcome.propensity), owner=outcome.label_of))
    return found


def weigh_together(
    prior: Sequence[Example], runs: Sequence[Example], pseudo_runs: float, *, several_owners: bool = False
) -> list[Example]:
    """Combine both; the collections weigh as `pseudo_runs` runs in all, and fade as runs come: n0 x n0 / (n0 + n).

    `several_owners`: the instance has several, and each is bounded. Raises `InvalidInput` if too little remains.
    """
    of_collections = pseudo_runs if prior else 0.0
    if runs and several_owners:
        runs = _bounded(runs, of_collections)
    mass, total = _fading(of_collections, weight_of(runs)), weight_of(prior)
    return [*(replace(one, weight=one.weight / total * mass) for one in prior), *runs]


def weight_of(examples: Iterable[Example]) -> float:
    """Return the weight of all examples together."""
    return sum(one.weight for one in examples)


def _fading(pseudo_runs: float, runs: float) -> float:
    return pseudo_runs * pseudo_runs / (pseudo_runs + runs) if pseudo_runs else 0.0


def _bounded(runs: Sequence[Example], pseudo_runs: float) -> list[Example]:
    """Bound each owner's weight, by steps of a hundredth."""
    weights: dict[str, float] = defaultdict(float)
    for one in runs:
        weights[one.owner] += one.weight
    second, most = sorted([0.0, *weights.values()])[-2:]

    def evidence() -> float:
        weight = sum(min(most, one) for one in weights.values())
        return weight + _fading(pseudo_runs, weight)

    while most > max(second, 1.0) and most > MOST_OF_OWNER * evidence():
        most = max(second, 0.99 * most)
    if evidence() < LEAST_EVIDENCE:
        told = f"{len(runs)} runs of {len(weights)} API keys weigh as {evidence():.0f}: no key may outweigh the others"
        raise InvalidInput("examples", told, f"at least {LEAST_EVIDENCE:.0f}; --data brings more, or wait for feedback")
    return [replace(one, weight=one.weight * min(1.0, most / weights[one.owner])) for one in runs]


@dataclass(frozen=True, slots=True)
class Table:
    """Examples as arrays: features (n, d) in the order of `FEATURES`, and labels and weights (n,)."""

    features: Floats
    covered: Flags
    weights: Floats

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Table:
        """Return the table of the examples, in their order."""
        return cls(
            np.array([[one.features[name] for name in FEATURES] for one in examples]).reshape(-1, len(FEATURES)),
            np.array([one.is_covered for one in examples], dtype=bool),
            np.array([one.weight for one in examples]),
        )
