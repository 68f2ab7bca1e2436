"""Bytes both ways between a client of the egress proxy and a site, without the proxy's rules.

A `Relay` carries the bytes of each `Side` to the other one as they come, and not faster than that one takes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.side import Side


class Excess(Exception):
    """A connection went beyond a limit; `rule` is `bytes` or `time`."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


class Relay:
    """Bytes both ways between a client and a site, until the answer is whole or one side ends.

    `came_in` and `went_out` are told of every byte before it is passed on, and say whether it may be. Use as a context
    manager: within it, silence and time are watched.
    """

    def __init__(
        self,
        client: Side,
        site: Side,
        limits: EgressLimits,
        *,
        came_in: Callable[[int], bool],
        went_out: Callable[[int], bool],
    ) -> None:
        self._client = client
        self._site = site
        self._limits = limits
        self._came_in = came_in
        self._went_out = went_out
        self._loop = asyncio.get_running_loop()
        self._ends_at = self._loop.time() + limits.max_connection_seconds
        self._moved_at = self._loop.time()
        self._look: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[Exception | None] = self._loop.create_future()

    def __enter__(self) -> Relay:
        self._watch()
        return self

    def __exit__(self, *error: object) -> None:
        self.end(None)
        if self._look is not None:
            self._look.cancel()

    def send_up(self, head: bytes) -> None:
        """Send the site something of ours, counted like the client's bytes.

        Raises:
            Excess: it may not be sent.
        """
        if not self._went_out(len(head)):
            raise Excess("bytes")
        self._site.write(head)

    def carry_up(self, length: int | None) -> None:
        """Carry the client's bytes to the site: `length` of them, what follows is dropped; None: all."""
        self._client.carry(Carriage(self, self._site, length, self._limits.max_response_bytes, self._went_out))

    async def peek_client(self, length_of: Callable[[bytes], int], header_bytes: int) -> bytes:
        """The client's first bytes, without taking them: as many as `length_of` says of the first `header_bytes`.

        Raises:
            ConnectionError: the client left before. TimeoutError, Excess: as `finish`. And what `length_of` raises.
        """
        self._raise_if_over()
        header = await self._client.peek(header_bytes)
        return await self._client.peek(length_of(header))

    async def read_answer_head(self) -> bytes | None:
        """The site's next head with its empty line, or None where it closes before one begins.

        Raises:
            BadHead, ConnectionError: as `Side.read_head`. TimeoutError: nothing moved for too long.
            Excess: too many bytes, or too long a time.
        """
        self._raise_if_over()
        head = await self._site.read_head()
        self.moved()
        if head is not None and not self._came_in(len(head)):
            raise Excess("bytes")
        return head

    def carry_down(self, length: int | None) -> None:
        """Carry the site's bytes to the client: `length` of them, and then all is done; None: until it closes."""
        if length == 0:
            self.end(None)
        else:
            self._site.carry(
                Carriage(self, self._client, length, self._limits.max_response_bytes, self._came_in, is_answer=True)
            )

    async def finish(self) -> None:
        """Wait until the answer is whole, or the client has left.

        Raises:
            Excess: too many bytes, or too long a time. TimeoutError: nothing moved for too long.
            ConnectionError: the site broke off.
        """
        failure = await self._over
        if failure is not None:
            raise failure

    def moved(self) -> None:
        """Something was carried."""
        self._moved_at = self._loop.time()

    def end(self, failure: Exception | None) -> None:
        """It is over; what comes after this counts no more."""
        if self._over.done():
            return
        self._over.set_result(failure)
        if failure is not None:
            self._site.give_up(failure)
            self._client.give_up(failure)

    def _raise_if_over(self) -> None:
        """Before anything is waited for: what ended it may have come earlier."""
        failure = self._over.result() if self._over.done() else None
        if failure is not None:
            raise failure

    @property
    def is_over(self) -> bool:
        """Whether no more is to be carried."""
        return self._over.done()

    def _watch(self) -> None:
        now = self._loop.time()
        silent_at = self._moved_at + self._limits.idle_timeout_seconds
        if now >= self._ends_at:
            self.end(Excess("time"))
        elif now >= silent_at:
            self.end(TimeoutError())
        else:
            self._look = self._loop.call_at(min(self._ends_at, silent_at), self._watch)


class Carriage:
    """One direction of a relay."""

    __slots__ = ("_carried", "_is_answer", "_left", "_may", "_most", "_relay", "sink")

    def __init__(
        self,
        relay: Relay,
        sink: Side,
        length: int | None,
        most: int,
        may: Callable[[int], bool],
        *,
        is_answer: bool = False,
    ) -> None:
        self.sink = sink
        self._relay = relay
        self._left = length
        self._most = most
        self._may = may
        self._is_answer = is_answer
        self._carried = 0

    def take(self, data: bytes) -> None:
        """Pass it on, if it may be."""
        relay = self._relay
        if relay.is_over:
            return
        relay.moved()
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._carried += len(data)
        if self._carried > self._most or not self._may(len(data)):
            relay.end(Excess("bytes"))
            return
        self.sink.write(data)
        if self._is_answer and self._left == 0:
            relay.end(None)

    def source_ended(self, failure: Exception | None) -> None:
        """No more will come."""
        if self._is_answer and (failure is not None or self._left):
            self._relay.end(ConnectionError("the site broke off"))
        elif self._is_answer:
            self._relay.end(None)
        else:
            self._relay.end(ClientLeft())


class ClientLeft(ConnectionError):
    """The client closed its connection before it had the whole answer, or because it wanted no more."""
