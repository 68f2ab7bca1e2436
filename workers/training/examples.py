"""Makes the examples of a fit from collections and recorded runs: features, label and weight.

A recorded run shows whether the corpus was enough only if it was answered from the corpus alone (plan `retrieve`): its
satisfaction is the label. The gate of its time chose these runs, so each weighs by the inverse of the propensity of its
draw (Horvitz and Thompson, 1952), at most `MOST_WEIGHT`. Runs that always went outside teach nothing, and the
collections stand for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

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
        found.append(replace(one, weight=min(MOST_WEIGHT, 1 / outcome.propensity)))
    return found


def weigh_together(prior: Sequence[Example], runs: Sequence[Example], pseudo_runs: float) -> list[Example]:
    """Combine both; the collections weigh as `pseudo_runs` runs in all, and fade as runs come: n0 x n0 / (n0 + n)."""
    if not prior:
        return list(runs)
    mass = pseudo_runs * pseudo_runs / (pseudo_runs + sum(one.weight for one in runs))
    total = sum(one.weight for one in prior)
    return [*(replace(one, weight=one.weight / total * mass) for one in prior), *runs]


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
