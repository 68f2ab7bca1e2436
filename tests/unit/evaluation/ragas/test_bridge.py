"""The RAGAS bridge: its flag, its figures, and what it says of what could not be judged."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluice.contracts.errors import TimedOut, Unavailable
from sluice.evaluation.chat_endpoint import JudgeSettings
from sluice.evaluation.ragas.bridge import RagasBridge
from sluice.evaluation.ragas.environment import AnsweredQuestion, RagasScore, judge_answers
from sluice.evaluation.retrieval.cases import Case
from sluice.ingest.embed.minilm import MiniLM
from tests.support.chat_server import chat_server

CASES = (Case(id="1", query="what renews a lease", relevant={"a": 1}), Case(id="2", query="who", relevant={"b": 1}))
RANKINGS = {"1": ("a", "x"), "2": ("x", "b")}
PASSAGE = "A worker renews the lease of its claim every five seconds."
ANSWERS = (
    AnsweredQuestion("what renews a lease", (PASSAGE,), "A worker renews the lease every five seconds."),
    AnsweredQuestion("who", (PASSAGE,), "Bananas ripen faster in paper bags."),
    AnsweredQuestion("who", (PASSAGE,), "Yes."),
)
RAGAS_PYTHON = os.environ.get("SLUICE_TEST_RAGAS_PYTHON")


def test_without_its_flag_it_returns_nothing(minilm: MiniLM) -> None:
    assert RagasBridge(lambda texts: minilm.embed(texts).vectors, enabled=False).evaluate(CASES, RANKINGS) is None


def test_without_a_judge_groundedness_is_support_and_faithfulness_is_unknown(minilm: MiniLM) -> None:
    bridge = RagasBridge(lambda texts: minilm.embed(texts).vectors, enabled=True)
    found = bridge.evaluate(CASES, RANKINGS, ANSWERS)
    assert found is not None
    assert found.model_dump(mode="json") == {
        "recallAtK": [0.5, 1.0, 1.0],
        "mrr": 0.75,
        "groundedness": 0.5,
        "faithfulness": None,
        "judged": {"groundedness": 2, "faithfulness": 0},
        "method": {"groundedness": "support by sentences"},
    }


def test_what_the_judge_could_not_tell_is_missing_and_not_zero(minilm: MiniLM) -> None:
    def judge(answers: Sequence[AnsweredQuestion]) -> list[RagasScore]:
        return [
            RagasScore(faithfulness=0.5),
            *(RagasScore(failures=("faithfulness: no statement",)) for _ in answers[1:]),
        ]

    found = RagasBridge(lambda texts: minilm.embed(texts).vectors, judge, enabled=True).evaluate(
        CASES, RANKINGS, ANSWERS
    )
    assert found is not None
    assert (found.faithfulness, found.groundedness, found.judged["faithfulness"]) == (0.5, None, 1)


def script(folder: Path, words: str) -> Path:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{words}\n")
    python.chmod(0o755)
    return python


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("echo damaged >&2; exit 3", "failed with 3: damaged"),
        ("echo '{}'", "gave no figures"),
        ("echo '{\"scores\": []}'", "judged 0 of 1 answers"),
    ],
)
def test_an_environment_that_is_damaged_is_told(tmp_path: Path, words: str, problem: str) -> None:
    with pytest.raises(Unavailable, match=problem):
        judge_answers(script(tmp_path, words), JudgeSettings(model="m"), None, ANSWERS[:1], 1_000)


def test_the_environment_sees_the_key_on_its_input_alone(tmp_path: Path) -> None:
    python = script(tmp_path, f"env > {tmp_path}/env; cat > {tmp_path}/input; echo '{{\"scores\": [{{}}]}}'")
    judge_answers(python, JudgeSettings.model_validate({"model": "m", "api_key": "sk-1"}), None, ANSWERS[:1], 1_000)
    assert json.loads((tmp_path / "input").read_text())["api_key"] == "sk-1"
    assert "sk-1" not in (tmp_path / "env").read_text()


def test_an_environment_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.evaluation.ragas.environment.START_SECONDS", 0.0)
    settings = JudgeSettings(model="m", timeout_seconds=0.05)
    with pytest.raises(TimedOut):
        judge_answers(script(tmp_path, "exec sleep 30"), settings, None, ANSWERS[:1], 1_000)


@pytest.mark.slow
@pytest.mark.skipif(RAGAS_PYTHON is None, reason="SLUICE_TEST_RAGAS_PYTHON names no interpreter with ragas")
def test_the_real_package_judges_by_any_compatible_endpoint() -> None:
    """Two statements of which the judge finds one in the passages; groundedness is asked for twice, 2 of 2."""

    def say(asked: str) -> str:
        if "verdict" in asked:
            verdicts = [{"statement": text, "reason": "", "verdict": number} for number, text in enumerate("AB")]
            return json.dumps({"statements": verdicts})
        return json.dumps({"rating": 2} if '"rating"' in asked else {"statements": ["A", "B"]})

    with chat_server(say) as server:
        settings = JudgeSettings.model_validate({"model": "m", "base_url": server.base_url, "api_key": "sk-1"})
        reply = judge_answers(Path(str(RAGAS_PYTHON)), settings, None, ANSWERS[:1], 10_000)
        assert reply.scores == (RagasScore(faithfulness=0.5, groundedness=1.0),)
        assert reply.tokens == 4_000
        assert set(server.keys) == {"Bearer sk-1"}
        [stopped] = judge_answers(Path(str(RAGAS_PYTHON)), settings, None, ANSWERS[:1], 1_000).scores
        assert stopped.faithfulness is None
