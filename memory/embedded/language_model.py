"""A language model for an embedded memory: proposes learnings and compares pairs of them. Off unless configured.

Every question has a time-out and counts against the budget of one opened memory. Where the budget is spent or the model
fails, memory's rules decide alone.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sluice.contracts.errors import BudgetExhausted
from sluice.memory.config import ModelConfig
from sluice.memory.embedded.guarded import mask_private
from sluice.memory.embedded.outside import read_secret
from sluice.memory.learning.deduplication import judge_by
from sluice.memory.ports import Polarity

if TYPE_CHECKING:
    from sluice.evaluation.chat_endpoint import ChatEndpoint


class LanguageModel:
    """The configured model. Connects at the first question. Thread-safe."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._counting = threading.Lock()
        self._endpoint: ChatEndpoint | None = None
        self.asked = 0
        self.usd = 0.0

    def ask(self, system: str, question: str, max_tokens: int) -> str:
        """Return the model's reply. An `AskModel`.

        Raises:
            BudgetExhausted: the configured number of questions or amount of money is spent.
            PolicyRefused: the environment does not allow the model's address.
            Unavailable, InvalidSetting: the model does not answer, or refuses the key or the request.
        """
        from sluice.evaluation.chat_endpoint import ChatMessage

        messages = [ChatMessage(role="system", content=system), ChatMessage(role="user", content=question)]
        endpoint = self._connected()
        most = endpoint.cost_at_most(messages, max_tokens)
        self._reserve(most)
        try:
            reply = endpoint.ask(messages, max_tokens=max_tokens)
        except BaseException:
            self._book(-most)
            raise
        self._book(reply.usd - most)
        return reply.text

    def judge(self, one: str, other: str) -> Polarity | None:
        """Return the relation of two texts; None for an unexpected reply. A `JudgePair`."""
        return judge_by(self.ask)(one, other)

    def _reserve(self, usd: float) -> None:
        with self._counting:
            if self.asked >= self._config.max_questions:
                raise BudgetExhausted(f"model.max_questions: {self.asked} questions were asked")
            if self.usd + usd > self._config.max_usd:
                raise BudgetExhausted(f"model.max_usd: {self.usd:.4f} of {self._config.max_usd} USD are spent")
            self.asked += 1
            self.usd += usd

    def _book(self, usd: float) -> None:
        with self._counting:
            self.usd += usd

    def _connected(self) -> ChatEndpoint:
        with self._counting:
            self._endpoint = self._endpoint or _connect(self._config)
            return self._endpoint


def _connect(config: ModelConfig) -> ChatEndpoint:
    import httpx2

    from sluice.evaluation.chat_endpoint import ChatEndpoint, JudgeSettings

    url = config.url or ""
    settings = JudgeSettings(
        model=config.model,
        base_url=url,
        api_key=read_secret("model", url, config.key_variable),
        usd_per_million_tokens=config.usd_per_million_tokens,
        timeout_seconds=config.timeout_seconds,
    )
    return ChatEndpoint(
        settings,
        lambda: httpx2.Client(timeout=config.timeout_seconds, trust_env=False),
        hide=lambda text: mask_private(text)[0],
    )
