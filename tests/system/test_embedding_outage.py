"""The embedding endpoint of a whole instance dies: it is said, it fails no question, and it is over by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.instance import Instance
from tests.support.openai_endpoint import OpenAIEndpoint
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)

PATIENCE_SECONDS = 90.0
"""A pause of the circuit and of the stage, and what a busy machine adds."""
FACT, LATER = "A badger sleeps in its sett.", "An otter swims on its back."


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    endpoint = OpenAIEndpoint()
    yield endpoint
    endpoint.dies()


@pytest.fixture(params=["none"])
def instance(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, endpoint: OpenAIEndpoint
) -> Iterator[Instance]:
    wanted = {**endpoint.settings, "fallback": request.param}
    settings = {f"EMBED__{name.upper()}": str(value) for name, value in wanted.items()}
    with Instance(tmp_path_factory.mktemp("outage"), **settings) as running:
        yield running


def added(instance: Instance, name: str, text: str) -> str:
    return str(instance.http.post("/v1/documents", json={"documents": [{"id": name, "text": text}]}).json()["run_id"])


def embedder_is_well(instance: Instance) -> bool:
    return bool(instance.http.get("/healthz").json()["checks"]["embedder"]["ok"])


def queried(instance: Instance, text: str) -> dict[str, Any]:
    response = instance.http.post("/v1/query", json={"query": text, "top_k": 1})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_questions_go_on_by_words_chunks_wait_and_all_is_well_again_by_itself(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    assert instance.wait(added(instance, "fact", FACT))["status"] == "finished"
    assert queried(instance, "where does the badger sleep")["metadata"]["strategy"] == "hybrid"

    endpoint.dies()
    for number in range(4):
        found = queried(instance, f"where does badger {number} sleep")
        assert found["metadata"]["strategy"] == "bm25"
        assert "out of reach" in found["metadata"]["embedder_down"] or number < 3
        assert found["chunks"][0]["text"] == FACT
    begun = time.monotonic()
    run = instance.ask("does the badger sleep in a sett")
    assert run["status"] == "finished"
    assert "embedder_down" in {gap["reason"] for gap in run["missing"]}
    assert time.monotonic() - begun < PATIENCE_SECONDS
    waiting = added(instance, "later", LATER)
    until(lambda: not embedder_is_well(instance))

    endpoint.starts()
    run = instance.wait(waiting, PATIENCE_SECONDS)
    assert (run["status"], run["dead_letters"]) == ("finished", 0)
    until(lambda: embedder_is_well(instance))
    assert queried(instance, LATER)["metadata"]["strategy"] == "hybrid"
    assert queried(instance, LATER)["chunks"][0]["text"] == LATER


@pytest.mark.parametrize("instance", ["local"], indirect=True)
def test_with_a_fallback_new_documents_are_found_by_meaning_while_the_endpoint_is_down(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    assert instance.wait(added(instance, "fact", FACT))["status"] == "finished"
    endpoint.dies()
    waiting = added(instance, "later", LATER)
    question = "which animal floats face up in a river"

    def is_found() -> bool:
        found = queried(instance, question)
        return bool(found["metadata"].get("fallback_model")) and [one["text"] for one in found["chunks"]] == [LATER]

    until(is_found)
    until(lambda: not embedder_is_well(instance))
    endpoint.starts()
    run = instance.wait(waiting, PATIENCE_SECONDS)
    assert (run["status"], run["dead_letters"]) == ("finished", 0)
    until(lambda: queried(instance, LATER)["metadata"].get("embedder_down") is None)
    assert queried(instance, LATER)["chunks"][0]["text"] == LATER
