"""A search provider behind its circuit breaker: one that keeps failing is not asked, and fail-over costs no wait."""

from __future__ import annotations

from sluice.contracts.errors import PolicyRefused, Unavailable
from sluice.ingest.circuit_breaker import Breaker, CircuitOpen
from sluice.ingest.search.port import SearchAnswer, SearchProvider, SearchQuery


class Breaking:
    """A provider behind its circuit breaker."""

    def __init__(self, provider: SearchProvider, breaker: Breaker) -> None:
        self._provider = provider
        self._breaker = breaker

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._provider.name

    @property
    def cost_usd_per_call(self) -> float:
        """The provider's price."""
        return self._provider.cost_usd_per_call

    @property
    def page_results(self) -> int:
        """How many results a page of the provider has."""
        return self._provider.page_results

    @property
    def max_pages(self) -> int:
        """The most pages that the provider is asked for."""
        return self._provider.max_pages

    def search(self, query: SearchQuery) -> SearchAnswer:
        """See `SearchProvider`. Raises CircuitOpen without asking while the circuit is open.

        A refusal of egress speaks neither for the provider nor against it; an answer that is too large or in no
        known encoding speaks against it.
        """
        if not self._breaker.admit():
            raise CircuitOpen(f"{self.name} failed most of the last times and is not asked for a while")
        try:
            answer = self._provider.search(query)
        except Unavailable:
            self._breaker.record(failed=True)
            raise
        except PolicyRefused as refusal:
            if refusal.rule != "egress":
                self._breaker.record(failed=True)
            raise
        self._breaker.record(failed=False)
        return answer
