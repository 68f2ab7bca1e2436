"""A provider that keeps failing is left alone for a while, so that fail-over costs no waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pybreaker

from contracts.errors import Unavailable
from ingest.providers.provider import LeftAlone, SearchAnswer, SearchProvider, SearchQuery


class Breaking:
    """A provider behind a circuit breaker: after `failures` in a row it is not asked for `reset_seconds`."""

    def __init__(self, provider: SearchProvider, *, failures: int, reset_seconds: float) -> None:
        self._provider = provider
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=failures,
            reset_timeout=reset_seconds,
            success_threshold=2,
            throw_new_error_on_trip=False,
            name=provider.name,
        )

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._provider.name

    @property
    def cost_usd_per_call(self) -> float:
        """The provider's price."""
        return self._provider.cost_usd_per_call

    @property
    def is_open(self) -> bool:
        """Whether the provider is being left alone."""
        return str(self._breaker.current_state) == pybreaker.STATE_OPEN

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Raises LeftAlone without asking while the provider is left alone."""
        self._refuse_while_open()
        try:
            answer = self._provider.search(query)
        except Unavailable as error:
            self._record(_fail, error)
            raise
        self._record(lambda: None)
        return answer

    def _refuse_while_open(self) -> None:
        """Once the pause is over, this is the first of the two successes that the breaker wants to see."""
        if not self.is_open:
            return
        try:
            self._breaker.call(lambda: None)
        except pybreaker.CircuitBreakerError as error:
            raise LeftAlone(f"{self.name} failed several times in a row and is left alone for a while") from error

    def _record(self, outcome: Callable[..., None], *arguments: Unavailable) -> None:
        """Tell the breaker how a call ended. It locks while it calls, so no search is run inside it."""
        with contextlib.suppress(Unavailable, pybreaker.CircuitBreakerError):  # another thread opened it meanwhile
            self._breaker.call(outcome, *arguments)


def _fail(error: Unavailable) -> None:
    raise error
