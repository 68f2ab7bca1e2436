"""Metrics of what may be spent and what was: dashboards and alerts follow `budget.*` by them."""

from __future__ import annotations

from sluice.otel.metrics.registry import gauge

BUDGET_LIMIT_USD = gauge(
    "sluice_budget_limit_usd", "The ceiling in US dollars of a run or of a UTC day; +Inf without one.", "scope"
)
BUDGET_USED_USD = gauge(
    "sluice_budget_used_usd", "US dollars that this UTC day has spent or reserved, by the ledger.", "scope"
)
BUDGET_USED_RATIO = gauge(
    "sluice_budget_used_ratio",
    "What this UTC day has spent or reserved as a share of its ceiling, by unit (usd, pages, bytes, tokens, "
    "milliseconds); 0 without a ceiling.",
    "scope",
    "unit",
)
