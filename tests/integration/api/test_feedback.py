"""Feedback counts once for each run and key, and only on chunks that the answer held."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.contracts.index import AnswerReady
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.service.callers import ApiKeys
from tests.support.evaluation_samples import chunk
from tests.support.ledger_story import answer


@pytest.fixture
def run_id(ledger: Ledger) -> str:
    """A run whose answer holds the chunks `a` and `b`."""
    run_id = new_run_id()
    event = Event.of(GateRequested(query="what is a lease?"), run_id=run_id, corpus="docs")
    ledger.create_run(NewRun(run_id, "gate", "docs", "0" * 64), [(event, Next(event.body))])
    claim = ledger.claim_next("query", "w1", 10.0)
    assert isinstance(claim, Claim)
    given = answer().answer.model_copy(update={"chunks": (chunk("a", "doc"), chunk("b", "doc"))})
    ledger.settle(claim, Done((Next(AnswerReady(answer=given, duration_ms=1.0)),)))
    return run_id


def gives(http: TestClient, run_id: str, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return http.post("/v1/feedback", json={"run_id": run_id, **fields}, headers=headers or {})


def recorded(ledger: Ledger, run_id: str) -> int:
    return len(ledger.events_of_kind(run_id, "FeedbackGiven"))


def test_a_chunk_that_the_answer_did_not_hold_is_refused_by_its_position(
    http: TestClient, ledger: Ledger, run_id: str
) -> None:
    refused = gives(http, run_id, chunk_ids_used=["a", "elsewhere"], outcome="success")
    assert (refused.status_code, refused.json()["field"]) == (422, "chunk_ids_used.1")
    assert recorded(ledger, run_id) == 0
    assert gives(http, run_id, chunk_ids_used=["a", "b"], outcome="success").status_code == 202


def test_chunks_of_a_run_without_an_answer_are_refused(http: TestClient, ledger: Ledger) -> None:
    run_id = new_run_id()
    event = Event.of(GateRequested(query="?"), run_id=run_id, corpus="docs")
    ledger.create_run(NewRun(run_id, "gate", "docs", "0" * 64), [(event, Next(event.body))])
    assert "no answer" in gives(http, run_id, chunk_ids_used=["a"]).json()["message"]


def test_the_same_feedback_again_changes_nothing(http: TestClient, ledger: Ledger, run_id: str) -> None:
    for headers in ({}, {"Idempotency-Key": "one"}, {"Idempotency-Key": "two"}):
        assert gives(http, run_id, headers, outcome="success", rating=1.0).status_code == 202
    assert recorded(ledger, run_id) == 1


def test_other_feedback_on_the_same_run_is_refused(http: TestClient, ledger: Ledger, run_id: str) -> None:
    assert gives(http, run_id, outcome="success").status_code == 202
    refused = gives(http, run_id, {"Idempotency-Key": "another"}, outcome="failure")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert recorded(ledger, run_id) == 1


def test_each_key_has_its_own_say(http: TestClient, ledger: Ledger, run_id: str) -> None:
    bearers = [{"Authorization": f"Bearer {ApiKeys(ledger).create('k', 'agent', [])[1]}"} for _ in range(2)]
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets that there was none
    for headers, outcome in zip(bearers, ("success", "failure"), strict=True):
        assert gives(http, run_id, headers, outcome=outcome).status_code == 202
    assert recorded(ledger, run_id) == 2


def test_a_passage_is_called_bad_and_an_operator_lists_and_lifts_that(
    http: TestClient, ledger: Ledger, run_id: str
) -> None:
    assert gives(http, run_id, passages=[{"chunk_id": "a", "reason": "wrong"}]).json()["counted"] == "now"
    assert gives(http, run_id, passages=[{"chunk_id": "a", "reason": "wrong"}]).json()["counted"] == "before"
    assert recorded(ledger, run_id) == 0, "the answer as a whole was not judged"
    refused = gives(http, run_id, passages=[{"chunk_id": "b"}])
    assert (refused.status_code, "give a reason" in refused.text) == (422, True)
    [told] = http.get("/v1/feedback/passages", params={"corpus": "docs"}).json()["data"]
    assert (told["chunk_id"], told["doubt"], told["reasons"]) == ("a", 0.1, {"wrong": 1})
    lifted = http.delete("/v1/feedback/passages/a", params={"corpus": "docs", "note": "it is right"})
    assert (lifted.status_code, lifted.json()["chunk_id"]) == (200, "a")
    assert http.get("/v1/feedback/passages", params={"corpus": "docs"}).json()["data"] == []
    assert http.delete("/v1/feedback/passages/a", params={"corpus": "docs"}).status_code == 404


def test_a_key_marks_passages_of_its_own_corpora_alone_and_lifts_nothing(
    http: TestClient, ledger: Ledger, run_id: str
) -> None:
    keys = [ApiKeys(ledger).create("k", "agent", corpora)[1] for corpora in (["docs"], ["others"])]
    own, other = ({"Authorization": f"Bearer {key}"} for key in keys)
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets that there was none
    said = {"passages": [{"chunk_id": "a", "reason": "harmful"}]}
    assert gives(http, run_id, other, **said).status_code == 404
    assert gives(http, run_id, own, **said).status_code == 202
    [mark] = ledger.marks.of_corpus("docs")
    assert mark.standing == "other", "it did not ask"
    lift = ("/v1/feedback/passages/a", {"corpus": "docs"})
    assert http.delete(lift[0], params=lift[1], headers=own).status_code == 403
    assert http.get("/v1/feedback/passages", params=lift[1], headers=own).status_code == 403
