"""Ceilings of a run: the actions that they deny the gate, and the work that still fits.

Everything here is arithmetic on the amounts left. The ledger ensures that no two workers overspend together: it checks
each reservation against the ceilings again, in the transaction that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.event import Gap
from sluice.contracts.gate import BudgetState, Limits
from sluice.gate.settings import BudgetSettings
from sluice.gate.veto import Capability, Denial

Item = TypeVar("Item")
Number = TypeVar("Number", int, float)

LEAST_TOKENS = 256
"""The local model's input size. With less left, no found text could be embedded."""
A_PAGE = Spend(pages=1, bytes=1, milliseconds=1.0)
NOTHING = Spend()


@dataclass(frozen=True, slots=True)
class Fitting(Generic[Item]):
    """The items that are affordable together, their cost, and a gap for each of the others."""

    items: tuple[Item, ...]
    cost: Spend
    gaps: tuple[Gap, ...]


def lowest_ceilings(
    budget: BudgetSettings, limits: Limits, *, max_pages: int, max_bytes: int, named_pages: int = 0
) -> Ceilings:
    """Return the ceilings of a run and its day: the settings, lowered by the request's limits. `max_pages` and
    `max_bytes` are a run's defaults; a request that names `named_pages` pages gets all of them, and bytes in
    proportion."""
    pages = max(max_pages, named_pages)
    run = Ceiling(
        pages=lowest(budget.run_pages, limits.max_pages, pages),
        bytes=lowest(budget.run_bytes, limits.max_bytes, max_bytes * pages // max(max_pages, 1)),
        tokens=lowest(budget.run_tokens, limits.max_tokens),
        milliseconds=lowest(budget.run_milliseconds, limits.max_milliseconds),
        usd=lowest(budget.run_usd, limits.max_usd),
    )
    day = Ceiling(**{unit: getattr(budget, f"day_{unit}") for unit in Ceiling.model_fields})
    return Ceilings(run=run, day=day)


def budget_denials(budget: BudgetState, limits: Limits) -> tuple[Denial, ...]:
    """Return the budget's denials: of a search without room for one, of a crawl without room for one more page. Both
    need room for embedding the results."""
    search = _searches(budget, 1)
    crawl = A_PAGE + search if affordable_searches(budget) else A_PAGE
    return (*_denials("crawl", crawl, budget, limits), *_denials("search", search, budget, limits))


def affordable_searches(budget: BudgetState, most: int = 1, *, besides: Spend = NOTHING) -> int:
    """Return the number of affordable searches, up to `most`, besides other work. A free one is always affordable."""
    left = budget.left
    return sum(not left.missing_for(_searches(budget, calls) + besides) for calls in range(1, most + 1))


def fit_within(
    left: Ceilings, wanted: Iterable[tuple[Item, Spend]], *, stage: str, subject: Callable[[Item], str]
) -> Fitting[Item]:
    """Return the items that fit, in order. `subject` names an omitted item in its gap."""
    items: list[Item] = []
    gaps: list[Gap] = []
    cost = Spend()
    for item, price in wanted:
        missing = left.missing_for(cost + price)
        if missing:
            gaps.append(_no_room(stage, subject(item), missing, left, cost, price))
        else:
            items.append(item)
            cost += price
    return Fitting(tuple(items), cost, tuple(gaps))


def lifted_by(ceiling: str) -> str:
    """Return the remedy for a ceiling by its name: `run_tokens`, `day_usd`."""
    whose, _, unit = ceiling.partition("_")
    lifts = (_DAY_LIFT.format(unit),) if whose == "day" else (_OF_REQUEST.format(unit), _run_setting(unit))
    return ", or ".join(dict.fromkeys(lifts))


_DAY_LIFT = "budget.day_{} in sluice.toml, or the next UTC day"
_OF_REQUEST = "limits.max_{} of the request"


def _denials(capability: Capability, needed: Spend, budget: BudgetState, limits: Limits) -> Iterable[Denial]:
    for whose, ceiling in budget.left:
        for unit in ceiling.missing_for(needed + Spend(tokens=LEAST_TOKENS)):
            least = LEAST_TOKENS if unit == "tokens" else getattr(needed, unit)
            why = _why(capability, whose, unit, least, getattr(ceiling, unit))
            lowered = getattr(limits, f"max_{unit}") is not None
            lift = _DAY_LIFT if whose == "day" else _OF_REQUEST if lowered else _run_setting(unit)
            yield Denial(f"{whose}_{unit}", capability, why, lift.format(unit))


def _searches(budget: BudgetState, calls: int) -> Spend:
    return Spend(usd=budget.search_usd_estimate * calls, milliseconds=budget.search_milliseconds_estimate * calls)


def _why(capability: str, whose: str, unit: str, needed: float, left: float) -> str:
    if unit == "pages":
        return f"the {whose} has no page left"
    if unit == "usd":
        return f"one search costs {needed:.4f} USD and the {whose} has {left:.4f} USD left"
    return f"a {capability} takes {needed:,.0f} {unit} at least and the {whose} has {left:,.0f} left"


def _no_room(stage: str, subject: str, missing: tuple[str, ...], left: Ceilings, taken: Spend, price: Spend) -> Gap:
    whose, _, unit = missing[0].partition("_")
    free = max(0, getattr(getattr(left, whose), unit) - getattr(taken, unit))
    return Gap(
        stage=stage,
        subject=subject,
        reason="budget_exhausted",
        detail=f"{missing[0]}: {free:g} left, {getattr(price, unit):g} needed",
        lifted_by=lifted_by(missing[0]),
    )


def _run_setting(unit: str) -> str:
    settings = {"pages": "crawl.max_pages in sluice.toml", "usd": "budget.run_usd in sluice.toml"}
    return settings.get(unit, _OF_REQUEST.format(unit))


def lowest(*most: Number | None) -> Number | None:
    """Return the lowest of some ceilings; None without any."""
    return min((one for one in most if one is not None), default=None)
