"""What became of runs over HTTP: feedback by signal, and the figures for operators of all corpora."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import Done
from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import Clock, Story
from tests.support.outcome_story import answers, asks_and_decides, cites

PAGE = "https://example.org/a"


@pytest.fixture
def story(ledger: Ledger) -> Story:
    return Story(ledger, Clock(ledger.clock()), "")


@pytest.fixture
def run_id(story: Story) -> str:
    """A run that was answered."""
    decision = asks_and_decides(story)
    answers(story, decision[-1], cites({PAGE: 60.0}))
    return decision[0].run_id


def gives(http: TestClient, run_id: str, **fields: Any) -> int:
    return int(http.post("/v1/feedback", json={"run_id": run_id, **fields}).status_code)


def test_each_signal_is_given_once_and_counts_beside_the_others(
    http: TestClient, ledger: Ledger, story: Story, run_id: str
) -> None:
    assert gives(http, run_id, outcome="success", chunk_ids_used=[f"{PAGE}-1"]) == 202
    assert gives(http, run_id, outcome="failure", signal="tool_success") == 202
    assert gives(http, run_id, outcome="failure", signal="tool_success") == 202
    assert gives(http, run_id, outcome="success", signal="tool_success") == 409
    assert gives(http, run_id, outcome="success", signal="applause") == 422
    assert gives(http, run_id, outcome="success", signal="benchmark", response="x" * 32_001) == 422
    recorded = ledger.events_of_kind(run_id, "FeedbackGiven")
    assert len(recorded) == 2
    for event in recorded:
        story.handles(event, Done())
    outcome = ledger.outcomes.of_run(run_id)
    assert outcome is not None
    assert outcome.signals == {"task_satisfaction": 1.0, "tool_success": 0.0}
    assert outcome.precision == 1.0


def test_the_figures_are_there_by_plan_profile_and_model(http: TestClient, run_id: str) -> None:
    by_plan = http.get("/v1/evaluation").json()
    assert [(row["profile"], row["plan"], row["summary"]["runs"]) for row in by_plan["rows"]] == [
        ("default", "retrieve", 1)
    ]
    assert http.get("/v1/evaluation", params={"by": "model", "profile": "default"}).json()["total"]["runs"] == 1
    assert http.get("/v1/evaluation", params={"profile": "other"}).json()["rows"] == []
    assert http.get("/v1/evaluation", params={"since": "2999-01-01T00:00:00Z"}).json()["rows"] == []
    for wrong in ("0", "1e9", "2026-01-31", "2026-01-31T12:00:00"):
        refused = http.get("/v1/evaluation", params={"since": wrong})
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "since"), wrong
    assert http.get("/v1/evaluation", params={"by": "mood"}).status_code == 422
