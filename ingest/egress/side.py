"""One connection of the egress proxy, to a client or to a site: first its heads are read, then its bytes are carried.

`dial` takes addresses and never a name, so that it dials exactly what was judged. A `Relay` carries the bytes of each
`Side` to the other as they come, no faster than that one takes them; the proxy's rules are not its concern.
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
"""Most addresses of one name that are tried; all of them are judged."""
END_OF_HEAD = b"\r\n\r\n"


class Side(asyncio.Protocol):
    """One connection. `on_open` is called when it is established, `on_lost` when it is gone."""

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
        """Return the next head with its empty line, or None if the connection ends before one begins.

        Raises BadHead above 64 KiB, CutShort if it ends inside one, and ConnectionError if the other end breaks off.
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
        """Return the next `count` bytes without consuming them. Raises ConnectionError if the other end sends fewer."""
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
        """Hand all bytes to `carrier` from now on, beginning with those already received."""
        self._carrier = carrier
        carrier.sink._feeder = self
        self._resume()
        if self._buffer:
            waiting, self._buffer = bytes(self._buffer), bytearray()
            carrier.take(waiting)
        if self._ended:
            carrier.source_ended(self._failure)

    def write(self, content: bytes) -> None:
        """Send `content` as soon as the other end takes it."""
        self.transport.write(content)

    def close(self, within_seconds: float) -> None:
        """Send the buffered bytes, for at most `within_seconds`, and close."""
        if self.transport.is_closing():
            return
        self.transport.close()
        self._cutting = self._loop.call_later(within_seconds, self.transport.abort)

    def break_off(self) -> None:
        """Reset the connection instead of closing it, so that the other end cannot take its part for the whole."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None and not self.transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    # -- callbacks of the event loop ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the established connection."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport has the same interface
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        if self._carrier is not None:
            self._carrier.take(data)
            return
        self._buffer += data
        if len(self._buffer) > MAX_HEAD_BYTES:
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Handle the end of input; the transport closes itself."""
        self._over(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the connection, by either end."""
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
        """Pause the feeding side: the other end takes no more for now."""
        feeder = self._feeder
        if feeder is not None and not feeder.transport.is_closing():
            feeder.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume the feeding side."""
        if self._feeder is not None:
            self._feeder._resume()


async def dial(addresses: tuple[str, ...], port: int, limit_seconds: float) -> Side:
    """Connect to the first address that answers. Each has its share of the time, so that a silent one leaves some.

    Raises OSError if none answered, as TimeoutError if the last one was silent.
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
    """A connection exceeded a limit; `rule` is `bytes` or `time`."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


class Relay:
    """Relays bytes both ways between a client and a site, until the answer is whole or one side ends.

    `came_in` and `went_out` are called with byte counts before they are passed on, and return whether they may be. Use
    as a context manager: within it, idle time and total time are limited.
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
        """Send the site a head of ours, counted like the client's bytes. Raises Excess above the byte limit."""
        if not self._went_out(len(head)):
            raise Excess("bytes")
        self._site.write(head)

    def carry_up(self, length: int | None) -> None:
        """Carry `length` bytes of the client to the site and drop the rest; None carries all."""
        self._client.carry(Carriage(self, self._site, length, self._limits.max_response_bytes, self._went_out))

    async def peek_client(self, length_of: Callable[[bytes], int], header_bytes: int) -> bytes:
        """Return the client's first bytes without consuming them; `length_of` derives their count from `header_bytes`.

        Raises ConnectionError if the client left before, TimeoutError and Excess as `finish`, and as `length_of`.
        """
        self._raise_if_over()
        header = await self._client.peek(header_bytes)
        return await self._client.peek(length_of(header))

    async def read_answer_head(self) -> bytes | None:
        """Return the site's next head with its empty line, or None if it closes before one begins.

        Raises BadHead and ConnectionError as `Side.read_head`; TimeoutError and Excess as `finish`.
        """
        self._raise_if_over()
        head = await self._site.read_head()
        self.moved()
        if head is not None and not self._came_in(len(head)):
            raise Excess("bytes")
        return head

    def carry_down(self, length: int | None) -> None:
        """Carry `length` bytes of the site to the client and finish; None carries until the site closes."""
        if length == 0:
            self.end(None)
        else:
            self._site.carry(
                Carriage(self, self._client, length, self._limits.max_response_bytes, self._came_in, is_answer=True)
            )

    async def finish(self) -> None:
        """Wait until the answer is whole, or the client has left.

        Raises Excess (bytes, total time), TimeoutError (no byte moved for long), ConnectionError (the site broke off).
        """
        failure = await self._over
        if failure is not None:
            raise failure

    def moved(self) -> None:
        """Reset the idle timer."""
        self._moved_at = self._loop.time()

    def end(self, failure: Exception | None) -> None:
        """End the relay; later calls have no effect."""
        if self._over.done():
            return
        self._over.set_result(failure)
        if failure is not None:
            self._site.give_up(failure)
            self._client.give_up(failure)

    def _raise_if_over(self) -> None:
        """Raise an earlier failure before waiting for anything."""
        failure = self._over.result() if self._over.done() else None
        if failure is not None:
            raise failure

    @property
    def is_over(self) -> bool:
        """Whether the relay has ended."""
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
    """One direction of a relay: `left` bytes, or all (None), at most `most`, each chunk only if `may` allows it."""

    relay: Relay
    sink: Side
    left: int | None
    most: int
    may: Callable[[int], bool]
    is_answer: bool = False
    carried: int = 0

    def take(self, data: bytes) -> None:
        """Pass `data` on, if the limits allow it."""
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
        """Handle the end of the source."""
        if self.is_answer and (failure is not None or self.left):
            self.relay.end(ConnectionError("the site broke off"))
        elif self.is_answer:
            self.relay.end(None)
        else:
            self.relay.end(ClientLeft())


class ClientLeft(ConnectionError):
    """The client closed its connection before it had the whole answer, or because it needed no more."""
