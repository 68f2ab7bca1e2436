"""How a plan falls, and what the policy and the budget deny."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.contracts.gate import BudgetState, Limits, PolicyState
from sluice.contracts.plan import Plan
from sluice.gate.veto import Denial, affordable_searches, budget_denials, lower_plan, policy_denials, policy_state
from tests.unit.gate.samples import RICH

SEARCH = Denial("no_search", "search", "why", "lift")
CRAWL = Denial("no_crawl", "crawl", "why", "lift")


@pytest.mark.parametrize(
    ("plan", "denials", "has_seeds", "left"),
    [
        (Plan.FULL_LOOP, [], False, Plan.FULL_LOOP),
        (Plan.FULL_LOOP, [CRAWL], True, Plan.SEARCH),
        (Plan.FULL_LOOP, [SEARCH], True, Plan.FULL_LOOP),
        (Plan.FULL_LOOP, [SEARCH], False, Plan.RETRIEVE),
        (Plan.FULL_LOOP, [SEARCH, CRAWL], True, Plan.RETRIEVE),
        (Plan.SEARCH, [CRAWL], False, Plan.SEARCH),
        (Plan.SEARCH, [SEARCH], True, Plan.RETRIEVE),
        (Plan.RETRIEVE, [SEARCH, CRAWL], True, Plan.RETRIEVE),
        (Plan.SKIP, [SEARCH, CRAWL], True, Plan.SKIP),
    ],
)
def test_a_plan_falls_to_the_farthest_that_needs_nothing_denied(plan, denials, has_seeds, left) -> None:
    assert lower_plan(plan, denials, has_seeds=has_seeds)[0] is left


def test_what_a_plan_does_not_need_is_no_veto() -> None:
    assert lower_plan(Plan.SEARCH, [CRAWL], has_seeds=False)[1] == ()


def test_every_denial_that_stands_in_the_way_is_recorded() -> None:
    _, vetoes = lower_plan(Plan.SEARCH, [SEARCH, replace(SEARCH, name="day_usd")], has_seeds=False)
    assert [(veto.name, veto.lowered_from, veto.lowered_to) for veto in vetoes] == [
        ("no_search", Plan.SEARCH, Plan.RETRIEVE),
        ("day_usd", Plan.SEARCH, Plan.RETRIEVE),
    ]


def test_what_denies_both_capabilities_is_one_veto() -> None:
    _, (veto,) = lower_plan(Plan.FULL_LOOP, [SEARCH, replace(SEARCH, capability="crawl")], has_seeds=False)
    assert (veto.lowered_from, veto.lowered_to) == (Plan.FULL_LOOP, Plan.RETRIEVE)


def test_a_machine_that_may_send_nothing_neither_searches_nor_crawls() -> None:
    state = policy_state(search_enabled=True, search_providers=1, crawl_enabled=True, egress_allowed=False)
    plan, vetoes = lower_plan(Plan.FULL_LOOP, policy_denials(state), has_seeds=True)
    assert plan is Plan.RETRIEVE
    assert {veto.lifted_by for veto in vetoes} == {'egress.policy = "open", or "listed", in sluice.toml'}


def test_the_policy_says_what_is_off_and_what_turns_it_on() -> None:
    off = policy_state(search_enabled=False, search_providers=1, crawl_enabled=False, egress_allowed=True)
    assert [denial.lifted_by for denial in policy_denials(off)] == [
        "crawl.enabled = true in sluice.toml",
        "search.enabled = true in sluice.toml",
    ]
    on = policy_state(search_enabled=True, search_providers=1, crawl_enabled=True, egress_allowed=True)
    assert policy_denials(on) == ()


def test_search_without_a_provider_names_the_providers() -> None:
    (denial,) = policy_denials(
        policy_state(search_enabled=True, search_providers=0, crawl_enabled=True, egress_allowed=True)
    )
    assert "search.providers" in denial.lifted_by


def test_a_reason_of_the_caller_is_kept() -> None:
    (denial,) = policy_denials(PolicyState(search_allowed=True, crawl_allowed=False, crawl_reason="no sandbox"))
    assert denial.why == "no sandbox"


def test_a_rich_budget_denies_nothing() -> None:
    assert budget_denials(RICH, Limits()) == ()


@pytest.mark.parametrize(
    ("state", "limits", "name", "lifted_by"),
    [
        ({"run_pages_left": 0}, Limits(), "run_pages", "crawl.max_pages in sluice.toml"),
        ({"run_pages_left": 0}, Limits(max_pages=0), "run_pages", "limits.max_pages of the request"),
        ({"day_pages_left": 0}, Limits(), "day_pages", "budget.day_pages in sluice.toml, or the next UTC day"),
        ({"run_usd_left": 0.004}, Limits(), "run_usd", "budget.run_usd in sluice.toml"),
        ({"run_usd_left": 0.0}, Limits(max_usd=0), "run_usd", "limits.max_usd of the request"),
        ({"day_usd_left": 0.004}, Limits(), "day_usd", "budget.day_usd in sluice.toml, or the next UTC day"),
        ({"run_bytes_left": 0}, Limits(max_bytes=9), "run_bytes", "limits.max_bytes of the request"),
        ({"day_bytes_left": 0}, Limits(), "day_bytes", "budget.day_bytes in sluice.toml, or the next UTC day"),
    ],
)
def test_each_ceiling_denies_and_says_what_lifts_it(state, limits, name, lifted_by) -> None:
    (denial,) = budget_denials(RICH.model_copy(update=state), limits)
    assert (denial.name, denial.lifted_by) == (name, lifted_by)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ({"run_tokens_left": 255}, "run_tokens"),
        ({"day_tokens_left": 0}, "day_tokens"),
        ({"run_milliseconds_left": 0.0}, "run_milliseconds"),
        ({"day_milliseconds_left": 9_999.0}, "day_milliseconds"),
    ],
)
def test_without_tokens_or_time_nothing_outside_is_worth_while(state: dict[str, float], name: str) -> None:
    slow = RICH.model_copy(update={"search_milliseconds_estimate": 10_000.0, **state})
    denials = budget_denials(slow, Limits())
    assert {denial.name for denial in denials} == {name}
    expected = {"search"} if state == {"day_milliseconds_left": 9_999.0} else {"search", "crawl"}
    assert {denial.capability for denial in denials} == expected
    assert lower_plan(Plan.FULL_LOOP, denials, has_seeds=False)[0] is Plan.RETRIEVE


def test_where_only_the_search_has_room_its_pages_are_denied() -> None:
    tight = RICH.model_copy(update={"search_milliseconds_estimate": 10_000.0, "run_milliseconds_left": 10_000.0})
    (denial,) = budget_denials(tight, Limits())
    assert (denial.capability, denial.name) == ("crawl", "run_milliseconds")
    assert "10,001" in denial.why


def test_a_unit_without_a_ceiling_denies_nothing() -> None:
    assert budget_denials(BudgetState(search_usd_estimate=99.0, search_milliseconds_estimate=1e9), Limits()) == ()


def test_a_free_search_needs_no_money() -> None:
    free = RICH.model_copy(update={"run_usd_left": 0.0, "day_usd_left": 0.0, "search_usd_estimate": 0.0})
    assert budget_denials(free, Limits()) == ()


def test_exactly_enough_money_is_enough() -> None:
    assert affordable_searches(RICH.model_copy(update={"run_usd_left": 0.015}), most=5) == 3
