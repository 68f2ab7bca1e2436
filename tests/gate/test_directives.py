"""Directives share out pages and dollars so that no run can exceed its ceilings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.gate import BudgetState, GateDecided, GateRequested, Limits, Plan, PolicyState
from contracts.ingest import CrawlDirected, SearchDirected
from gate.directives import Reach, directives, shares

REACH = Reach(max_pages=8, max_depth=1, max_bytes=8_000, search_top_k=5, search_usd=0.01, locale="en-US")


def decided(plan: Plan, *, searches: tuple[str, ...] = (), seeds: tuple[str, ...] = ()) -> GateDecided:
    return GateDecided(
        plan=plan,
        scored_plan=plan,
        score=1.0,
        threshold_search=0.3,
        threshold_full_loop=0.6,
        contributions=(),
        search_seeds=searches,
        crawl_seeds=seeds,
        intent="factual",
        profile="default",
        profile_version=1,
        config_hash="0" * 64,
        policy=PolicyState(search_allowed=True, crawl_allowed=True),
        budget=BudgetState(run_usd_left=1, day_usd_left=1, run_pages_left=8, day_pages_left=8),
        decided_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("plan", [Plan.SKIP, Plan.RETRIEVE])
def test_a_plan_that_stays_inside_directs_nothing(plan: Plan) -> None:
    assert directives(GateRequested(query="q"), decided(plan, searches=("q",)), REACH) == ()


def test_a_search_plan_keeps_snippets_and_crawls_no_page() -> None:
    (only,) = directives(GateRequested(query="q"), decided(Plan.SEARCH, searches=("q",)), REACH)
    assert isinstance(only.body, SearchDirected)
    assert only.body.crawl_pages == 0
    assert only.reserve is not None
    assert only.reserve.usd == REACH.search_usd


@given(
    searches=st.integers(0, 3),
    seeds=st.integers(0, 12),
    max_pages=st.integers(0, 20),
)
def test_a_full_loop_never_gives_out_more_pages_than_the_run_has(searches: int, seeds: int, max_pages: int) -> None:
    plan = decided(
        Plan.FULL_LOOP,
        searches=tuple(f"q{i}" for i in range(searches)),
        seeds=tuple(f"http://example.com/{i}" for i in range(seeds)),
    )
    request = GateRequested(query="q", limits=Limits(max_pages=max_pages))
    given_out = 0
    for directive in directives(request, plan, REACH):
        body = directive.body
        given_out += body.page_allowance if isinstance(body, CrawlDirected) else 0
        given_out += body.crawl_pages if isinstance(body, SearchDirected) else 0
    assert given_out <= min(max_pages, REACH.max_pages)
    if (searches or seeds) and max_pages:
        assert given_out > 0


def test_a_day_with_few_pages_left_gives_out_those_and_no_more() -> None:
    plan = decided(Plan.FULL_LOOP, searches=("q",), seeds=("http://example.com/",))
    few = plan.model_copy(update={"budget": plan.budget.model_copy(update={"day_pages_left": 3})})
    given_out = [one.reserve.pages for one in directives(GateRequested(query="q"), few, REACH) if one.reserve]
    assert sum(given_out) == 3


def test_shares_add_up() -> None:
    assert shares(8, 3) == [3, 3, 2]
    assert shares(0, 2) == [0, 0]
