"""What can no longer be paid for from what the run and the day have left."""

from __future__ import annotations

from contracts.gate import BudgetState, Limits
from gate.veto import Denial

USD_DECIMALS = 6


def budget_denials(budget: BudgetState, limits: Limits) -> tuple[Denial, ...]:
    """What the budget denies: crawling without a page left, searching when one call costs more than is left."""
    denials: list[Denial] = []
    if budget.run_pages_left < 1:
        denials.append(Denial("run_pages", "crawl", "the run has no page left", _run_pages_lift(limits)))
    if budget.day_pages_left < 1:
        lift = "budget.day_pages in sluice.toml, or the next UTC day"
        denials.append(Denial("day_pages", "crawl", "the day has no page left", lift))
    if affordable_searches(budget.run_usd_left, budget) < 1:
        denials.append(
            Denial("run_usd", "search", _too_dear("run", budget.run_usd_left, budget), _run_usd_lift(limits))
        )
    if affordable_searches(budget.day_usd_left, budget) < 1:
        lift = "budget.day_usd in sluice.toml, or the next UTC day"
        denials.append(Denial("day_usd", "search", _too_dear("day", budget.day_usd_left, budget), lift))
    return tuple(denials)


def affordable_searches(usd_left: float, budget: BudgetState, most: int = 1) -> int:
    """How many search calls `usd_left` pays for, up to `most`. A free provider is always affordable."""
    price = budget.search_usd_estimate
    return sum(round(price * calls, USD_DECIMALS) <= usd_left for calls in range(1, most + 1)) if price > 0 else most


def _too_dear(whose: str, usd_left: float, budget: BudgetState) -> str:
    return f"one search costs {budget.search_usd_estimate:.4f} USD and the {whose} has {usd_left:.4f} USD left"


def _run_pages_lift(limits: Limits) -> str:
    return "limits.max_pages of the request" if limits.max_pages is not None else "crawl.max_pages in sluice.toml"


def _run_usd_lift(limits: Limits) -> str:
    return "limits.max_usd of the request" if limits.max_usd is not None else "budget.run_usd in sluice.toml"
