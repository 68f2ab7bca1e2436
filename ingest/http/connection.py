"""A connection whose every step ends in time: plain at first, with TLS inside once a tunnel is open.

Promises: no step waits beyond the connection's deadline, however many steps a peer needs or however
steadily it sends; `check_cancelled` is called before the first step and every `LOOK_SECONDS` from then on, and what
it raises ends the wait; one step reads at most `READ_BYTES`, so that no peer can keep the TLS engine busy for longer.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sluice.ingest.deadline import LOOK_SECONDS, CancelCheck

READ_BYTES = 65_536
_Result = TypeVar("_Result")


class Connection:
    """A connection to `host` (an address, not a name), open for at most `seconds` in all. A context manager.

    Every method raises TimeoutError after that, OSError (ssl.SSLError is one) if the peer fails, and
    what `check_cancelled` raises.
    """

    def __init__(self, host: str, port: int, *, seconds: float, check_cancelled: CancelCheck) -> None:
        self._ends_at = time.monotonic() + seconds
        self._check_cancelled = check_cancelled
        self._looks_at = 0.0
        self._socket = self._until_done(lambda seconds: socket.create_connection((host, port), seconds))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """Start TLS with a peer that proves to be `server_name`."""
        tls = context.wrap_socket(self._socket, server_hostname=server_name, do_handshake_on_connect=False)
        self._socket = tls
        self._step(tls.do_handshake)

    def send(self, data: bytes) -> None:
        """Send all of `data`."""
        at = 0
        while at < len(data):
            at += self._step(partial(self._socket.send, memoryview(data)[at:]))

    def receive(self) -> bytes:
        """Return received bytes, at most `READ_BYTES`; empty once the peer has ended.

        A peer that ends without closing TLS has ended too: servers seldom close it properly, and lengths decide.
        """
        return self._step(partial(self._socket.recv, READ_BYTES))

    def close(self) -> None:
        """Close it at once. May be called again."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _step(self, step: Callable[[], _Result]) -> _Result:
        """Run `step` on the socket, again and again until it succeeds, and return its result."""

        def within(seconds: float) -> _Result:
            self._socket.settimeout(seconds)
            return step()

        return self._until_done(within)

    def _until_done(self, step: Callable[[float], _Result]) -> _Result:
        """Return the result of `step`, which gets the seconds that it may take and is tried again if it took longer."""
        while True:
            seconds = min(self._look(), LOOK_SECONDS)
            with contextlib.suppress(TimeoutError):
                return step(seconds)

    def _look(self) -> float:
        """Return the seconds left, after the checks for cancellation and timeout."""
        now = time.monotonic()
        if now >= self._looks_at:
            self._check_cancelled()
            self._looks_at = now + LOOK_SECONDS
        if now >= self._ends_at:
            raise TimeoutError
        return self._ends_at - now
