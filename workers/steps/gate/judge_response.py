"""Judges a sampled response of an agent: how far it keeps to the passages of its run's answer."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sluice.contracts.gate import FeedbackGiven
from sluice.contracts.learning.judged_responses import ResponseJudged
from sluice.evaluation.ragas.environment import AnsweredQuestion
from sluice.otel import metrics

if TYPE_CHECKING:
    from sluice.contracts.index import Answer
    from sluice.evaluation.ragas.bridge import RagasBridge

_SALT = "response-judgement:"
"""Of this draw alone: no other share of the runs is the same ones."""


def is_sampled(run_id: str, share: float) -> bool:
    """Whether the run is one of the `share` of all whose responses are judged: always the same ones."""
    draw = hashlib.sha256(f"{_SALT}{run_id}".encode()).digest()[:8]
    return int.from_bytes(draw) / 2**64 < share


def judge_response(feedback: FeedbackGiven, answer: Answer, bridge: RagasBridge) -> ResponseJudged:
    """The judgement of the feedback's response; it counts in the metrics.

    Raises:
        SluiceError: as the bridge's judge.
    """
    asked = AnsweredQuestion(answer.query, tuple(chunk.text for chunk in answer.chunks), feedback.response or "")
    [score] = bridge.score([asked])
    for figure, value in (("groundedness", score.groundedness), ("faithfulness", score.faithfulness)):
        if value is not None:
            metrics.RESPONSE_JUDGED.labels(figure).observe(value)
    return ResponseJudged(
        groundedness=score.groundedness,
        faithfulness=score.faithfulness,
        method=bridge.method,
        failures=score.failures,
    )
