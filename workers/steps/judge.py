"""What language models are asked: whether the probed passages answer the question, where the gate's score leaves that
in doubt; and how far a sampled response of an agent keeps to the passages of its run's answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.budget import Spend
from sluice.contracts.errors import SluiceError
from sluice.contracts.gate import CoverageProbed, FeedbackGiven, GateRequested
from sluice.contracts.learning.control import Judgement
from sluice.contracts.learning.events import ResponseJudged
from sluice.contracts.plan import Plan
from sluice.evaluation.ragas.environment import AnsweredQuestion
from sluice.gate.decide import choose_plan, compute_score
from sluice.gate.judge import MOST_TOKENS, is_in_doubt, read_verdict, write_messages
from sluice.gate.profile import Profile
from sluice.gate.signals import read_signals
from sluice.otel import metrics
from sluice.workers.wiring.inject import Step

if TYPE_CHECKING:
    from sluice.contracts.index import Answer
    from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
    from sluice.evaluation.ragas.bridge import RagasBridge
    from sluice.ledger.ledger import Ledger
    from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GateJudge(Step):
    """A language model that is asked where the gate's score leaves it in doubt what to do."""

    judge: ChatEndpoint | None
    settings: Settings
    ledger: Ledger

    def ask(
        self, probed: CoverageProbed, passages: Sequence[str], request: GateRequested, profile: Profile, run_id: str
    ) -> tuple[CoverageProbed, Spend]:
        """`probed` with what the judge said, and what that cost; as it is where it is not asked, or does not answer.

        It is asked where the settings want it, the score is in doubt, the request names no plan, and the run can pay.
        """
        judge, settings = self.judge, self.settings.gate
        if not settings.judge or judge is None or request.plan is not None or not passages:
            return probed, Spend()
        signals = read_signals(request, probed, profile)
        score = compute_score(signals, profile)
        is_skipped = choose_plan(score, signals, profile) is Plan.SKIP or signals.talk is not None
        if is_skipped or not is_in_doubt(score, profile, settings.judge_margin):
            return probed, Spend()
        system, user = write_messages(request.query, passages)
        messages: list[ChatMessage] = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        left = self.ledger.budget_left(run_id).least("usd")
        if left is not None and judge.cost_at_most(messages, MOST_TOKENS) > left:
            metrics.JUDGE_CALLS.labels("no_budget").inc()
            return probed, Spend()
        try:
            reply = judge.ask(messages, max_tokens=MOST_TOKENS, as_json=True)
        except SluiceError as error:
            metrics.JUDGE_CALLS.labels("failed").inc()
            log.warning("judge_failed", run_id=run_id, error=str(error))
            return probed, Spend()
        verdict, words = read_verdict(reply.text)
        metrics.JUDGE_CALLS.labels(verdict).inc()
        judgement = Judgement(
            verdict=verdict, words=words, model=reply.model, usd=reply.usd, milliseconds=reply.milliseconds
        )
        return probed.model_copy(update={"judgement": judgement}), Spend(usd=reply.usd)


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
        groundedness=score.groundedness, faithfulness=score.faithfulness, method=bridge.method, failures=score.failures
    )
