"""Learnings by a language model in an instance: asked by a worker, paid by the run, within its budget and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.chat_server import ChatServer, chat_server
from tests.support.in_process import MakeInstance
from tests.support.memory.instance import Remembering, claude_stream

SUMMARY = "The login answers 500 because the table sessions is missing. Mail ann@corp.test about the migration."
LEARNED = "The table sessions is missing until the migration has run, and then the login answers 500"
ANSWER = {
    "learnings": [
        {"text": LEARNED, "iteration": 1, "evidence": "because the table sessions is missing"},
        {"text": "The cache is stale at night", "iteration": 1, "evidence": "the cache was said to be stale"},
    ]
}


@pytest.fixture
def model() -> Iterator[ChatServer]:
    with chat_server(lambda _: json.dumps(ANSWER)) as server:
        yield server


def remembering(make_instance: MakeInstance, model: ChatServer, **sections: object) -> Remembering:
    judge = {"model": "judge-1", "base_url": model.base_url, "api_key": "sk-secret"}
    egress = {"allow": [f"judge={model.host_and_port}"]}
    settings = {"judge": judge, "egress": egress, "memory": {"distil_by_model": True}}
    return Remembering(make_instance(**{**settings, **sections}))


def learned(memory: Remembering) -> list[str]:
    return [one.text for one in memory.memory.learnings("auth").learnings]


def test_a_worker_asks_it_once_and_what_it_proves_is_learned_and_paid(
    make_instance: MakeInstance, model: ChatServer
) -> None:
    memory = remembering(make_instance, model)
    accepted = memory.record(claude_stream(summary=SUMMARY))
    assert learned(memory) == []
    assert "table sessions is missing" in memory.memory.prompt("auth").text
    assert model.requests == [], "no request of an agent waits for a model"
    memory.index()
    assert learned(memory) == [LEARNED], "the other one's evidence stands in no record"
    assert LEARNED in memory.indexed().values()
    assert accepted.run is not None
    assert memory.instance.context.ledger.run(accepted.run.run_id).spend.usd == pytest.approx(1_000 * 0.6 / 1e6)
    memory.record(claude_stream(summary=SUMMARY))
    memory.index()
    [request] = model.requests
    assert "ann@corp.test" not in str(request["messages"])


def test_without_room_in_the_budget_it_is_not_asked_and_the_rules_learn_alone(
    make_instance: MakeInstance, model: ChatServer
) -> None:
    memory = remembering(make_instance, model, budget={"day_usd": 0.0})
    accepted = memory.record(claude_stream(summary=SUMMARY))
    memory.index()
    assert model.requests == []
    assert accepted.run is not None
    assert memory.instance.context.ledger.run(accepted.run.run_id).status == "finished"
    assert accepted.entry_id in memory.indexed()


def test_where_the_settings_do_not_want_it_a_configured_judge_is_not_asked(
    make_instance: MakeInstance, model: ChatServer
) -> None:
    memory = remembering(make_instance, model, memory={})
    memory.record(claude_stream(summary=SUMMARY))
    memory.index()
    assert model.requests == []
