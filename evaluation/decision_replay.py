"""Recorded decisions replayed with another configuration: the changed plans, and the difference in cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pydantic import Field

from sluice.contracts.base import Value
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.run_totals import total_by

EXAMPLES = 20
"""Changed decisions shown, from the first on."""


class ReplayedDecision(Value):
    """One question, the plan that was carried out, and the plan by the other configuration.

    `is_uncertain`: the latter depends on the cosine of a sentence that was not measured, as the former did not need it.
    """

    run_id: str
    query: str
    before: Plan
    after: Plan
    score_before: float
    score_after: float
    is_uncertain: bool = False


class PlanCost(Value):
    """Mean cost of the runs of one plan; None without such runs."""

    runs: int = 0
    usd: float | None = None
    milliseconds: float | None = None
    external_calls: float | None = None


class DecisionReplay(Value):
    """The effect of another configuration.

    `transitions` counts decisions by "before -> after". `usd`, `milliseconds` and `external_calls` are the differences
    over all runs, by the plans' mean costs; None if a plan of the other configuration has no run to take its cost from.
    `passed_over` decisions could not be recomputed; of the others `uncertain` ones depend on an unmeasured value.
    """

    profile: str
    config_hash: str
    decisions: int
    changed: int
    passed_over: int
    uncertain: int
    transitions: dict[str, int]
    costs: dict[Plan, PlanCost]
    usd: float | None
    milliseconds: float | None
    external_calls: float | None
    examples: tuple[ReplayedDecision, ...] = Field(default=())


def cost_by_plan(runs: Iterable[RunOutcome]) -> dict[Plan, PlanCost]:
    """Return the mean cost of the runs of each plan."""
    return {
        plan: PlanCost(
            runs=totals.runs,
            usd=totals.usd.mean,
            milliseconds=totals.milliseconds.mean,
            external_calls=totals.external_calls.mean,
        )
        for plan, totals in total_by(runs, lambda run: run.plan, judged=False).items()
    }


def summarise_replay(
    replayed: Iterable[ReplayedDecision | None], costs: Mapping[Plan, PlanCost], profile: str, config_hash: str
) -> DecisionReplay:
    """Summarise the replayed decisions; None stands for a decision that could not be recomputed."""
    transitions: Counter[tuple[Plan, Plan]] = Counter()
    examples: list[ReplayedDecision] = []
    passed_over = uncertain = 0
    for one in replayed:
        if one is None:
            passed_over += 1
            continue
        transitions[one.before, one.after] += 1
        uncertain += one.is_uncertain
        if one.before is not one.after and len(examples) < EXAMPLES:
            examples.append(one)
    return DecisionReplay(
        profile=profile,
        config_hash=config_hash,
        decisions=transitions.total(),
        changed=sum(count for (before, after), count in transitions.items() if before is not after),
        passed_over=passed_over,
        uncertain=uncertain,
        transitions={f"{before} -> {after}": count for (before, after), count in sorted(transitions.items())},
        costs=dict(costs),
        **{unit: _difference(unit, transitions, costs) for unit in ("usd", "milliseconds", "external_calls")},
        examples=tuple(examples),
    )


def _difference(
    unit: str, transitions: Mapping[tuple[Plan, Plan], int], costs: Mapping[Plan, PlanCost]
) -> float | None:
    return difference_in_cost(transitions, lambda plan: getattr(costs.get(plan), unit, None))


def difference_in_cost(
    transitions: Mapping[tuple[Plan, Plan], int], cost_of: Callable[[Plan], float | None]
) -> float | None:
    """Return how much more the runs cost by the second plan of each pair; None if a plan's cost is unknown."""
    total = 0.0
    for (before, after), count in transitions.items():
        was, becomes = (cost_of(before), cost_of(after)) if before is not after else (0.0, 0.0)
        if was is None or becomes is None:
            return None
        total += count * (becomes - was)
    return total
