"""Connections of the HTTP server: limits on what one of them may send and hold, before any key is known.

uvicorn has no limit of its own for its httptools parser, and no time-out but that between two requests (uvicorn's
issues 157 and 1684). A refusal has the shape of every other error and closes the connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import defaultdict

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sluice.api.problems import problem
from sluice.otel import metrics


class Server(uvicorn.Server):
    """uvicorn's server, whose streams end as soon as it is told to stop: it would wait for them else."""

    def __init__(self, api: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._api = api

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: wake who waits for news, so that streams end, and then do as uvicorn does."""
        self._api.state.instance.announcements.end_waiting()
        await super().shutdown(sockets)


MOST_HEAD_BYTES = 81_920
"""Largest head: the longest URL that httptools reads (65,535 bytes), and 16 KB for its fields."""
HEAD_SECONDS = 10.0
"""Longest time for a head; also of a new connection that sends nothing."""
BODY_SECONDS = 30.0
BODY_BYTES_PER_SECOND = 10_000
"""Time for a body: so many seconds, and one more for each so many bytes of it that have come."""
UNREAD_SECONDS = 60.0
"""Longest time that a client may leave a full buffer of its response unread."""
REST_SECONDS = 2.0
"""Time in which the rest of a body is thrown away that was answered before it came: some clients send first, then read.
"""
LAST_LOOK_SECONDS = 1.0
"""Time for what lies in the socket already: a process that stood still sees its time-outs before it reads."""
MOST_WAITING = 512
"""Connections without a request in hand: half of the descriptors that a process may usually open. Beyond, the oldest of
the peer that has most are closed."""
MOST_PIPELINED = 32
FRAME_BYTES = 8
"""Bytes around each byte of a body, at most: those of a chunk of one byte, and some more."""


class BoundedConnection(HttpToolsProtocol):
    """One connection, with limits on its head, trailers and requests in line, and time-outs on head and body."""

    phase: str = "idle"
    """What is being received: "idle" (nothing), "head", "body", or "rest" (a body that was answered before it came)."""
    waits_since = _began = 0.0
    """When it began to wait for a request, by a finer clock than the loop's; when the timer was set, by the loop's."""
    _other_bytes = _body_bytes = 0
    """Received of this message, apart from its body and what frames that; its body."""
    _timed: str = ""
    """The phase that the timer is for."""
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, which must send a head in time."""
        super().connection_made(transport)
        self.waits_since = time.monotonic()
        self._wait("head", HEAD_SECONDS)
        if len(self.connections) > MOST_WAITING:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget its timers."""
        super().connection_lost(exc)
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what has come. Refuse it (431) where it is neither a body nor a head of bounded size."""
        self._other_bytes += len(data)
        super().data_received(data)
        awaited = "head" if self.phase == "idle" and not self.is_answering else self.phase
        if self._other_bytes > MOST_HEAD_BYTES:
            self._refuse(431, "too_large", f"a head has at most {MOST_HEAD_BYTES} bytes")
        elif awaited != self._timed:
            self._wait(awaited, HEAD_SECONDS if awaited == "head" else BODY_SECONDS)

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        self.phase = "head"
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head without the white space around it (RFC 9110, section 5.5)."""
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Begin the request. Raises `ValueError`, so that the parser stops, if too many wait already."""
        if len(self.pipeline) >= MOST_PIPELINED:
            raise ValueError("too many requests in line")
        self.phase, self._body_bytes = "body", 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count a part of the body."""
        self._body_bytes += len(body)
        self._other_bytes = max(0, self._other_bytes - (1 + FRAME_BYTES) * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is received."""
        self.phase, self._other_bytes = "idle", 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that it waits for the next request."""
        self.waits_since = time.monotonic()
        super().on_response_complete()
        if self.phase == "body" and not self.is_answering:
            self.phase = "rest"
            self._wait("rest", REST_SECONDS)

    def pause_writing(self) -> None:
        """Limit the time for which the client leaves its response unread."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client reads."""
        super().resume_writing()
        if self._unread:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(400, "invalid_input", msg)

    def _wait(self, phase: str, seconds: float) -> None:
        """Give a phase its time; "idle" has none here, but uvicorn's between two requests."""
        if self._timer is not None:
            self._timer.cancel()
        self._timed, self._began = phase, self.loop.time()
        self._timer = None if phase == "idle" else self.loop.call_later(seconds, self._look)

    def _look(self, *, last: bool = False) -> None:
        """Refuse a head or a body (408) that is late, unless it waits for us."""
        if self.phase == "rest":
            self.end()
            return
        is_body, spent = self.phase == "body", self.loop.time() - self._began
        allowed = BODY_SECONDS + self._body_bytes / BODY_BYTES_PER_SECOND if is_body else HEAD_SECONDS
        if self.flow.read_paused or (self.pipeline if is_body else self.is_answering):
            self._wait(self.phase, allowed)
        elif spent < allowed:
            self._timer = self.loop.call_later(allowed - spent, self._look)
        elif not last:
            self._timer = self.loop.call_later(LAST_LOOK_SECONDS, lambda: self._look(last=True))
        elif self.phase == "idle":
            self.end()
        else:
            self._refuse(408, "timed_out", f"the {self.phase} of the request did not come in time")

    @property
    def is_answering(self) -> bool:
        """Whether a request is in hand."""
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer with a problem, unless an answer is under way already, and close."""
        begun = self.is_answering and (self.phase != "body" or self.cycle.response_started or self.pipeline)
        if not begun and not self.transport.is_closing():
            answer = problem(status, code, message, headers={"Connection": "close"})
            fields = [*self.server_state.default_headers, *answer.raw_headers]
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + answer.body)
        metrics.HTTP_REQUESTS.labels("unmatched", "unknown", str(status)).inc()
        self.end()

    def end(self) -> None:
        """Close it, also if the client does not read what it was sent."""
        self.transport.close()
        self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _make_room(self) -> None:
        """Close the oldest quarter of the waiting connections of the peer that has most, if too many wait."""
        ours = (one for one in self.connections if isinstance(one, BoundedConnection))
        waiting = [one for one in ours if one.phase != "body" and not one.is_answering]
        if len(waiting) <= MOST_WAITING:
            return
        peers: defaultdict[str, list[BoundedConnection]] = defaultdict(list)
        for one in waiting:
            peers[one.client[0] if one.client else ""].append(one)
        most = max((sorted(its, key=lambda one: one.waits_since) for its in peers.values()), key=len)
        for one in most[: 1 + len(most) // 4]:
            one.end()
