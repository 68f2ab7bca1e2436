"""Asks the judge whether the probed passages answer the question, where the gate's score leaves that in doubt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.budget import Spend
from sluice.contracts.errors import SluiceError
from sluice.contracts.gate import CoverageProbed, GateRequested
from sluice.contracts.learning.control import Judgement
from sluice.contracts.plan import Plan
from sluice.gate.decide import choose_plan, compute_score
from sluice.gate.judge import MOST_TOKENS, is_in_doubt, read_verdict, write_messages
from sluice.gate.profile import Profile
from sluice.gate.settings import GateSettings
from sluice.gate.signals import read_signals
from sluice.otel import metrics

if TYPE_CHECKING:
    from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
    from sluice.ledger.ledger import Ledger

log = structlog.get_logger(__name__)


def ask_judge(
    probed: CoverageProbed,
    passages: Sequence[str],
    request: GateRequested,
    profile: Profile,
    settings: GateSettings,
    judge: ChatEndpoint | None,
    run_id: str,
    ledger: Ledger,
) -> tuple[CoverageProbed, Spend]:
    """`probed` with what the judge said, and what asking it cost; as it is where it is not asked, or does not answer.

    It is asked where the settings want it, the score is in doubt, the request names no plan, and the run can pay.
    """
    if not settings.judge or judge is None or request.plan is not None or not passages:
        return probed, Spend()
    signals = read_signals(request, probed, profile)
    score = compute_score(signals, profile)
    is_skipped = choose_plan(score, signals, profile) is Plan.SKIP or signals.talk is not None
    if is_skipped or not is_in_doubt(score, profile, settings.judge_margin):
        return probed, Spend()
    system, user = write_messages(request.query, passages)
    messages: list[ChatMessage] = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    left = ledger.budget_left(run_id).least("usd")
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
