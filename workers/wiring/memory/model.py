"""The judge's model as memory asks it for learnings: within the budget of the run that distils, and of its day."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.contracts.budget import Spend
from sluice.contracts.errors import BudgetExhausted, Unavailable

if TYPE_CHECKING:
    from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
    from sluice.ledger.ledger import Ledger


@dataclass(slots=True)
class Account:
    """What asking has cost one event."""

    run_id: str
    usd: float = 0.0

    @property
    def spend(self) -> Spend:
        """The same as a spend."""
        return Spend(usd=self.usd)


_ACCOUNT: ContextVar[Account | None] = ContextVar("memory_model_account", default=None)


class MemoryModel:
    """A language model that is asked on account of a run, and else not at all."""

    def __init__(self, endpoint: ChatEndpoint | None, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._ledger = ledger

    @property
    def is_there(self) -> bool:
        """Whether the settings name one, and want it asked."""
        return self._endpoint is not None

    @contextmanager
    def on_account_of(self, run_id: str) -> Iterator[Account]:
        """What is asked inside is paid by this run."""
        account = Account(run_id)
        token = _ACCOUNT.set(account)
        try:
            yield account
        finally:
            _ACCOUNT.reset(token)

    def ask(self, system: str, question: str, max_tokens: int) -> str:
        """What the model says.

        Raises:
            Unavailable: there is none, it does not answer, or no run pays.
            BudgetExhausted: the run or its day cannot pay.
        """
        account = _ACCOUNT.get()
        if self._endpoint is None or account is None:
            raise Unavailable("no language model is asked here")
        messages: list[ChatMessage] = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        left = self._ledger.budget_left(account.run_id).least("usd")
        if left is not None and self._endpoint.cost_at_most(messages, max_tokens) > left - account.usd:
            raise BudgetExhausted("the run or its day has no room for asking the model")
        reply = self._endpoint.ask(messages, max_tokens=max_tokens)
        account.usd += reply.usd
        return reply.text
