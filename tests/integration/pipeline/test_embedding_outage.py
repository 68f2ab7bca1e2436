"""The embedding endpoint dies and comes back: questions go on by words, chunks wait, and nothing is parked."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.event import GapFound
from sluice.contracts.gate import CoverageProbed, GateDecided
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Strategy
from sluice.ingest.circuit_breaker import BreakerRule
from sluice.workers.service.instance import check_health
from tests.support.in_process import Instance
from tests.support.openai_endpoint import OpenAIEndpoint
from tests.support.searching import searched
from tests.support.valkey import Valkey

TEXTS = ("A lease is renewed by a heartbeat.", "A badger sleeps in its sett.", "Valves open under pressure.")

RULE = BreakerRule(window=1, least=1, pause_seconds=0.05)
"""As the product's, sooner: down after one failure, asked again after a moment."""


def comes_due(instance: Instance) -> None:
    """What waits for the embedder is ready again."""
    time.sleep(RULE.pause_seconds)
    instance.context.ledger.wake_due_retries()


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    endpoint = OpenAIEndpoint()
    yield endpoint
    endpoint.dies()


@pytest.fixture
def instance(valkey: Valkey, endpoint: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    monkeypatch.setattr("sluice.ingest.embed.embed.ENDPOINT_RULE", RULE)
    monkeypatch.setattr("sluice.ingest.embed.openai.MAX_RETRIES", 0)
    sections = {"embed": endpoint.settings, "crawl": {"enabled": True}, "search": {"enabled": True}}
    sections["delivery"] = {"retry_base_seconds": 0.01}
    instance = Instance(valkey, sections)
    instance.adds(*TEXTS)
    instance.works("chunk", "embed", "index")
    yield instance
    instance.close()


def test_a_question_is_answered_by_words_and_says_so_until_the_endpoint_is_back(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    query = Query(query="Where does the badger sleep?", top_k=1)
    endpoint.dies()
    for _ in range(RULE.least + 2):
        found, _ = searched(query, instance.context)
        assert found.chunks[0].text == TEXTS[1]
        assert found.metadata.strategy is Strategy.BM25
        assert "cannot be reached" in (found.metadata.embedder_down or "")
    endpoint.starts()
    time.sleep(RULE.pause_seconds)
    found, _ = searched(query, instance.context)
    assert (found.metadata.strategy, found.metadata.embedder_down) == (Strategy.HYBRID, None)


def test_a_gate_run_finishes_with_a_gap_and_fetches_nothing_that_could_not_be_embedded(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    endpoint.dies()
    request = GateRequest(query="Where does the badger sleep?", plan=Plan.FULL_LOOP, seeds=("https://example.com/",))
    run_id = instance.service.ask(request).run_id
    instance.works("query", "gate", "query")
    run = instance.context.ledger.run(run_id)
    assert run.status == "finished"
    assert run.answer is not None
    assert run.answer.chunks[0].text == TEXTS[1]
    assert "embedder_down" in {gap.reason for gap in run.missing}
    [probed] = instance.context.ledger.events_of_kind(run_id, CoverageProbed.kind)
    assert probed.body_as(CoverageProbed).embedder_down
    [decided] = instance.context.ledger.events_of_kind(run_id, GateDecided.kind)
    assert decided.body_as(GateDecided).plan is Plan.RETRIEVE
    assert {veto.name for veto in decided.body_as(GateDecided).vetoes} >= {"embedder_down"}


def test_new_chunks_wait_however_often_they_come_back_and_are_found_once_it_is_over(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    endpoint.dies()
    run_id = instance.adds("An otter swims on its back.")
    ledger = instance.context.ledger
    instance.works("chunk")
    for _ in range(20):
        comes_due(instance)
        instance.works("embed")
    run = ledger.run(run_id)
    assert (run.status, run.dead_letters) == ("open", 0)
    assert not ledger.events_of_kind(run_id, GapFound.kind)

    endpoint.starts()
    ledger.resume("embed")
    comes_due(instance)
    instance.works("embed", "index")
    run = ledger.run(run_id)
    assert (run.status, run.dead_letters) == ("finished", 0)
    found, _ = searched(Query(query="An otter swims on its back.", strategy=Strategy.VECTOR, top_k=1), instance.context)
    assert found.chunks[0].text == "An otter swims on its back."


def test_health_says_that_the_embedder_is_down_for_as_long_as_a_worker_says_so(instance: Instance) -> None:
    assert check_health(instance.context).checks["embedder"].ok
    instance.context.transport.say_embedder_down("words/32: connection refused")
    check = check_health(instance.context).checks["embedder"]
    assert not check.ok
    assert "connection refused: questions are answered by BM25 alone" in check.detail
