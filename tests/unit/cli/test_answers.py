"""How an answer is shown: it first, its sources once, the gate's reasons only where they are asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.answers import print_run
from contracts.api import RunView
from contracts.event import decode
from contracts.gate import GateDecided
from contracts.index import Answer, AnswerReady
from tests.support.repository import GOLDEN

CONTEXT = "[1] a.md:1-2 (91% match)\nA lease is renewed."


def body(name: str) -> Any:
    return decode((GOLDEN / "events" / f"{name}.v1.json").read_bytes()).body


def view(context: str) -> RunView:
    ready, decision = body("AnswerReady"), body("GateDecided")
    assert isinstance(ready, AnswerReady)
    assert isinstance(decision, GateDecided)
    answer = Answer.model_validate({**json.loads(ready.answer.model_dump_json()), "context": context, "missing": ()})
    return RunView(
        run_id="run_1",
        kind="gate",
        corpus="default",
        status="finished",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        decision=decision,
        answer=answer,
    )


def test_the_answer_comes_first_with_its_sources_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(view(CONTEXT), as_json=False)
    told = capsys.readouterr().out
    assert told.startswith(CONTEXT)
    assert told.count("(91% match)") == 1
    assert "run_1 finished · plan search" in told
    assert "features" not in told


def test_why_adds_the_table_of_the_decision_behind_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(view(CONTEXT), as_json=False, why=True)
    told = capsys.readouterr().out
    assert told.startswith(CONTEXT)
    assert told.index("features") > told.index("run_1 finished")


def test_without_an_answer_the_vetoes_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(view(""), as_json=False)
    told = capsys.readouterr().out
    assert "nothing in corpus default answers this" in told
    decision = body("GateDecided")
    assert all(f"veto {veto.name}" in told for veto in decision.vetoes)


def test_an_answer_of_low_confidence_states_its_limits(capsys: pytest.CaptureFixture[str]) -> None:
    shown = view(CONTEXT)
    assert shown.answer is not None
    limited = shown.answer.model_copy(update={"limits": "Confidence 41 %: perhaps not the answer."})
    print_run(shown.model_copy(update={"answer": limited}), as_json=False)
    assert "\nConfidence 41 %: perhaps not the answer.\n" in capsys.readouterr().out
