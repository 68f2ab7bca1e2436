"""Prompts over HTTP and on the command line: the messages come with the answer, and a wrong name is told at once."""

from __future__ import annotations

import json
import re

import pytest

from sluice.contracts.retrieval import PromptMessage
from tests.support.instance import Instance

pytestmark = pytest.mark.timeout(240)

TEXT = "# Harbour\n\n## Leases\n\nA berth lease is renewed by its holder every spring."
QUESTION = "Who renews a berth lease?"


@pytest.fixture(scope="module")
def filled(offline: Instance) -> Instance:
    document = {"id": "berths", "file_path": "docs/berths.md", "text": TEXT}
    accepted = offline.http.post(
        "/v1/documents", json={"corpus": "prompts", "create_corpus": True, "documents": [document]}
    )
    assert offline.wait(accepted.json()["run_id"])["status"] == "finished"
    return offline


def assert_is_prompt(messages: list[dict[str, str]]) -> None:
    made = [PromptMessage.model_validate(one) for one in messages]
    asked = made[-1].content
    delimiter = re.match(
        r"=== passage (\w+) ===\n\[1\] docs/berths\.md:\d+-\d+ \(\d+% match\) · submitted, source claimed · Harbour",
        asked,
    )
    assert delimiter is not None, asked
    assert f"=== end {delimiter[1]} ===" in asked
    assert asked.endswith(QUESTION)
    assert any(one.role == "system" and delimiter[1] in one.content for one in made)


def test_a_direct_query_brings_the_messages_of_the_prompt_it_asks_for(filled: Instance) -> None:
    body = {"query": QUESTION, "corpus": "prompts"}
    assert "prompt" not in filled.http.post("/v1/query", json=body).json()
    assert_is_prompt(filled.http.post("/v1/query", json={**body, "prompt": "rag"}).json()["prompt"])
    assert_is_prompt(filled.http.post("/v1/query", json={**body, "prompt": "rag", "max_tokens": 50}).json()["prompt"])


def test_the_gate_brings_them_with_the_run_and_puts_the_session_before_the_question(filled: Instance) -> None:
    session = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    run = filled.ask(QUESTION, corpus="prompts", plan="retrieve", prompt="few_shot.v1", session=session)
    assert_is_prompt(run["prompt"])
    assert run["prompt"][0] == session[0]
    assert sum(QUESTION in one["content"] for one in run["prompt"]) == 1
    assert filled.http.get(f"/v1/runs/{run['run_id']}").json()["prompt"] == run["prompt"]
    [ready] = [one["body"] for one in filled.events(run["run_id"]) if one["kind"] == "AnswerReady"]
    assert ready["prompt"] == run["prompt"]


@pytest.mark.parametrize("route", ["/v1/gate", "/v1/query"])
def test_an_unknown_prompt_is_refused_and_the_known_ones_are_named(filled: Instance, route: str) -> None:
    refused = filled.http.post(route, json={"query": QUESTION, "corpus": "prompts", "prompt": "poem"})
    assert refused.status_code == 422, refused.text
    assert refused.json()["field"] == "prompt"
    assert "rag.v1" in refused.json()["remedy"]


def test_the_command_line_lists_shows_and_prints_them(filled: Instance) -> None:
    listed = json.loads(filled.sluice("prompts", "--json").stdout)
    assert {"base.v1", "few_shot.v1", "rag.v1"} <= {one["full_name"] for one in listed}
    assert "{nonce}" in json.loads(filled.sluice("prompts", "rag", "--json").stdout)["system"]
    assert filled.sluice("prompts", "show", "poem").returncode == 2
    queried = filled.sluice("query", "--corpus", "prompts", "--prompt", "rag.v1", QUESTION)
    assert queried.stdout.startswith("system\nYou answer questions")
    asked = filled.sluice("ask", "--corpus", "prompts", "--plan", "retrieve", "--prompt", "rag", QUESTION)
    assert asked.returncode == 0, asked.stderr
    assert "=== passage" in asked.stdout
    assert "[1] docs/berths.md" in asked.stdout
