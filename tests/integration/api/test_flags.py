"""Flags over HTTP: everybody reads, an operator of the whole instance changes."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys


def flag(http: TestClient, name: str) -> dict[str, object]:
    states = {one["name"]: one for one in http.get("/v1/flags").json()["data"]}
    state: dict[str, object] = states[name]
    return state


def test_a_flag_is_changed_shown_and_reset(http: TestClient) -> None:
    assert (flag(http, "rerank")["enabled"], flag(http, "rerank")["decided_by"]) == (True, "default")
    assert (flag(http, "crawl")["decided_by"], flag(http, "crawl")["why"]) == ("policy", "crawling is switched off")
    changed = http.put("/v1/flags/rerank", json={"enabled": False, "note": "too slow"})
    assert changed.status_code == 200, changed.text
    body = changed.json()
    assert (body["state"]["enabled"], body["state"]["note"], body["purged"]) == (False, "too slow", 0)
    run = http.get(f"/v1/runs/{body['run_id']}").json()
    assert (run["kind"], run["status"], run["query"]) == ("control", "finished", "flag_off flag:rerank: too slow")
    stream = http.get(f"/v1/runs/{body['run_id']}/events").text
    assert [line for line in stream.splitlines() if line.startswith("event:")] == [
        "event: FlagChanged",
        "event: RunFinished",
    ]
    assert [one["run_id"] for one in http.get("/v1/runs", params={"kind": "control"}).json()["data"]] == [
        body["run_id"]
    ]
    http.delete("/v1/flags/rerank", params={"note": "faster now"})
    assert flag(http, "rerank")["decided_by"] == "default"
    history = http.get("/v1/flags/rerank/history").json()["data"]
    assert [(one["action"], one["note"]) for one in history] == [("flag_off", "too slow"), ("flag_reset", "faster now")]


def test_what_cannot_be_done_is_said(http: TestClient) -> None:
    assert http.put("/v1/flags/telepathy", json={"enabled": True}).status_code == 404
    assert http.put("/v1/flags/search", json={"enabled": True, "kill": True}).status_code == 422
    assert http.put("/v1/flags/search", json={"enabled": False, "kill": True}).status_code == 200
    refused = http.put("/v1/flags/search", json={"enabled": True})
    assert refused.status_code == 409
    assert "sluice flags search --reset" in refused.text


def test_only_an_operator_of_every_corpus_changes_flags(http: TestClient, ledger: Ledger) -> None:
    http.put("/v1/flags/memory", json={"enabled": False, "note": "the provider bills twice"})
    for role, corpora in (("agent", ()), ("operator", ("docs",))):
        _, secret = ApiKeys(ledger).create("of a test", role, corpora)
        http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets what it had read
        key = {"Authorization": f"Bearer {secret}"}
        read = http.get("/v1/flags", headers=key)
        assert read.status_code == 200
        assert ("the provider" in read.text) == (role == "operator"), "agents read no operator's notes"
        assert http.put("/v1/flags/search", json={"enabled": False}, headers=key).status_code == 403
    assert set(ledger.flags.all()) == {"memory"}


def test_the_environment_decides_before_what_is_stored_and_the_kill_switch_before_both(
    serve: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEATURE_HYBRID_RETRIEVAL", "true")
    http: TestClient = serve()  # type: ignore[operator]
    stored = http.put("/v1/flags/hybrid", json={"enabled": False}).json()["state"]
    assert (stored["enabled"], stored["decided_by"], stored["why"]) == (
        True,
        "environment",
        "FEATURE_HYBRID_RETRIEVAL=true",
    )
    killed = http.put("/v1/flags/hybrid", json={"enabled": False, "kill": True}).json()["state"]
    assert (killed["enabled"], killed["decided_by"]) == (False, "kill_switch")
