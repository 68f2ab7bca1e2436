"""Directives share out pages, bytes, time and dollars so that no run can exceed its ceilings."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.budget import LEAST_PAGE_BYTES, LEAST_PAGE_MILLISECONDS, Allowance, Ceiling, Ceilings, Spend
from sluice.contracts.gate import BudgetState, GateDecided, GateRequested, Limits, PolicyState, SearchAim, SearchWishes
from sluice.contracts.ingest import CrawlDirected, SearchCompleted, SearchDirected, SearchResult
from sluice.contracts.plan import Plan
from sluice.gate.decide import decide, explain
from sluice.gate.directives import CrawlLimits, make_crawl_directives, make_directives, make_result_crawls
from sluice.gate.profile import load_profiles
from tests.unit.gate.samples import NOW, OPEN, RICH, asked, probed

REACH = CrawlLimits(
    max_pages=8,
    max_depth=1,
    max_bytes=8_000_000,
    page_bytes=5_000_000,
    page_milliseconds=60_000,
    search_top_k=5,
    search_usd=0.01,
    search_milliseconds=10_000,
    locale="en-US",
)


PROFILES = load_profiles()


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
    assert make_directives(GateRequested(query="q"), decided(plan, searches=("q",)), REACH) == ()


def test_a_search_plan_keeps_snippets_and_crawls_no_page() -> None:
    (only,) = make_directives(GateRequested(query="q"), decided(Plan.SEARCH, searches=("q",)), REACH)
    assert isinstance(only.body, SearchDirected)
    assert only.body.crawl_pages == 0
    assert only.reserve == Spend(usd=REACH.search_usd)


def test_a_request_says_where_and_when_a_search_may_find() -> None:
    wishes = SearchWishes(locale="de-CH", top_k=3, sites=("admin.ch",), after=date(2026, 1, 31), freshness="week")
    configured = REACH.model_copy(update={"search_filters": {"site": "example.org", "before": "2026-02-01"}})
    request = GateRequested(query="q", search=wishes)
    (only,) = make_directives(request, decided(Plan.SEARCH, searches=("q",)), configured)
    assert isinstance(only.body, SearchDirected)
    assert (only.body.locale, only.body.top_k, only.body.max_usd) == ("de-CH", 3, REACH.search_usd)
    assert only.body.filters == {"site": "admin.ch", "after": "2026-01-31", "before": "2026-02-01", "freshness": "week"}


@given(searches=st.integers(0, 3), seeds=st.integers(0, 12), max_pages=st.integers(0, 20))
def test_a_full_loop_never_gives_out_more_pages_than_the_run_has(searches: int, seeds: int, max_pages: int) -> None:
    plan = decided(
        Plan.FULL_LOOP,
        searches=tuple(f"q{i}" for i in range(searches)),
        seeds=tuple(f"http://example.com/{i}" for i in range(seeds)),
    )
    request = GateRequested(query="q", limits=Limits(max_pages=max_pages))
    given_out = 0
    for directive in make_directives(request, plan, REACH):
        body = directive.body
        given_out += body.page_allowance if isinstance(body, CrawlDirected) else 0
        given_out += body.crawl_pages if isinstance(body, SearchDirected) else 0
    assert given_out <= min(max_pages, REACH.max_pages)
    if (searches or seeds) and max_pages:
        assert given_out > 0


def test_a_day_with_few_pages_left_gives_out_those_and_no_more() -> None:
    plan = decided(Plan.FULL_LOOP, searches=("q",), seeds=("http://example.com/",))
    few = plan.model_copy(update={"budget": plan.budget.model_copy(update={"day_pages_left": 3})})
    given_out = [one.reserve.pages for one in make_directives(GateRequested(query="q"), few, REACH) if one.reserve]
    assert sum(given_out) == 3


def test_a_search_reserves_its_price_its_time_and_all_that_its_pages_may_take() -> None:
    plan = decided(Plan.FULL_LOOP, searches=("q",))
    timed = plan.model_copy(update={"budget": plan.budget.model_copy(update={"run_milliseconds_left": 50_000.0})})
    (only,) = make_directives(GateRequested(query="q"), timed, REACH)
    assert isinstance(only.body, SearchDirected)
    assert only.body.millisecond_allowance == 40_000
    assert only.reserve == Spend(usd=0.01, pages=8, bytes=8_000_000, milliseconds=50_000)


def test_time_that_nobody_counts_is_not_reserved() -> None:
    (only,) = make_directives(GateRequested(query="q"), decided(Plan.FULL_LOOP, searches=("q",)), REACH)
    assert isinstance(only.body, SearchDirected)
    assert only.body.millisecond_allowance is None
    assert only.reserve is not None
    assert only.reserve.milliseconds == 0


@pytest.mark.parametrize(
    ("limits", "left", "pages"),
    [
        (Limits(max_bytes=3 * LEAST_PAGE_BYTES), {}, 3),
        (Limits(max_bytes=10), {}, 1),
        (Limits(max_bytes=0), {}, 0),
        (Limits(), {"day_bytes_left": 2 * LEAST_PAGE_BYTES}, 2),
        (Limits(), {"run_milliseconds_left": 5.0 * LEAST_PAGE_MILLISECONDS}, 5),
        (Limits(), {"day_milliseconds_left": 500.0}, 1),
    ],
)
def test_a_small_ceiling_means_fewer_pages_and_not_smaller_ones(
    limits: Limits, left: dict[str, float], pages: int
) -> None:
    seeds = tuple(f"http://example.com/{number}" for number in range(8))
    plan = decided(Plan.FULL_LOOP, seeds=seeds)
    poor = plan.model_copy(update={"budget": plan.budget.model_copy(update=left)})
    assert len(make_directives(GateRequested(query="q", limits=limits), poor, REACH)) == pages


def test_a_page_never_reserves_more_than_a_page_can_take() -> None:
    rich = decided(Plan.FULL_LOOP, seeds=("http://example.com/",)).model_copy(
        update={"budget": BudgetState(run_pages_left=1, run_bytes_left=10**9, run_milliseconds_left=10.0**9)}
    )
    crawl_limits = REACH.model_copy(update={"max_bytes": 10**9})
    (only,) = make_directives(GateRequested(query="q"), rich, crawl_limits)
    assert only.reserve == Spend(pages=1, bytes=REACH.page_bytes, milliseconds=REACH.page_milliseconds)


amounts = st.one_of(st.none(), st.floats(0, 1), st.integers(0, 10**9))


def ceiling(pages: float | None, size: float | None, tokens: float | None, time: float | None, usd: float | None):
    def whole(most: float | None) -> int | None:
        return None if most is None else int(most)

    return Ceiling(pages=whole(pages), bytes=whole(size), tokens=whole(tokens), milliseconds=time, usd=usd)


ceilings = st.builds(ceiling, amounts, amounts, amounts, amounts, amounts)


@given(run=ceilings, day=ceilings, seeds=st.integers(0, 12), price=st.sampled_from([0.0, 0.0000004, 0.01, 0.1]))
def test_what_the_gate_orders_fits_what_was_left_in_every_unit(
    run: Ceiling, day: Ceiling, seeds: int, price: float
) -> None:
    left = Ceilings(run=run, day=day)
    crawl_limits = REACH.model_copy(update={"search_usd": price})
    budget = BudgetState.of(left, search_usd=price, search_milliseconds=crawl_limits.search_milliseconds)
    request = asked(plan=Plan.FULL_LOOP, seeds=tuple(f"http://example.com/{number}" for number in range(seeds)))
    found = decide(request, probed(), PROFILES["default"], OPEN, budget, NOW)
    ordered = make_directives(request, found, crawl_limits)
    reserved = sum((one.reserve for one in ordered if one.reserve), Spend())
    assert left.missing_for(reserved) == ()
    assert bool(ordered) == (found.plan in (Plan.SEARCH, Plan.FULL_LOOP))
    assert {one.body.kind for one in ordered} >= ({"SearchDirected"} if found.search_seeds else set())


def test_results_share_what_their_search_was_given() -> None:
    directed = SearchDirected(query="q", crawl_pages=5, byte_allowance=1_000, millisecond_allowance=100.0)
    results = tuple(SearchResult(url=f"http://example.com/{n}", title="t", rank=n + 1) for n in range(2))
    completed = SearchCompleted(
        query="q", provider="searxng", results=results, cost_usd=0, elapsed_ms=1, searched_at=NOW
    )
    first, second = make_result_crawls(directed, completed, "never")
    assert (first.reserve, second.reserve) == (
        Spend(pages=3, bytes=600, milliseconds=60),
        Spend(pages=2, bytes=400, milliseconds=40),
    )
    assert first.dedupe_key == "crawl:http://example.com/0"
    assert isinstance(second.body, CrawlDirected)
    assert second.body.allowance.reserve == second.reserve


def searches(found: GateDecided, crawl_limits: CrawlLimits = REACH, **request: Any) -> list[SearchDirected]:
    ordered = make_directives(GateRequested(query="q", **request), found, crawl_limits)
    return [one.body for one in ordered if isinstance(one.body, SearchDirected)]


def test_each_query_is_searched_for_in_its_part_of_the_web() -> None:
    aims = (
        SearchAim(vertical="news", filters={"freshness": "month"}),
        SearchAim(vertical="code", filters={"site": "docs.python.org"}),
        SearchAim(),
    )
    plan = decided(Plan.SEARCH, searches=("q", "q", "q")).model_copy(update={"search_aims": aims})
    crawl_limits = REACH.model_copy(update={"search_filters": {"before": "2026-01-01"}})
    found = make_directives(GateRequested(query="q"), plan, crawl_limits)
    assert [(body.vertical, body.filters) for body in searches(plan, crawl_limits)] == [
        ("news", {"before": "2026-01-01", "freshness": "month"}),
        ("code", {"before": "2026-01-01", "site": "docs.python.org"}),
        ("web", {"before": "2026-01-01"}),
    ]
    assert [one.dedupe_key for one in found] == [
        "search:news freshness=month:q",
        "search:code site=docs.python.org:q",
        "search:q",
    ]


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_what_a_profile_aims_at_is_what_is_directed(name: str) -> None:
    found = decide(asked("is CVE-2024-3094 news", plan=Plan.SEARCH), probed(), PROFILES[name], OPEN, RICH, NOW)
    directed = searches(found)
    assert [body.query for body in directed] == list(found.search_seeds)
    assert ({body.vertical for body in directed} == {"web"}) is (name == "default")
    again = explain(asked("is CVE-2024-3094 news", plan=Plan.SEARCH), probed(), found, PROFILES[name])
    assert again.model_dump_json() == found.model_dump_json()
    assert ("search_aims" in found.model_dump(mode="json")) is (name != "default")


@pytest.mark.parametrize(
    ("configured", "asked_for", "shown"),
    [
        ("auto", None, "auto"),
        ("auto", "always", "always"),
        ("auto", "never", "never"),
        ("always", "never", "never"),
        ("never", "always", "never"),
        ("never", None, "never"),
    ],
)
def test_pages_are_shown_as_the_request_says_where_there_is_a_browser(
    configured: Any, asked_for: Any, shown: str
) -> None:
    plan = decided(Plan.FULL_LOOP, searches=("q",), seeds=("http://example.com/",))
    crawl_limits = REACH.model_copy(update={"render": configured})
    request = GateRequested(query="q", render=asked_for, screenshot=True)
    crawl, search = (one.body for one in make_directives(request, plan, crawl_limits))
    assert isinstance(crawl, CrawlDirected)
    assert isinstance(search, SearchDirected)
    assert (crawl.render, crawl.screenshot) == (shown, True)
    assert (search.render, search.screenshot) == (shown if asked_for else None, True)
    result = SearchResult(url="http://example.com/1", title="t", rank=1)
    completed = SearchCompleted(query="q", provider="p", results=(result,), cost_usd=0, elapsed_ms=1, searched_at=NOW)
    (page,) = make_result_crawls(search, completed, configured)
    assert isinstance(page.body, CrawlDirected)
    assert (page.body.render, page.body.screenshot) == (shown, True)


def test_seeds_beyond_the_pages_are_left_out() -> None:
    plan = decided(Plan.FULL_LOOP, seeds=tuple(f"http://example.com/{number}" for number in range(20)))
    assert len(make_directives(GateRequested(query="q"), plan, REACH)) == REACH.max_pages
    assert make_crawl_directives([], Allowance(pages=3), REACH) == ()
