"""The story of one run, told once, on real parts: every process, a real web, a real browser, a real model.

An agent asks what an empty corpus cannot answer. The gate orders the full loop; pages are found,
crawled, chunked, embedded, indexed and published; the answer cites them. Asked again, the gate sees
that the corpus covers the question and goes outside for nothing.

Each event is handled by one function of workers/handlers.py; its table HANDLERS is the order of these steps.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.demo.web import DemoWeb
from tests.support.instance import Instance
from tests.support.online import outside

pytestmark = pytest.mark.timeout(240)

QUESTION = "How does ChainMap search several dictionaries for a key?"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, web: DemoWeb) -> Any:
    """One instance whose pages are rendered by the browser."""
    settings = {**outside(web), "CRAWL__RENDER": "always"}
    with Instance(tmp_path_factory.mktemp("walk"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def first(instance: Instance) -> dict[str, Any]:
    """The first run: the corpus is empty."""
    return instance.ask(QUESTION, deadline_seconds=90)


@pytest.fixture(scope="module")
def story(instance: Instance, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Its events, in order."""
    return instance.events(first["run_id"])


def bodies(story: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event["body"] for event in story if event["kind"] == kind]


def test_1_the_gate_sees_an_empty_corpus_and_orders_the_full_loop(first: dict[str, Any]) -> None:
    decision = first["decision"]
    assert decision["plan"] == "full_loop"
    assert decision["vetoes"] == []
    assert decision["score"] >= decision["threshold_full_loop"]
    weighted = [c["contribution"] for c in decision["contributions"]]
    assert decision["score"] == pytest.approx(sum(weighted), abs=1e-4)


def test_2_the_search_finds_pages_and_the_browser_crawls_them(story: list[dict[str, Any]]) -> None:
    (search,) = bodies(story, "SearchCompleted")[:1]
    assert search["provider"] == "searxng"
    assert search["results"]
    pages = bodies(story, "PageCrawled")
    assert pages
    assert all(page["rendered"] and page["status"] == 200 for page in pages)
    assert {page["url"] for page in pages} <= {
        result["url"] for done in bodies(story, "SearchCompleted") for result in done["results"]
    }


def test_3_pages_become_chunks_vectors_and_a_published_generation(story: list[dict[str, Any]]) -> None:
    chunked, embedded = bodies(story, "DocumentChunked"), bodies(story, "ChunksEmbedded")
    assert sum(len(body["chunks"]) for body in chunked) == sum(body["chunk_count"] for body in embedded) > 0
    assert {body["model_fingerprint"].split("/")[0] for body in embedded} == {"all-MiniLM-L6-v2"}
    last_offset = max(body["journal_offset"] for body in bodies(story, "DocumentIndexed"))
    assert max(body["journal_offset"] for body in bodies(story, "SnapshotPublished")) >= last_offset


def test_4_the_answer_cites_what_was_crawled_and_names_its_generation(
    first: dict[str, Any], story: list[dict[str, Any]]
) -> None:
    answer = first["answer"]
    assert "ChainMap" in answer["context"]
    assert answer["generation"] == first["generation"]
    crawled = {page["final_url"] for page in bodies(story, "PageCrawled")}
    for citation in answer["citations"]:
        assert citation["url"] in crawled
        assert f"[{citation['number']}]" in answer["context"]


def test_5_every_event_belongs_to_the_run_and_has_a_cause(first: dict[str, Any], story: list[dict[str, Any]]) -> None:
    ids = {event["id"] for event in story}
    assert {event["run_id"] for event in story} == {first["run_id"]}
    assert [event["kind"] for event in story if event["cause_id"] is None] == ["GateRequested"]
    assert all(event["cause_id"] in ids for event in story if event["cause_id"])
    kinds = [event["kind"] for event in story]
    assert [kind for kind in kinds if kind != "GraphPublished"][-1] == "RunFinished", (
        "the graph follows in its own time"
    )
    assert len({event["traceparent"].split("-")[1] for event in story}) == 1


def test_6_the_trace_shows_every_hop_and_sums_up_where_the_time_went(instance: Instance, first: dict[str, Any]) -> None:
    drawn = instance.sluice("trace", first["run_id"], "--json")
    assert drawn.returncode == 0, drawn.stderr
    for hop in (
        "GateRequested",
        "CoverageProbed",
        "SearchDirected",
        "CrawlDirected",
        "PageCrawled",
        "DocumentChunked",
        "ChunksEmbedded",
        "DocumentIndexed",
        "AnswerDirected",
    ):
        assert hop in drawn.stdout
    timeline = json.loads(drawn.stdout)
    assert " working (" in timeline["sum_line"]
    assert timeline["rows"][0]["kind"] == "GateRequested"


def test_7_the_decision_can_be_computed_again_bit_for_bit(instance: Instance, first: dict[str, Any]) -> None:
    explained = instance.sluice("gate", "explain", first["run_id"], "--json")
    assert explained.returncode == 0, explained.stdout + explained.stderr
    assert json.loads(explained.stdout)["identical"] is True


def test_8_asked_again_the_gate_sees_coverage_and_goes_outside_for_nothing(
    instance: Instance, first: dict[str, Any]
) -> None:
    again = instance.ask(QUESTION)
    assert again["decision"]["plan"] == "retrieve"
    kinds = {event["kind"] for event in instance.events(again["run_id"])}
    assert not kinds & {"SearchDirected", "CrawlDirected", "PageCrawled"}
    assert "ChainMap" in again["answer"]["context"]
    assert again["spend"]["pages"] == 0


def test_9_the_whole_story_is_in_the_ledger_and_nothing_is_left_over(instance: Instance, first: dict[str, Any]) -> None:
    run = instance.http.get(f"/v1/runs/{first['run_id']}").json()
    assert run["status"] == "finished"
    assert run["open_events"] == 0
    assert run["dead_letters"] == 0
    assert run["spend"]["pages"] == len(bodies(instance.events(first["run_id"]), "PageCrawled"))
    assert instance.http.get("/v1/dead-letters").json()["data"] == []
