"""One connection of the egress proxy, to a client or to a site: first its heads are read, then its bytes are carried.

`dial` is given addresses and never a name, so what was judged is what is dialled. A `Relay` carries the bytes of each
`Side` to the other one as they come, and not faster than that one takes them, without the proxy's rules.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.http_heads import MAX_HEAD_BYTES, BadHead, CutShort

MAX_ADDRESSES = 3
"""Addresses of one name that are tried; all of them are judged."""
END_OF_HEAD = b"\r\n\r\n"


class Side(asyncio.Protocol):
    """One connection. `on_open` is told when it stands, `on_lost` when it is gone."""

    def __init__(self, *, on_open: Callable[[Side], None] | None = None) -> None:
        self.transport: asyncio.Transport
        self.on_lost: Callable[[], None] | None = None
        """Called once, when the other end closes or breaks off while its bytes are not carried."""
        self._on_open = on_open
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._more: asyncio.Future[None] | None = None
        self._carrier: Carriage | None = None
        self._feeder: Side | None = None
        self._ended = False
        self._failure: Exception | None = None
        self._cutting: asyncio.TimerHandle | None = None

    # -- heads --------------------------------------------------------------------------------

    async def read_head(self) -> bytes | None:
        """The next head with its empty line, or None where the connection ends before one begins.

        Raises:
            BadHead: larger than 64 KiB. CutShort: it ended inside one. ConnectionError: the other end broke off.
        """
        searched = 0
        while (end := self._buffer.find(END_OF_HEAD, max(0, searched - 3))) < 0:
            searched = len(self._buffer)
            if searched > MAX_HEAD_BYTES:
                raise BadHead(f"a head larger than {MAX_HEAD_BYTES} bytes")
            if self._failure is not None:
                raise ConnectionError(str(self._failure)) from self._failure
            if self._ended:
                if searched:
                    raise CutShort("the connection ended inside a head")
                return None
            await self._wait_for_more()
        if end > MAX_HEAD_BYTES:
            raise BadHead(f"a head larger than {MAX_HEAD_BYTES} bytes")
        head = bytes(self._buffer[: end + len(END_OF_HEAD)])
        del self._buffer[: end + len(END_OF_HEAD)]
        return head

    async def peek(self, count: int) -> bytes:
        """The next bytes, without taking them.

        Raises:
            ConnectionError: the other end closes or breaks off before it has sent so many.
        """
        while len(self._buffer) < count:
            if self._ended:
                raise ConnectionError("the other end has gone") from self._failure
            await self._wait_for_more()
        return bytes(self._buffer[:count])

    async def _wait_for_more(self) -> None:
        self._resume()
        self._more = self._loop.create_future()
        try:
            await self._more
        finally:
            self._more = None

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def give_up(self, reason: Exception) -> None:
        """Raise `reason` in the task that waits for a head."""
        if self._more is not None and not self._more.done():
            self._more.set_exception(reason)

    # -- bodies -------------------------------------------------------------------------------

    def carry(self, carrier: Carriage) -> None:
        """From now on, hand all bytes to `carrier`, those first that have come already."""
        self._carrier = carrier
        carrier.sink._feeder = self
        self._resume()
        if self._buffer:
            waiting, self._buffer = bytes(self._buffer), bytearray()
            carrier.take(waiting)
        if self._ended:
            carrier.source_ended(self._failure)

    def write(self, content: bytes) -> None:
        """Send it as soon as the other end takes it."""
        self.transport.write(content)

    def close(self, within_seconds: float) -> None:
        """Send what is waiting to be sent, for so long at most, and close."""
        if self.transport.is_closing():
            return
        self.transport.close()
        self._cutting = self._loop.call_later(within_seconds, self.transport.abort)

    def break_off(self) -> None:
        """End the connection so that the other end cannot take what it has for the whole: a reset, not a close."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None and not self.transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    # -- what the event loop tells --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._carrier is not None:
            self._carrier.take(data)
            return
        self._buffer += data
        if len(self._buffer) > MAX_HEAD_BYTES:
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """No more will come; the transport closes itself."""
        self._over(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, by whichever end."""
        if self._cutting is not None:
            self._cutting.cancel()
        self._over(exc)

    def _over(self, failure: Exception | None) -> None:
        if self._ended:
            return
        self._ended, self._failure = True, failure
        if self._carrier is not None:
            self._carrier.source_ended(failure)
        elif self._more is not None:
            self._wake()
        elif self.on_lost is not None:
            self.on_lost()

    def pause_writing(self) -> None:
        """The other end takes no more for now: what feeds it waits."""
        feeder = self._feeder
        if feeder is not None and not feeder.transport.is_closing():
            feeder.transport.pause_reading()

    def resume_writing(self) -> None:
        """It takes more again."""
        if self._feeder is not None:
            self._feeder._resume()


async def dial(addresses: tuple[str, ...], port: int, limit_seconds: float) -> Side:
    """A connection to the first address that answers.

    Each has its share of the time, so that a silent one leaves time for the next.

    Raises:
        OSError: none did; `TimeoutError` where the last one was silent.
    """
    loop = asyncio.get_running_loop()
    failure: OSError = TimeoutError()
    for address in addresses[:MAX_ADDRESSES]:
        try:
            async with asyncio.timeout(limit_seconds / min(len(addresses), MAX_ADDRESSES)):
                _, side = await loop.create_connection(Side, address, port)
                return side
        except OSError as error:  # TimeoutError is one
            failure = error
    raise failure


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


@dataclass(slots=True)
class Carriage:
    """One direction of a relay: `left` bytes of it, or all (None), at most `most`, each if `may` says so."""

    relay: Relay
    sink: Side
    left: int | None
    most: int
    may: Callable[[int], bool]
    is_answer: bool = False
    carried: int = 0

    def take(self, data: bytes) -> None:
        """Pass it on, if it may be."""
        relay = self.relay
        if relay.is_over:
            return
        relay.moved()
        if self.left is not None:
            data = data[: self.left]
            self.left -= len(data)
        self.carried += len(data)
        if self.carried > self.most or not self.may(len(data)):
            relay.end(Excess("bytes"))
            return
        self.sink.write(data)
        if self.is_answer and self.left == 0:
            relay.end(None)

    def source_ended(self, failure: Exception | None) -> None:
        """No more will come."""
        if self.is_answer and (failure is not None or self.left):
            self.relay.end(ConnectionError("the site broke off"))
        elif self.is_answer:
            self.relay.end(None)
        else:
            self.relay.end(ClientLeft())


class ClientLeft(ConnectionError):
    """The client closed its connection before it had the whole answer, or because it wanted no more."""
