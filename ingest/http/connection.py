"""A connection whose every step ends in time: plain at first, with TLS inside once a tunnel is open.

Promises: no step waits beyond the connection's deadline, however many steps a peer needs or however
steadily it sends; `check_cancelled` is called before the first step and every `LOOK_SECONDS` from then on, and what
it raises ends the wait; one step reads at most `READ_BYTES`, so that no peer can keep the TLS engine busy for longer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
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
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._poll = select.poll()
        try:
            self._connect(host, port)
        except BaseException:
            self.close()
            raise

    def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """Start TLS with a peer that proves to be `server_name`."""
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._through_tls(self._tls.do_handshake)

    def send(self, data: bytes) -> None:
        """Send all of `data`."""
        if self._tls is None:
            self._send(data)
        else:
            tls = self._tls
            self._through_tls(lambda: tls.write(data))

    def receive(self) -> bytes:
        """Return received bytes, at most `READ_BYTES`; empty once the peer has ended."""
        if self._tls is None:
            return self._receive()
        tls = self._tls
        try:
            return self._through_tls(lambda: tls.read(READ_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):  # servers seldom close TLS properly; lengths decide
            return b""

    def close(self) -> None:
        """Close it at once. May be called again."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _connect(self, host: str, port: int) -> None:
        self._look()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = self._socket.connect_ex((host, port))
        if begun == errno.EINPROGRESS:
            self._wait(select.POLLOUT)
            begun = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if begun:
            raise OSError(begun, os.strerror(begun))

    def _through_tls(self, step: Callable[[], _Result]) -> _Result:
        """Run `step`, exchanging bytes with the peer until it succeeds, and return its result."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                received = self._receive()
                self._incoming.write(received) if received else self._incoming.write_eof()
            else:
                self._flush()
                return result

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._send(self._outgoing.read())

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._look()
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def _receive(self) -> bytes:
        while True:
            self._wait(select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                return self._socket.recv(READ_BYTES)

    def _wait(self, event: int) -> None:
        """Wait until the socket is ready for `event`, or has failed, which the next step reports."""
        self._poll.register(self._socket, event)
        while not self._poll.poll(min(self._look(), LOOK_SECONDS) * 1_000):
            pass

    def _look(self) -> float:
        """Return the seconds left, after the checks for cancellation and timeout."""
        now = time.monotonic()
        if now >= self._looks_at:
            self._check_cancelled()
            self._looks_at = now + LOOK_SECONDS
        if now >= self._ends_at:
            raise TimeoutError
        return self._ends_at - now
