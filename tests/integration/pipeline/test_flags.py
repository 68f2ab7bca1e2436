"""What flags do to a real pipeline: each off is felt at once, said in the run, and computed again to the same bytes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.errors import InvalidInput, PolicyRefused
from sluice.contracts.event import Event
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.index import AnswerReady
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.learning.control import FlagAction, FlagName
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Strategy
from sluice.gate.decide import explain
from sluice.gate.profile import Profile
from sluice.otel.metrics import FLAG_SHARE
from sluice.workers.processes.watches.gate import ShareWatch
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.learning.control import FlagDesk
from sluice.workers.service.learning.evaluation import evaluate
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.wiring.inject import assemble
from tests.support.in_process import Instance, MakeInstance
from tests.support.metric import value_of
from tests.support.rerank_endpoint import Endpoint
from tests.support.site import Site

QUESTION = "Which engine does the newest ferry of the harbour have?"
TEXT = "The newest ferry of the harbour has a hydrogen engine."


def web(site: Site) -> dict[str, object]:
    """Settings that open the way to a search engine and its pages."""
    row = {"url": site.url("/ferry.html"), "title": "Ferry", "content": TEXT}
    site.put("/search", json.dumps({"results": [row]}), Content_Type="application/json")
    site.html("/ferry.html", f"<html><body><main><p>{TEXT}</p></main></body></html>")
    site.put("/robots.txt", "User-agent: *\nAllow: /\n", Content_Type="text/plain")
    return {
        "search": {"enabled": True, "providers": ["searxng"], "searxng_url": site.url("").rstrip("/")},
        "crawl": {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0},
        "egress": {"allow": [f"search={site.address}", f"crawl={site.address}"]},
    }


def change(instance: Instance, name: FlagName, action: FlagAction) -> None:
    FlagDesk(instance.context).change(name, action, OWN_MACHINE, "a test")
    instance.context.flags.states()  # what this process has read a moment ago is as new


def asks(instance: Instance, plan: Plan | None = Plan.FULL_LOOP) -> str:
    return instance.service.ask(GateRequest(query=QUESTION, plan=plan, corpus="docs")).run_id


def decision(instance: Instance, run_id: str) -> GateDecided:
    found = instance.context.ledger.run(run_id).decision
    assert found is not None
    [event] = instance.context.ledger.events_of_kind(run_id, GateDecided.kind)
    return event.body_as(GateDecided)


def recomputed(instance: Instance, run_id: str) -> GateDecided:
    ledger, decided = instance.context.ledger, decision(instance, run_id)
    [request] = ledger.events_of_kind(run_id, GateRequested.kind)
    [probed] = ledger.events_of_kind(run_id, CoverageProbed.kind)
    profile = Profile.from_bytes(instance.context.blobs.named(decided.config_hash))
    return explain(request.body_as(GateRequested), probed.body_as(CoverageProbed), decided, profile)


def read_metadata(instance: Instance, query: Query) -> dict[str, Any]:
    """The metadata of a direct query."""
    context = instance.context
    reply = assemble(Retriever, context).read(query, context.tokenizer, context.flags.switched_off(query.query))
    found: dict[str, Any] = json.loads(reply[1:])["metadata"]
    return found


def strategy(instance: Instance, query: Query) -> tuple[str, str, str | None]:
    """Strategy, fusion and why it was not reranked, of a direct query."""
    metadata = read_metadata(instance, query)
    return metadata["strategy"], metadata["fusion"], metadata.get("rerank_failure")


@pytest.mark.parametrize(("name", "plan"), [("search", Plan.RETRIEVE), ("crawl", Plan.SEARCH)])
def test_what_is_off_is_denied_in_the_decision_which_is_computed_again_to_the_same(
    make_instance: MakeInstance, site: Site, name: FlagName, plan: Plan
) -> None:
    instance = make_instance(**web(site))
    change(instance, name, "off")
    run_id = asks(instance)
    instance.works("query", "gate")
    decided = decision(instance, run_id)
    assert decided.plan is plan
    assert decided.control is not None
    assert decided.control.flags_off == (name,)
    assert [(veto.name, veto.lifted_by) for veto in decided.vetoes] == [(f"flag_{name}", f"sluice flags {name} --on")]
    assert recomputed(instance, run_id).model_dump_json() == decided.model_dump_json()
    change(instance, name, "on")
    assert recomputed(instance, run_id).model_dump_json() == decided.model_dump_json()
    again = asks(instance)
    instance.works("query", "gate")
    assert (decision(instance, again).plan, decision(instance, again).control) == (Plan.FULL_LOOP, None)


def test_pending_searches_are_purged_and_their_run_is_answered_without_them(
    make_instance: MakeInstance, site: Site
) -> None:
    instance = make_instance(**web(site))
    run_id = asks(instance)
    instance.works("query", "gate")
    assert instance.context.ledger.open_by_queue(run_id)["search"] >= 1
    change(instance, "search", "kill")
    assert instance.context.ledger.open_by_queue(run_id) == {"query": 1}
    change(instance, "search", "reset")
    instance.works("search", "crawl", "query")
    view = instance.context.ledger.run(run_id)
    assert view.status == "finished"
    assert "flag_search" in [gap.reason for gap in view.missing]
    assert view.answer is not None
    assert "flag_search" in [gap.reason for gap in view.answer.missing]
    assert site.paths() == []


def test_what_is_directed_behind_the_purge_is_refused_by_its_handler(make_instance: MakeInstance, site: Site) -> None:
    instance = make_instance(**web(site))
    change(instance, "search", "off")
    change(instance, "crawl", "off")
    searching = instance.begins(SearchDirected(query="ferry", max_usd=1.0))
    crawling = instance.begins(CrawlDirected(url=site.url("/ferry.html")))
    instance.works("search", "crawl")
    for run_id, reason, subject in (
        (searching, "flag_search", "ferry"),
        (crawling, "flag_crawl", site.url("/ferry.html")),
    ):
        assert [(gap.reason, gap.subject) for gap in instance.gaps(run_id)] == [(reason, subject)]
        assert instance.context.ledger.run(run_id).status == "failed"
    assert site.paths() == []


def test_pages_are_refused_at_the_door_while_crawling_is_off(make_instance: MakeInstance, site: Site) -> None:
    instance = make_instance(**web(site))
    change(instance, "crawl", "off")
    with pytest.raises(PolicyRefused, match="the flag crawl is off"):
        instance.service.crawl("docs", [site.url("/ferry.html")])
    change(instance, "crawl", "on")
    run_id = instance.service.crawl("docs", [site.url("/ferry.html")]).run_id
    instance.works("crawl", "chunk", "embed", "index")
    assert instance.context.ledger.run(run_id).status == "finished"


def test_without_hybrid_a_hybrid_query_finds_by_vectors_alone_and_says_so(make_instance: MakeInstance) -> None:
    instance = make_instance()
    instance.adds(TEXT)
    instance.works("chunk", "embed", "index")
    hybrid, words = Query(query=QUESTION), Query(query=QUESTION, strategy=Strategy.BM25)
    assert strategy(instance, hybrid)[:2] == ("hybrid", "weighted")
    change(instance, "hybrid", "off")
    assert strategy(instance, hybrid)[:2] == ("vector", "none")
    assert strategy(instance, words)[0] == "bm25"
    change(instance, "hybrid", "on")
    assert strategy(instance, hybrid)[0] == "hybrid"


def test_a_run_is_answered_by_the_flags_of_its_decision_however_they_stand_later(make_instance: MakeInstance) -> None:
    instance = make_instance()
    instance.adds(TEXT)
    instance.works("chunk", "embed", "index")
    change(instance, "hybrid", "off")
    run_id = instance.service.ask(GateRequest(query=QUESTION, plan=Plan.RETRIEVE)).run_id
    instance.works("query", "gate")
    change(instance, "hybrid", "on")
    instance.works("query")
    answer = _answer(instance, run_id)
    assert answer
    assert all(chunk.lexical_rank is None for chunk in answer)


def _answer(instance: Instance, run_id: str) -> tuple[object, ...]:
    [event] = instance.context.ledger.events_of_kind(run_id, AnswerReady.kind)
    return event.body_as(AnswerReady).answer.chunks


def test_without_rerank_the_fused_order_stands_and_the_result_says_why(make_instance: MakeInstance) -> None:
    endpoint = Endpoint()
    try:
        endpoint.says({"results": [{"index": 0, "relevance_score": 0.9}]})
        address = endpoint.url.removeprefix("http://").removesuffix("/v1")
        rerank = {"provider": "http", "url": endpoint.url, "model": "m"}
        instance = make_instance(rerank=rerank, egress={"allow": [f"rerank={address}"]})
        instance.adds(TEXT)
        instance.works("chunk", "embed", "index")
        change(instance, "rerank", "off")
        assert strategy(instance, Query(query=QUESTION))[2] == "the flag rerank is off"
        run_id = instance.service.ask(GateRequest(query=QUESTION, plan=Plan.RETRIEVE)).run_id
        instance.works("query", "gate", "query")
        gaps = [(gap.reason, gap.detail) for gap in instance.gaps(run_id)]
        assert ("not_reranked", "the flag rerank is off") in gaps
        assert endpoint.requests == []
        change(instance, "rerank", "on")
        assert strategy(instance, Query(query=QUESTION))[2] is None
        assert len(endpoint.requests) == 1
    finally:
        endpoint.close()


def test_without_the_graph_the_result_is_hybrids_and_says_why(make_instance: MakeInstance) -> None:
    instance = make_instance()
    instance.adds(TEXT)
    instance.works("chunk", "embed", "index")
    query = Query(query=QUESTION, strategy=Strategy.HYBRID_GRAPH)
    assert read_metadata(instance, query)["strategy"] == "hybrid_graph"
    change(instance, "graph", "off")
    metadata = read_metadata(instance, query)
    assert (metadata["strategy"], metadata["graph"]["abstained"]) == ("hybrid", "the flag graph is off")
    assert metadata["graph"]["candidates"] == 0
    change(instance, "hybrid", "off")
    assert read_metadata(instance, query)["strategy"] == "vector"


def test_without_gate_weights_the_version_before_of_the_profile_decides(
    make_instance: MakeInstance, tmp_path: Path
) -> None:
    versions = sorted(int(path.stem.rpartition("v")[2]) for path in Path("gate/profiles").glob("default.v*.toml"))
    trial = f'extends = "default.v{versions[-1]}"\nname = "default"\nversion = 99\n[thresholds]\nsearch = 80.0\nfull_loop = 90.0\n'
    (tmp_path / "default.v99.toml").write_text(trial)
    instance = make_instance(gate={"profiles_dir": tmp_path, "deadline_seconds": 600})
    trialled = asks(instance, None)
    instance.works("query", "gate")
    assert (decision(instance, trialled).profile_version, decision(instance, trialled).threshold_search) == (99, 80.0)
    change(instance, "gate_weights", "off")
    rolled_back = asks(instance, None)
    instance.works("query", "gate")
    decided = decision(instance, rolled_back)
    assert (decided.profile_version, decided.control and decided.control.flags_off) == (versions[-1], ("gate_weights",))
    assert recomputed(instance, rolled_back).model_dump_json() == decided.model_dump_json()


def test_a_gate_that_observes_decides_and_asks_nobody(make_instance: MakeInstance, site: Site) -> None:
    instance = make_instance(**{**web(site), "gate": {"mode": "observe", "deadline_seconds": 600}})
    run_id = asks(instance, None)
    instance.works("query", "gate", "search", "crawl", "chunk", "embed", "index", "query")
    decided = decision(instance, run_id)
    assert decided.scored_plan is Plan.FULL_LOOP
    assert decided.plan is Plan.RETRIEVE
    assert decided.control is not None
    assert decided.control.observe
    assert {(veto.name, veto.lifted_by) for veto in decided.vetoes} == {
        ("observe", 'gate.mode = "enforce" in sluice.toml')
    }
    view = instance.context.ledger.run(run_id)
    assert view.status == "finished"
    assert "observe" in [gap.reason for gap in view.missing]
    assert recomputed(instance, run_id).model_dump_json() == decided.model_dump_json()
    assert site.paths() == []


def test_a_change_is_announced_to_those_who_follow(
    make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = make_instance()
    told: list[Event] = []
    monkeypatch.setattr(instance.context.transport, "announce", told.extend)
    change(instance, "memory", "on")
    assert [event.kind for event in told] == ["FlagChanged", "RunFinished"]


def test_a_share_of_the_runs_has_a_flag_and_both_arms_are_compared(make_instance: MakeInstance, site: Site) -> None:
    instance = make_instance(**web(site))
    FlagDesk(instance.context).change("hybrid", "on", OWN_MACHINE, "half of the traffic", 0.5)
    instance.context.flags.states()
    runs = [asks(instance, Plan.RETRIEVE) for _ in range(12)]
    instance.works("query", "gate", "query")
    off = {run_id: control.flags_off if (control := decision(instance, run_id).control) else () for run_id in runs}
    assert off == {run_id: instance.context.flags.switched_off(run_id) for run_id in runs}, "drawn by its id"
    assert {("hybrid",), ()} == set(off.values())
    for run_id in runs:
        assert recomputed(instance, run_id).model_dump_json() == decision(instance, run_id).model_dump_json()
    ShareWatch(instance.context).look()
    shown = {
        (arm, figure): value_of(FLAG_SHARE, flag="hybrid", arm=arm, figure=figure)
        for arm in ("with", "without")
        for figure in ("runs", "judged")
    }
    without = list(off.values()).count(("hybrid",))
    assert shown == {
        ("with", "runs"): 12 - without,
        ("without", "runs"): without,
        ("with", "judged"): 0,
        ("without", "judged"): 0,
    }
    found = evaluate(instance.context.ledger, datetime(2000, 1, 1, tzinfo=UTC), datetime.now(UTC), "flags")
    assert {row.flags: row.summary.runs for row in found.rows} == {"": 12 - without, "hybrid": without}
    change(instance, "hybrid", "on")
    assert instance.context.flags.switched_off(runs[0]) == ()


def test_only_flags_of_retrieval_have_shares(make_instance: MakeInstance) -> None:
    with pytest.raises(InvalidInput, match="search is on for all runs or for none"):
        FlagDesk(make_instance().context).change("search", "on", OWN_MACHINE, "", 0.5)
