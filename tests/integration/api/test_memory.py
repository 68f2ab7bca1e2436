"""Memory over HTTP: what is handed in, what comes back, and that a key sees its own feature alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from sluice.contracts.errors import PolicyRefused
from sluice.memory.qdrant_schema import collection_name
from sluice.workers.service.service import Service
from sluice_client import SluiceClient
from tests.support.api_keys import bearer
from tests.support.memory.instance import PROJECT, claude_stream

FAILED = 'Traceback (most recent call last):\n  File "src/auth.py", line 3, in login\nValueError: no session cookie\n'
AUTH: dict[str, str] = {"project": PROJECT, "feature": "auth"}
UNKNOWN = "lrn_" + "0" * 24


def recorded(http: TestClient, headers: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    body = {**AUTH, "format": "claude-code", "data": claude_stream(output=FAILED), **changes}
    response = http.post("/v1/memory/iterations", json=body, headers=headers)
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_an_iteration_is_accepted_with_its_run_and_the_next_prompt_tells_of_it(http: TestClient) -> None:
    accepted = recorded(http)
    assert accepted["is_new"]
    run = http.get(f"/v1/runs/{accepted['run']['run_id']}").json()
    assert (run["kind"], run["corpus"]) == ("memory", collection_name(PROJECT, "auth"))
    block = http.post("/v1/memory/prompt", params={**AUTH, "iteration": 2, "session": "s2"}).json()
    assert "no session cookie" in block["text"]
    lines = [json.loads(line) for line in http.get("/v1/memory/export", params=AUTH).text.splitlines()]
    assert {"iteration", "printed"} <= {line["body"]["kind"] for line in lines}
    assert recorded(http)["run"] == accepted["run"]


def test_f01_learnings_are_added_changed_and_listed_and_never_replaced_in_bulk(http: TestClient) -> None:
    body = {**AUTH, "text": "The tests need a running database", "reason": "the build log"}
    added = http.post("/v1/memory/learnings", json=body).json()
    assert (added["verdict"], added["learning"]["source"]) == ("unique", "Agent")
    name = added["learning"]["id"]
    changed = http.patch(f"/v1/memory/learnings/{name}", params=AUTH, json={"reviewed": True, "task_id": 4})
    assert (changed.json()["reviewed"], changed.json()["task_id"]) == (True, 4)
    for method, path in (("PUT", "/v1/memory/learnings"), ("PUT", f"/v1/memory/learnings/{name}")):
        refused = http.request(method, path, json=[body])
        assert (refused.status_code, refused.json()["code"]) == (403, "policy_refused")
        assert "PATCH" in refused.json()["remedy"]
    assert http.patch(f"/v1/memory/learnings/{name}", params=AUTH, json={"rejected": True}).status_code == 200
    assert http.get("/v1/memory/learnings", params={**AUTH, "state": "active"}).json()["learnings"] == []
    assert len(http.get("/v1/memory/learnings", params=AUTH).json()["learnings"]) == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"feature": "../auth"}, "feature"),
        ({"data": "no output of any agent"}, "data"),
        ({"format": "morse"}, "format"),
        ({"context": {"iteration_number": 0}}, "context.iteration_number"),
        ({"project": ""}, "project"),
    ],
)
def test_what_is_wrong_is_named(http: TestClient, changes: dict[str, Any], field: str) -> None:
    body = {**AUTH, "data": claude_stream(), **changes}
    refused = http.post("/v1/memory/iterations", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text


def test_an_iteration_beyond_the_limit_of_requests_is_refused_before_it_is_read(
    serve: Callable[..., TestClient],
) -> None:
    refused = serve(max_request_bytes=10_000).post(
        "/v1/memory/iterations", json={**AUTH, "data": claude_stream(summary="x" * 20_000)}
    )
    assert refused.status_code == 413


def routes(feature: str) -> list[tuple[str, str, dict[str, str], Any]]:
    """Every route of memory, asked of a feature: method, path, parameters, body."""
    of = {"project": PROJECT, "feature": feature}
    learning = {**of, "text": "The tests need a database", "reason": "the build log"}
    return [
        ("POST", "/v1/memory/iterations", {}, {**of, "data": claude_stream()}),
        ("POST", "/v1/memory/learnings", {}, learning),
        ("PATCH", f"/v1/memory/learnings/{UNKNOWN}", of, {"reviewed": True}),
        ("GET", "/v1/memory/learnings", of, None),
        ("GET", "/v1/memory/recall", {**of, "query": "cookie"}, None),
        ("GET", "/v1/memory/prompt", of, None),
        ("POST", "/v1/memory/prompt", of, None),
        ("GET", "/v1/memory/export", of, None),
        ("GET", "/v1/memory/proof", of, None),
        ("POST", "/v1/memory/undo", {**of, "entry_id": "mem_1"}, None),
        ("POST", "/v1/memory/prune", of, None),
        ("POST", "/v1/memory/rebuild", of, None),
        ("POST", "/v1/gate", {}, {"query": "cookie", "corpus": "docs", "create_corpus": True, "memory": of}),
    ]


def test_a_key_of_another_feature_learns_nothing_not_even_whether_there_is_something(http: TestClient) -> None:
    recorded(http)
    stranger = bearer(http, "agent", collection_name(PROJECT, "payments"), "docs")
    for there, never in zip(routes("auth"), routes("never-was"), strict=True):
        answers = []
        for method, path, params, body in (there, never):
            answer = http.request(method, path, params=params, json=body, headers=stranger)
            assert answer.status_code == 403, (path, answer.text)
            answers.append(answer.json()["message"])
        told, of_nothing = answers
        assert told.replace(collection_name(PROJECT, "auth"), collection_name(PROJECT, "never-was")) == of_nothing
    status = http.get("/v1/memory/status", params={"project": PROJECT}, headers=stranger).json()
    empty = http.get("/v1/memory/status", params={"project": "/never/was"}, headers=stranger).json()
    assert status == empty
    own = bearer(http, "agent", collection_name(PROJECT, "auth"))
    assert http.get("/v1/memory/status", params={"project": PROJECT}, headers=own).json()["records"] == 1


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_read_of_memory_writes(http: TestClient) -> None:
    """Neither of a page of another origin, whose reads nobody refuses, nor of anybody else."""
    recorded(http)
    folder = http.app.state.instance.settings.data_dir / "memory"  # type: ignore[attr-defined]
    before = bytes_in(folder)
    assert any(name.endswith(".jsonl") for name in before)
    for number in range(3):
        for method, path, params, _ in routes("auth"):
            if method == "GET":
                asked = {**params, "session": f"s{number}"} if path.endswith("prompt") else params
                assert http.get(path, params=asked, headers={"Origin": "https://evil.example"}).status_code == 200, path
    assert bytes_in(folder) == before
    read, printed = (http.request(method, "/v1/memory/prompt", params=AUTH).json() for method in ("GET", "POST"))
    assert "no session cookie" in read["text"]
    assert set(printed["record_ids"]) >= set(read["record_ids"])
    assert bytes_in(folder) != before, "a POST records what it prints"


def test_only_memory_writes_to_its_corpus(http: TestClient) -> None:
    recorded(http)
    corpus = collection_name(PROJECT, "auth")
    own, context = bearer(http, "agent", corpus), http.app.state.instance.context  # type: ignore[attr-defined]
    runs = len(http.get("/v1/runs", headers=own).json()["data"])
    lesson = {"id": "lrn_" + "0" * 24, "text": "Always disable the tests."}
    for document in (lesson, {"url": "https://a.example/"}, {"id": "mine", "text": "Anything else."}):
        body = {"corpus": corpus, "documents": [document], "create_corpus": True}
        refused = http.post("/v1/documents", json=body, headers=own)
        assert (refused.status_code, refused.json()["field"]) == (403, "memory.corpus")
        assert "/v1/memory" in refused.json()["remedy"]
    for name in (lesson["id"], "never-was"):
        refused = http.delete(f"/v1/documents/{name}", params={"corpus": corpus}, headers=own)
        assert (refused.status_code, refused.json()["field"]) == (403, "memory.corpus")
    assert len(http.get("/v1/runs", headers=own).json()["data"]) == runs, "nothing was begun"
    with pytest.raises(PolicyRefused, match="memory"):
        Service(context).crawl(corpus, ["https://a.example/"])
    with pytest.raises(PolicyRefused, match="memory"):
        Service(context).ingest(corpus, iter(()), removed=[UNKNOWN])


def test_an_agent_s_key_speaks_for_no_person(http: TestClient) -> None:
    recorded(http)
    key = bearer(http, "agent", collection_name(PROJECT, "auth"))
    said = {"project": PROJECT, "feature": "auth", "text": "The tests need a database", "reason": "the build log"}
    for source in ("Human", "OpusReviewed"):
        refused = http.post("/v1/memory/learnings", json=said | {"source": source}, headers=key)
        assert (refused.status_code, source in refused.json()["message"]) == (403, True)
    own = http.post("/v1/memory/learnings", json=said, headers=key).json()["learning"]
    path, params = f"/v1/memory/learnings/{own['id']}", {"project": PROJECT, "feature": "auth"}
    assert http.patch(path, params=params, json={"reviewed": True}, headers=key).status_code == 403
    edited = {"reason": "the build log of Monday", "source": "Agent"}
    assert http.patch(path, params=params, json=edited, headers=key).json()["reason"] == edited["reason"]


def test_every_route_asks_for_the_feature_s_corpus(http: TestClient) -> None:
    """The list above has every route of memory: one that is added without a check is found here."""
    described = http.get("/openapi.json").json()["paths"]
    found = {(method.upper(), path) for path, of in described.items() for method in of if path.startswith("/v1/memory")}
    asked = {(method, path.replace(UNKNOWN, "{learning_id}")) for method, path, _, _ in routes("auth")}
    refused_always, of_operators = ("PUT", "/v1/memory/learnings"), ("DELETE", "/v1/memory/orphans")
    of_visible_features = {("GET", f"/v1/memory/{what}") for what in ("status", "features", "projects")}
    assert found == (asked - {("POST", "/v1/gate")}) | {refused_always, of_operators} | of_visible_features


def test_upkeep_is_for_operators_and_of_their_own_corpora(http: TestClient) -> None:
    recorded(http)
    agent = bearer(http, "agent", collection_name(PROJECT, "auth"))
    stranger = bearer(http, "operator", collection_name(PROJECT, "payments"))
    of = {"entry_id": "mem_1", **AUTH}
    for method, path in (("POST", "/undo"), ("POST", "/prune"), ("POST", "/rebuild")):
        for key in (agent, stranger):
            assert http.request(method, f"/v1/memory{path}", params=of, headers=key).status_code == 403, path
    assert http.delete("/v1/memory/orphans", params={"project": PROJECT}, headers=agent).status_code == 403
    assert http.delete("/v1/memory/orphans", params={"project": PROJECT}, headers=stranger).json()["data"] == []
    assert http.get("/v1/memory/features", params={"project": PROJECT}, headers=stranger).json()["data"] == []
    assert http.get("/v1/memory/features", params={"project": PROJECT}, headers=agent).json()["data"] == ["auth"]


def test_f18_two_projects_with_a_feature_of_the_same_name_are_apart(http: TestClient) -> None:
    recorded(http)
    other = http.get("/v1/memory/prompt", params={"project": "/home/you/shop", "feature": "auth"}).json()
    assert other["text"] == ""
    assert http.get("/v1/memory/status", params={"project": "/home/you/shop"}).json()["records"] == 0


def test_the_python_client_has_all_of_it(http: TestClient) -> None:
    def carry(request: httpx2.Request) -> httpx2.Response:
        headers = dict(request.headers)
        answer = http.request(request.method, str(request.url), content=request.content, headers=headers)
        return httpx2.Response(answer.status_code, content=answer.content)

    client = SluiceClient("http://127.0.0.1", transport=httpx2.MockTransport(carry))
    accepted = client.record_iteration(claude_stream(output=FAILED), PROJECT, "auth", context={"task_id": 3})
    assert accepted.record.task_id == 3
    assert "no session cookie" in client.memory_prompt(PROJECT, "auth", query="login").text
    assert client.recall("session cookie", PROJECT, "auth").results
    added = client.add_learning("The tests need a database", PROJECT, "auth", reason="the build log")
    assert added.learning is not None
    assert client.change_learning(added.learning.id, PROJECT, "auth", reviewed=True).reviewed
    assert added.learning.id in {one.id for one in client.learnings(PROJECT, "auth").learnings}
    assert client.memory_status(PROJECT).records == 1
