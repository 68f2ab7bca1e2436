"""How a plan is lowered: step by step, by what is denied, with a record of each step.

Policy and budget never weigh in the score. They deny a capability (searching or crawling), and the plan
falls to the farthest one that does without it:

    full_loop  without crawling                          ->  search
    full_loop  without searching, no seed to crawl from  ->  retrieve
    full_loop  without searching, with seeds             ->  stays, and crawls the seeds alone
    search     without searching                         ->  retrieve
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sluice.contracts.gate import Veto
from sluice.contracts.plan import Plan


@dataclass(frozen=True, slots=True)
class Denial:
    """One capability that may not be used now, why, and what would allow it."""

    name: str
    capability: Literal["search", "crawl"]
    why: str
    lifted_by: str


def lower_plan(plan: Plan, denials: Sequence[Denial], *, has_seeds: bool) -> tuple[Plan, tuple[Veto, ...]]:
    """The plan that the denials leave, and a veto for each of them that mattered.

    Crawling is looked at before searching, so that a plan falls one step at a time. A denial that lowers
    nothing further because another came first is recorded too: both must be lifted.
    """
    vetoes: list[Veto] = []
    asked = plan
    for denial in sorted(denials, key=lambda denial: denial.capability):
        if not _needs(asked, denial.capability):
            continue
        lowered = _without(plan, denial.capability, has_seeds)
        vetoes.append(_veto(denial, plan, lowered))
        plan = lowered
    return plan, tuple(vetoes)


def _needs(plan: Plan, capability: Literal["search", "crawl"]) -> bool:
    return plan is Plan.FULL_LOOP or (plan is Plan.SEARCH and capability == "search")


def _without(plan: Plan, capability: Literal["search", "crawl"], has_seeds: bool) -> Plan:
    match plan, capability:
        case Plan.FULL_LOOP, "crawl":
            return Plan.SEARCH
        case Plan.FULL_LOOP, "search":
            return Plan.FULL_LOOP if has_seeds else Plan.RETRIEVE
        case Plan.SEARCH, "search":
            return Plan.RETRIEVE
        case _:
            return plan


def _veto(denial: Denial, before: Plan, after: Plan) -> Veto:
    alone = before is Plan.FULL_LOOP and after is Plan.FULL_LOOP
    why = f"{denial.why}; only the given seeds are crawled" if alone else denial.why
    return Veto(name=denial.name, lowered_from=before, lowered_to=after, why=why, lifted_by=denial.lifted_by)
