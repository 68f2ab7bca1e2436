"""Rollouts of models over HTTP: an operator of the whole instance tries a model, reads of it, and ends its part."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.gate_model import small_model, write_small_model


@pytest.fixture
def http_with_model(http: TestClient) -> TestClient:
    data_dir: Path = http.app.state.instance.settings.data_dir  # type: ignore[attr-defined]
    write_small_model(small_model("m1", "test"), data_dir)
    return http


def test_a_model_is_tried_reported_on_and_stopped(http_with_model: TestClient) -> None:
    http = http_with_model
    assert http.get("/v1/rollouts").json()["data"] == []
    begun = http.post("/v1/rollouts", json={"action": "canary", "version": "m1", "stages": [0.2, 1], "note": "to see"})
    assert begun.status_code == 200, begun.text
    assert (begun.json()["status"], begun.json()["share"]) == ("canary", 0.2)
    assert begun.json()["expected_runs"][0] > 10_000  # said beforehand
    report = http.get("/v1/rollouts/m1/report").json()
    assert report["verdict"]["kind"] == "inconclusive"
    assert "no data" in report["verdict"]["why"]
    assert http.post("/v1/rollouts", json={"action": "rollback"}).json()["status"] == "stopped"
    [stopped] = http.get("/v1/rollouts").json()["data"]
    assert [step["status"] for step in stopped["history"]] == ["canary", "stopped"]


def test_an_operator_promotes_a_canary_stage_by_stage(http_with_model: TestClient) -> None:
    def after(**action: object) -> tuple[str, float]:
        done = http_with_model.post("/v1/rollouts", json=action).json()
        return done["status"], done["share"]

    assert after(action="canary", version="m1", stages=[0.1, 0.5, 1]) == ("canary", 0.1)
    assert after(action="promote") == ("canary", 0.5)
    assert after(action="promote") == ("promoted", 1.0)


def test_what_cannot_be_done_is_said(http_with_model: TestClient) -> None:
    http = http_with_model
    assert http.post("/v1/rollouts", json={"action": "stop"}).status_code == 404
    assert http.post("/v1/rollouts", json={"action": "shadow", "version": "nowhere"}).status_code == 404
    assert http.post("/v1/rollouts", json={"action": "shadow", "version": "../x"}).status_code == 422
    unequal = http.post("/v1/rollouts", json={"action": "canary", "version": "m1", "stages": [0.75, 1]})
    assert unequal.status_code == 422
    assert "control of equal size" in unequal.text
    assert http.get("/v1/rollouts/m1/report").status_code == 404


def test_only_an_operator_of_every_corpus_sees_and_changes_rollouts(http: TestClient, ledger: Ledger) -> None:
    for role, corpora in (("agent", ()), ("operator", ("docs",))):
        _, secret = ApiKeys(ledger).create("of a test", role, corpora)
        http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets what it had read
        key = {"Authorization": f"Bearer {secret}"}
        assert http.get("/v1/rollouts", headers=key).status_code == 403
        assert http.post("/v1/rollouts", json={"action": "rollback"}, headers=key).status_code == 403
