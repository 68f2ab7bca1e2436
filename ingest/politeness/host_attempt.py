"""One request's way to a page, from host to host: each has a circuit breaker, and is judged by how it answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sluice.ingest.circuit_breaker import HostBreakers
from sluice.ingest.url import origin_of


class HostAttempt:
    """The hosts that one request leads to, one after the other.

    What speaks against a host: no connection, no answer in time, a status of 500 or more. What does not: a page that
    is not there, and whatever our own rules refuse. `waited_seconds` is what went by before they were asked.
    """

    def __init__(
        self,
        breakers: HostBreakers,
        pre_request: Callable[[str], None],
        clock: Callable[[], datetime],
        *,
        on_failure: Callable[[str], None] = lambda origin: None,
    ) -> None:
        """`pre_request` is called with each address before it is asked for, unless the circuit of its host is open.

        `on_failure` is told of the origin that failed.
        """
        self.waited_seconds = 0.0
        self._breakers = breakers
        self._pre_request = pre_request
        self._clock = clock
        self._on_failure = on_failure
        self._origin: str | None = None

    def pre_request(self, url: str) -> None:
        """To be called before `url` is asked for. The host that sent us here has answered.

        Raises:
            HostUnavailable: the circuit of the host is open. Also what `pre_request` raises.
        """
        self.ended(failed=False)
        started = self._clock()
        try:
            self._breakers.admit(origin_of(url))
            self._pre_request(url)
        finally:
            self.waited_seconds += (self._clock() - started).total_seconds()
        self._origin = origin_of(url)

    def ended(self, *, failed: bool) -> None:
        """Judge the host that was asked last, once."""
        origin, self._origin = self._origin, None
        if origin is not None:
            self._breakers.record(origin, failed=failed)
            if failed:
                self._on_failure(origin)
