"""An embedding endpoint that keeps failing is left alone for a while: a question goes on without it, chunks wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.contracts.errors import EmbedderDown, Unavailable
from sluice.ingest.circuit_breaker import Breaker, BreakerRule
from sluice.ingest.embed.port import Embedded, Embedder

PAUSE_SECONDS = 10.0
"""Between two tries of an endpoint that is down: as long as it takes at most to notice that it is back."""
ENDPOINT_RULE = BreakerRule(window=4, least=3, pause_seconds=PAUSE_SECONDS)
"""Down after three failures of the last four calls: each may have taken a question its whole patience."""
PROBE_TEXT = "is the endpoint back"


class BreakingEmbedder:
    """An endpoint behind its circuit breaker. Safe across threads. `clock` gives seconds that only grow."""

    def __init__(self, embedder: Embedder, rule: BreakerRule, *, clock: Callable[[], float]) -> None:
        self._embedder = embedder
        self._pause_seconds = rule.pause_seconds
        self._breaker = Breaker(rule, clock=clock)
        self._why = ""

    @property
    def fingerprint(self) -> str:
        """The endpoint's."""
        return self._embedder.fingerprint

    @property
    def dimension(self) -> int:
        """The endpoint's."""
        return self._embedder.dimension

    @property
    def failure(self) -> str | None:
        """Why the endpoint is left alone; None while it is asked."""
        return self._why if self._breaker.is_open else None

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """As `Embedder.embed`.

        Raises EmbedderDown, without asking or after having asked, while the circuit is open. What an endpoint
        raises that is well otherwise is raised as it is: it may be these texts.
        """
        if not self._breaker.admit():
            raise EmbedderDown(self._told(), self._pause_seconds)
        try:
            embedded = self._embedder.embed(texts, required_fingerprint)
        except Unavailable as error:
            self._why = str(error)
            self._breaker.record(failed=True)
            if self._breaker.is_open:
                raise EmbedderDown(self._told(), self._pause_seconds) from error
            raise
        self._breaker.record(failed=False)
        return embedded

    def probe(self) -> None:
        """Ask an endpoint that is down for one short text, so that it is known to be back without anybody waiting."""
        if self._breaker.is_open:
            try:
                self.embed([PROBE_TEXT])
            except Unavailable:
                return

    def _told(self) -> str:
        return f"the embedding model {self.fingerprint} is out of reach: {self._why}"
