"""`sluice feedback` on a real ledger and broker: one run, or a file of many."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.gate import FeedbackGiven
from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import Clock, Story
from tests.support.outcome_story import answers, asks_and_decides, cites
from tests.support.served import served
from tests.support.valkey import Valkey

PAGE = "https://example.org/a"
Sluice = Callable[..., Result]


@pytest.fixture
def sluice(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sluice]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    with served(valkey.settings):
        yield lambda *arguments: CliRunner().invoke(app, ["feedback", *arguments], prog_name="sluice")


@pytest.fixture
def ledger(valkey: Valkey) -> Iterator[Ledger]:
    with Ledger(valkey.settings.ledger_location) as opened:
        yield opened


@pytest.fixture
def run_id(ledger: Ledger) -> str:
    """A run that was answered with one chunk."""
    story = Story(ledger, Clock(ledger.clock()), "")
    decision = asks_and_decides(story)
    answers(story, decision[-1], cites({PAGE: 60.0}))
    return decision[0].run_id


def given(ledger: Ledger, run_id: str) -> list[FeedbackGiven]:
    return [event.body_as(FeedbackGiven) for event in ledger.events_of_kind(run_id, FeedbackGiven.kind)]


def test_feedback_on_a_run_is_recorded_with_its_signal_and_what_the_agent_made_of_it(
    sluice: Sluice, ledger: Ledger, run_id: str, tmp_path: Path
) -> None:
    response = tmp_path / "response.txt"
    response.write_text("It is a lease.")
    told = (run_id, "--signal", "tool_success", "--rating", "0.4", "--used", f"{PAGE}-1", "--response", str(response))
    assert "recorded" in sluice(*told).stdout
    assert json.loads(sluice(*told, "--json").stdout)["status"] == "repeated"
    [feedback] = given(ledger, run_id)
    assert (feedback.signal, feedback.value, feedback.response) == ("tool_success", 0.4, "It is a lease.")
    assert sluice(run_id, "--signal", "tool_success", "--outcome", "failure").exit_code == 5
    assert sluice(run_id, "--used", "elsewhere", "--signal", "benchmark").exit_code == 2
    assert sluice().exit_code == 2


def test_a_file_is_taken_line_by_line_and_what_is_refused_is_named(
    sluice: Sluice, ledger: Ledger, run_id: str, tmp_path: Path
) -> None:
    file = tmp_path / "feedback.jsonl"
    lines = [
        {"run_id": run_id, "outcome": "success", "chunk_ids_used": [f"{PAGE}-1"]},
        {"run_id": "run_nope", "outcome": "success"},
        {"run_id": run_id, "outcome": "success", "chunk_ids_used": [f"{PAGE}-1"]},
        {"run_id": run_id, "outcome": "partial", "signal": "user_acceptance"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    taken = sluice("--file", str(file))
    assert taken.exit_code == 1
    assert "line 2: no run run_nope" in taken.stdout
    assert "2 accepted, 1 repeated, 1 refused" in taken.stdout
    assert {feedback.signal: feedback.value for feedback in given(ledger, run_id)} == {
        "task_satisfaction": 1.0,
        "user_acceptance": 0.5,
    }
