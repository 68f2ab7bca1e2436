"""What may be spent, and what of it is used, is shown by the settings and the ledger."""

from __future__ import annotations

import math

from sluice.contracts.budget import Spend
from sluice.gate.settings import BudgetSettings
from sluice.otel import metrics
from sluice.workers.processes.watches.gate import measure_budget
from tests.support.metric import value_of


def test_the_ceilings_are_those_of_the_settings_and_the_share_follows_them() -> None:
    used = Spend(usd=2.0, pages=50, tokens=7)
    measure_budget(BudgetSettings(day_usd=8.0, run_usd=0.5, day_pages=0), lambda: used)
    assert value_of(metrics.BUDGET_LIMIT_USD, scope="day") == 8.0
    assert value_of(metrics.BUDGET_LIMIT_USD, scope="run") == 0.5
    assert value_of(metrics.BUDGET_USED_USD, scope="day") == 2.0
    assert value_of(metrics.BUDGET_USED_RATIO, scope="day", unit="usd") == 0.25
    assert value_of(metrics.BUDGET_USED_RATIO, scope="day", unit="pages") == 1.0  # nothing may be spent
    assert value_of(metrics.BUDGET_USED_RATIO, scope="day", unit="tokens") == 0.0  # no ceiling
    measure_budget(BudgetSettings(day_usd=16.0), lambda: used)
    assert value_of(metrics.BUDGET_USED_RATIO, scope="day", unit="usd") == 0.125


def test_without_a_ceiling_the_limit_is_infinite_so_that_no_alert_compares_with_less() -> None:
    measure_budget(BudgetSettings(day_usd=None), lambda: Spend(usd=3.0))
    assert value_of(metrics.BUDGET_LIMIT_USD, scope="day") == math.inf
    assert value_of(metrics.BUDGET_USED_RATIO, scope="day", unit="usd") == 0.0
