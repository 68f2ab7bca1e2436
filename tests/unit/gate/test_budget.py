"""The ceilings of a run, and what of a piece of work they leave room for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.gate import Limits
from sluice.gate.settings import BudgetSettings
from sluice.gate.veto import fit_within, lifted_by, lowest_ceilings

PLANNED = {"max_pages": 8, "max_bytes": 8_000_000}


def test_without_settings_a_run_has_the_pages_and_bytes_that_it_plans() -> None:
    found = lowest_ceilings(BudgetSettings(run_usd=None, day_usd=None, day_pages=None), Limits(), **PLANNED)
    assert found == Ceilings(run=Ceiling(pages=8, bytes=8_000_000))


@pytest.mark.parametrize("unit", ["pages", "bytes", "tokens", "milliseconds", "usd"])
def test_a_request_lowers_the_ceiling_of_each_unit_and_never_raises_it(unit: str) -> None:
    settings = BudgetSettings(run_pages=5, run_bytes=5, run_tokens=5, run_milliseconds=5, run_usd=5)
    for asked, most in ((3, 3), (7, 5), (0, 0)):
        found = lowest_ceilings(settings, Limits.model_validate({f"max_{unit}": asked}), **PLANNED)
        assert getattr(found.run, unit) == most


@pytest.mark.parametrize("unit", ["pages", "bytes", "tokens", "milliseconds", "usd"])
def test_the_days_ceilings_are_the_owners_alone(unit: str) -> None:
    settings = BudgetSettings.model_validate({f"day_{unit}": 7})
    found = lowest_ceilings(settings, Limits.model_validate({f"max_{unit}": 1}), **PLANNED)
    assert getattr(found.day, unit) == 7


def test_whoever_names_pages_gets_those_and_bytes_in_proportion() -> None:
    found = lowest_ceilings(BudgetSettings(), Limits(), named_pages=80, **PLANNED)
    assert (found.run.pages, found.run.bytes) == (80, 80_000_000)
    assert lowest_ceilings(BudgetSettings(run_pages=20), Limits(), named_pages=80, **PLANNED).run.pages == 20


def test_a_ceiling_can_be_taken_away_in_a_file_that_knows_no_null() -> None:
    assert BudgetSettings.model_validate({"run_usd": "none", "day_pages": "none"}) == BudgetSettings(
        run_usd=None, day_pages=None
    )
    with pytest.raises(ValidationError):
        BudgetSettings.model_validate({"run_usd": "nothing"})


def test_what_fits_is_kept_in_order_and_the_rest_is_named_with_its_ceiling() -> None:
    left = Ceilings(run=Ceiling(tokens=100), day=Ceiling(tokens=1_000, usd=0.3))
    wanted = [(name, Spend(tokens=tokens, usd=0.1)) for name, tokens in (("a", 60), ("b", 50), ("c", 40), ("d", 0))]
    found = fit_within(left, wanted, stage="chunk", subject=str.upper)
    assert (found.items, found.cost.tokens) == (("a", "c", "d"), 100)
    assert found.cost.usd == pytest.approx(0.3)
    (gap,) = found.gaps
    assert (gap.stage, gap.subject, gap.reason) == ("chunk", "B", "budget_exhausted")
    assert gap.detail == "run_tokens: 40 left, 50 needed"
    assert gap.lifted_by == lifted_by("run_tokens")


def test_a_lift_names_whose_ceiling_it_is() -> None:
    assert lifted_by("run_tokens") == "limits.max_tokens of the request"
    assert lifted_by("run_usd") == "limits.max_usd of the request, or budget.run_usd in sluice.toml"
    assert lifted_by("day_usd") == "budget.day_usd in sluice.toml, or the next UTC day"


def test_only_units_under_a_ceiling_are_reserved() -> None:
    ceilings = Ceilings(run=Ceiling(usd=1.0), day=Ceiling(pages=3))
    assert ceilings.capped(Spend(usd=0.5, pages=1, tokens=9, bytes=9, milliseconds=9)) == Spend(usd=0.5, pages=1)
    assert ceilings.capped(Spend(tokens=9)) is None
