"""What an agent is told to do next follows from what is recorded of a run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast, get_args

import pytest

from sluice.contracts.api import PlanSummary, RunView, ToolName
from sluice.contracts.event import Gap
from sluice.contracts.gate import BudgetState, Decision, GateDecided, PolicyState, Veto
from sluice.contracts.index import Answer, Citation, StaleCitation
from sluice.contracts.ingest import EgressRefused
from sluice.contracts.plan import Plan
from sluice.contracts.profiles import Claim, PassageInsights
from sluice.workers.wiring.plan_summary import MOST_CHARACTERS, MOST_MISSING, MOST_STEPS, summarise
from tests.support.evaluation_samples import chunk

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)
SEARCH_OFF = Veto(
    name="search",
    lowered_from=Plan.SEARCH,
    lowered_to=Plan.RETRIEVE,
    why="web search is switched off",
    lifted_by="search.enabled",
)
CLAIM = Claim(rule="best", text="the best of all", needs="a comparison", source="UWG")


def decision(plan: Plan = Plan.RETRIEVE, *vetoes: Veto, profile: str = "default") -> Decision:
    facts: dict[str, Any] = {"scored_plan": plan, "score": 0.41, "threshold_search": 0.5, "threshold_full_loop": 0.7}
    facts |= {"contributions": (), "intent": "fact", "profile": profile, "profile_version": 1, "config_hash": "0" * 64}
    facts |= {"policy": PolicyState(search_allowed=True, crawl_allowed=True), "budget": BudgetState()}
    return Decision.of(GateDecided(plan=plan, vetoes=vetoes, decided_at=NOW, **facts))


def answer(*, cites: bool = True, limits: str | None = None, insights: PassageInsights | None = None) -> Answer:
    one = Citation(number=1, chunk_id="a", source="doc:1", match=0.9, insights=insights)
    return Answer(
        query="what is a lease?",
        corpus="docs",
        plan=Plan.RETRIEVE,
        generation="g1",
        journal_offset=1,
        context="[1] …",
        citations=(one,) if cites else (),
        chunks=(chunk("a", "doc"),) if cites else (),
        confidence=0.9,
        limits=limits,
    )


def summary(*refused: EgressRefused, counts: dict[str, int] | None = None, **facts: Any) -> PlanSummary:
    known: dict[str, Any] = {"kind": "gate", "status": "finished", "query": "what is a lease?", "decision": decision()}
    run = RunView(run_id="run_1", corpus="docs", created_at=NOW, **known | facts)
    told = summarise(run, counts or {}, refused)
    assert told == summarise(run, counts or {}, refused)
    assert len(told.next_steps) <= MOST_STEPS
    return told


def tools(told: PlanSummary) -> list[str]:
    return [step.tool for step in told.next_steps]


def test_a_good_answer_is_read_around_and_judged() -> None:
    told = summary(answer=answer(), counts={"SearchCompleted": 1, "PageCrawled": 3, "GateRequested": 1})
    assert told.decided.startswith("plan retrieve by profile default, score 0.41 (search from 0.50")
    assert told.done == (
        "1 searches of the web",
        "3 pages read",
        "answered with 1 citations of 1 sources, confidence 0.90",
    )
    assert told.missing == ()
    assert tools(told) == ["sluice_read_document", "sluice_feedback"]
    read = told.next_steps[0].arguments
    assert read == {"document_id": "doc", "corpus": "docs", "start_line": 1, "max_lines": 41}


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        (["sluice_get_run"], {"status": "answering"}),
        (["sluice_ask"], {"status": "cancelled"}),
        (["sluice_ask", "sluice_query"], {"answer": answer(cites=False)}),
        (["code_search", "sluice_ask", "sluice_query"], {"decision": decision(profile="code")}),
        (["sluice_add_documents", "sluice_query"], {"decision": decision(Plan.RETRIEVE, SEARCH_OFF)}),
        (["sluice_query", "sluice_feedback"], {"answer": answer(limits="low"), "decision": decision(Plan.SEARCH)}),
        (["sluice_list"], {"kind": "documents", "query": None, "decision": None}),
        ([], {"kind": "crawl", "status": "failed", "query": None, "decision": None}),
    ],
)
def test_the_next_tools_follow_from_what_is_missing(wanted: list[str], facts: dict[str, Any]) -> None:
    assert tools(summary(**facts)) == wanted


def test_what_is_missing_is_named_with_what_lifts_it_and_late_pages_can_be_handed_in() -> None:
    late = Gap(stage="crawl", subject="https://example.org/a", reason="budget_exhausted", lifted_by="budget.run_pages")
    robots = Gap(stage="crawl", subject="https://example.org/b", reason="robots", detail="robots.txt forbids it")
    refused = EgressRefused(purpose="crawl", host="10.0.0.1", port=80, rule="private", detail="no private address")
    stale = StaleCitation(citation=1, chunk_id="a", document_id="doc", what="changed", changed_at=NOW)
    claims = answer(insights=PassageInsights(claims=(CLAIM,)))
    told = summary(
        refused, refused, decision=decision(Plan.FULL_LOOP), missing=(late, robots), stale=(stale,), answer=claims
    )
    assert told.missing == (
        "citation 1 is changed at its source since 2031-05-06",
        "crawl: https://example.org/a: budget_exhausted (lifted by: budget.run_pages)",
        "crawl: https://example.org/b: robots.txt forbids it",
        "host 10.0.0.1: refused by private: no private address",
        "citation 1 claims 'the best of all', which needs a comparison",
    )
    fresh, pages = told.next_steps[:2]
    assert (fresh.tool, fresh.arguments["freshness"]) == ("sluice_ask", "day")
    assert (pages.tool, pages.arguments["documents"]) == ("sluice_add_documents", [{"url": late.subject}])


def test_it_stays_short_whatever_a_run_lacks() -> None:
    gaps = tuple(
        Gap(stage="crawl", subject=f"https://x.org/{n}", reason="deadline", detail="x" * 999) for n in range(50)
    )
    told = summary(missing=gaps, answer=answer(), decision=decision(Plan.FULL_LOOP))
    assert told.missing[MOST_MISSING:] == ("and 40 more",)
    assert max(map(len, told.missing)) <= MOST_CHARACTERS
    assert len(json.dumps(told.model_dump(mode="json"))) < 6_000


def test_the_tools_have_these_arguments_over_mcp() -> None:
    """Of `code_search` the route has them."""
    from sluice.contracts.api import CodeSearchRequest
    from sluice_client.mcp.tools import make_server

    made = make_server(cast(Any, None), version="1")._tool_manager.list_tools()  # noqa: SLF001
    known = {one.name: set(one.parameters["properties"]) for one in made}
    known.setdefault("code_search", set(CodeSearchRequest.model_fields))
    late = Gap(stage="crawl", subject="https://example.org/a", reason="deadline")
    cut = Gap(stage="query", subject="docs", reason="max_tokens")
    stale = StaleCitation(citation=1, chunk_id="a", document_id="doc", what="gone", changed_at=NOW)
    told = [
        summary(answer=answer()),
        summary(status="open"),
        summary(kind="documents", query=None, decision=None),
        summary(missing=(late, cut), stale=(stale,), decision=decision(Plan.FULL_LOOP)),
        summary(decision=decision(Plan.RETRIEVE, SEARCH_OFF, profile="code")),
    ]
    steps = [step for one in told for step in one.next_steps]
    assert {step.tool for step in steps} == set(get_args(ToolName))
    for step in steps:
        assert set(step.arguments) <= known[step.tool], step
