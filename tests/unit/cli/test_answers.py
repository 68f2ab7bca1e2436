"""How an answer is shown: it first, its sources once, the gate's reasons only where they are asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.cli.agent.answers import print_run as print_view
from sluice.cli.connection import as_record
from sluice.contracts.api import RunView
from sluice.contracts.event import decode
from sluice.contracts.gate import Decision, GateDecided
from sluice.contracts.index import Answer, AnswerReady, AnswerStale
from sluice.contracts.plan import Plan
from sluice.contracts.trust import TrustFactors, TrustScore
from sluice.trust.gates import check_poisoning, check_source_trust
from tests.support.repository import GOLDEN

CONTEXT = "[1] a.md:1-2 (91% match)\nA lease is renewed."


def body(name: str) -> Any:
    return decode((GOLDEN / "events" / f"{name}.v1.json").read_bytes()).body


def print_run(view: RunView, **how: bool) -> None:
    print_view(as_record(view), **how)  # type: ignore[arg-type]


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
        decision=Decision.of(decision),
        answer=answer,
    )


def test_the_answer_comes_first_with_its_sources_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(view(CONTEXT))
    told = capsys.readouterr().out
    assert told.startswith(CONTEXT)
    assert told.count("(91% match)") == 1
    assert "run_1 finished · plan search" in told
    assert "features" not in told


def test_an_answer_without_retrieval_says_that_nothing_was_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    of = view("")
    assert of.answer is not None
    skipped = of.answer.model_copy(update={"plan": Plan.SKIP, "citations": (), "chunks": ()})
    print_run(of.model_copy(update={"answer": skipped}))
    assert capsys.readouterr().out.startswith("nothing was looked up for this\n")


def test_why_adds_the_table_of_the_decision_behind_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(view(CONTEXT), why=True)
    told = capsys.readouterr().out
    assert told.startswith(CONTEXT)
    assert told.index("features") > told.index("run_1 finished")


def test_why_shows_each_source_s_trust_with_its_factors_and_the_gates(capsys: pytest.CaptureFixture[str]) -> None:
    factors = TrustFactors(domain_trust=1.0, signature_valid=False, time_freshness=0.85)
    scores = (TrustScore(chunk_id="chunk_1", score=0.512, factors=factors, origin="crawled"),)
    checks = (check_source_trust(scores), check_poisoning([], dropped=2))
    shown = view(CONTEXT)
    assert shown.answer is not None
    answer = shown.answer.model_copy(update={"trust_scores": scores, "checks": checks})
    print_run(shown.model_copy(update={"answer": answer}), why=True)
    told = capsys.readouterr().out
    row = next(line for line in told.splitlines() if "chunk_1" in line)
    assert [word for word in row.split() if word not in "│|"] == [
        *("1", "0.512", "crawled", "1", "0", "-", "0.850", "chunk_1")
    ]
    assert "failed gate-i-source-trust (P1): 0.512, threshold 0.6, lowest 0.512" in told
    assert "passed gate-p-retrieval-poisoning (P0): 0, threshold 0: 2 blocked passages left out" in told


def test_without_an_answer_the_vetoes_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(view(""))
    told = capsys.readouterr().out
    assert "nothing in corpus default answers this" in told
    decision = body("GateDecided")
    assert all(f"veto {veto.name}" in told for veto in decision.vetoes)


def test_an_answer_of_low_confidence_states_its_limits(capsys: pytest.CaptureFixture[str]) -> None:
    shown = view(CONTEXT)
    assert shown.answer is not None
    limited = shown.answer.model_copy(update={"limits": "Confidence 41 %: perhaps not the answer."})
    print_run(shown.model_copy(update={"answer": limited}))
    assert "\nConfidence 41 %: perhaps not the answer.\n" in capsys.readouterr().out


def test_a_citation_that_is_stale_is_marked_with_what_became_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    stale = body("AnswerStale")
    assert isinstance(stale, AnswerStale)
    print_run(view(CONTEXT).model_copy(update={"stale": stale.citations}))
    told = capsys.readouterr().out
    assert "stale [1] changed since 2026-01-02 03:04 UTC: http://example.com/a" in told
    assert "stale [2] gone since 2026-01-02 03:04 UTC: doc_2" in told
