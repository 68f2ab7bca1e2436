"""What may be spent and what this UTC day has used of it, as metrics."""

from __future__ import annotations

import math

from sluice.contracts.budget import Spend
from sluice.gate.settings import BudgetSettings
from sluice.otel import metrics

LOOK_SECONDS = 5.0
"""Between two looks: one row of the ledger."""


def measure(budget: BudgetSettings, used: Spend) -> None:
    """Set the gauges by the settings and by what this UTC day has spent or reserved."""
    for scope, limit in (("run", budget.run_usd), ("day", budget.day_usd)):
        metrics.BUDGET_LIMIT_USD.labels(scope).set(math.inf if limit is None else limit)
    metrics.BUDGET_USED_USD.labels("day").set(used.usd)
    for unit, amount in used:
        metrics.BUDGET_USED_RATIO.labels("day", unit).set(_share(amount, getattr(budget, f"day_{unit}")))


def _share(amount: float, most: float | None) -> float:
    """`amount` through `most`; 0 without a ceiling, 1 where the ceiling is 0."""
    if most is None:
        return 0.0
    return amount / most if most else 1.0
