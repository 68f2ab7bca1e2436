"""One connection of the egress proxy, to a client or to a site: first its heads are read, then its bytes are carried.

`dial` takes addresses and never a name, so that it dials exactly what was judged. A `Relay` carries the bytes of each
`Side` to the other as they come, no faster than that one takes them; the proxy's rules are not its concern.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable

from sluice.ingest.egress.crawl_account import EgressLimits
from sluice.ingest.egress.http_heads import MAX_HEAD_BYTES, BadHead, CutShort

MAX_ADDRESSES = 3
"""Most addresses of one name that are tried; all of them are judged."""
END_OF_HEAD = b"\r\n\r\n"
READ_BYTES = 65_536


class Side(asyncio.StreamReaderProtocol):
    """One connection: its `reader` and its `writer`. `on_open` is called when it is established."""

    writer: asyncio.StreamWriter

    def __init__(self, *, on_open: Callable[[Side], None] | None = None) -> None:
        self.reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        super().__init__(self.reader)
        self.on_lost: Callable[[], None] | None = None
        """Called when the other end closes or breaks off."""
        self._on_open = on_open

    async def read_head(self) -> bytes | None:
        """Return the next head with its empty line, or None if the connection ends before one begins.

        Raises BadHead above 64 KiB, CutShort if it ends inside one, and ConnectionError if the other end breaks off.
        """
        try:
            return await self.reader.readuntil(END_OF_HEAD)
        except asyncio.LimitOverrunError as error:
            raise BadHead(f"a head larger than {MAX_HEAD_BYTES} bytes") from error
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise CutShort("the connection ended inside a head") from error
            return None

    def write(self, content: bytes) -> None:
        """Send `content` as soon as the other end takes it."""
        self.writer.write(content)

    def close(self, within_seconds: float) -> None:
        """Send the buffered bytes, for at most `within_seconds`, and close."""
        if not self.writer.is_closing():
            self.writer.close()
            asyncio.get_running_loop().call_later(within_seconds, self.writer.transport.abort)

    def break_off(self) -> None:
        """Reset the connection instead of closing it, so that the other end cannot take its part for the whole."""
        connected = self.writer.get_extra_info("socket")
        if connected is not None and not self.writer.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    # -- callbacks of the event loop ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the established connection."""
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self.writer = asyncio.StreamWriter(transport, self, self.reader, loop)  # type: ignore[arg-type]
        if self._on_open is not None:
            self._on_open(self)

    def eof_received(self) -> bool:
        """Handle the end of input; the transport closes itself."""
        super().eof_received()
        self._lost()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the connection, by either end."""
        super().connection_lost(exc)
        self._lost()

    def _lost(self) -> None:
        if self.on_lost is not None:
            self.on_lost()


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
    """Relays bytes both ways between a client and a site, until the answer is whole or the site ends.

    `came_in` and `went_out` are called with byte counts before they are passed on, and return whether they may be.
    Everything happens within `limited`.
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
        self._ends_at = asyncio.get_running_loop().time() + limits.max_connection_seconds
        self._clock = asyncio.timeout(None)
        self._group = asyncio.TaskGroup()
        self._up: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def limited(self) -> AsyncIterator[Relay]:
        """Limit idle time and total time within the block, and end what goes up with it.

        Raises Excess (bytes, total time), and TimeoutError if no byte moved for long.
        """
        try:
            async with self._clock:
                self._moved()
                async with self._group:
                    yield self
                    if self._up is not None:
                        self._up.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        except TimeoutError:
            if asyncio.get_running_loop().time() >= self._ends_at:
                raise Excess("time") from None
            raise

    def send_up(self, content: bytes) -> None:
        """Send the site a head of ours, or bytes of the client's that were read. Raises Excess above the byte limit."""
        if not self._went_out(len(content)):
            raise Excess("bytes")
        self._site.write(content)

    def carry_up(self, length: int | None) -> asyncio.Task[None]:
        """Carry `length` bytes of the client to the site in a task, from now on; None carries all."""
        self._up = self._group.create_task(self._carry_to_site(length))
        return self._up

    async def read_client(self, count: int) -> bytes:
        """Return the client's next `count` bytes."""
        return await self._client.reader.readexactly(count)

    async def read_answer_head(self) -> bytes | None:
        """Return the site's next head with its empty line, or None if it closes before one begins.

        Raises BadHead and ConnectionError as `Side.read_head`; Excess above the byte limit.
        """
        head = await self._site.read_head()
        self._moved()
        if head is not None and not self._came_in(len(head)):
            raise Excess("bytes")
        return head

    async def carry_down(self, length: int | None) -> None:
        """Carry `length` bytes of the site to the client; None carries until the site closes.

        Raises Excess above the byte limit, and ConnectionError if the site breaks off.
        """
        if await self._carry(self._site, self._client, length, self._came_in):
            raise ConnectionError("the site broke off")

    async def _carry_to_site(self, length: int | None) -> None:
        with contextlib.suppress(ConnectionError):  # the site takes no more, and may have answered already
            await self._carry(self._client, self._site, length, self._went_out)

    async def _carry(self, source: Side, sink: Side, length: int | None, may: Callable[[int], bool]) -> int:
        """Carry bytes until `length` of them are passed on, or the source ends; return how many are missing."""
        carried = 0
        while length is None or carried < length:
            content = await source.reader.read(READ_BYTES if length is None else min(READ_BYTES, length - carried))
            if not content:
                break
            self._moved()
            carried += len(content)
            if carried > self._limits.max_response_bytes or not may(len(content)):
                raise Excess("bytes")
            sink.write(content)
            await sink.writer.drain()
        return 0 if length is None else length - carried

    def _moved(self) -> None:
        """Begin the idle time anew."""
        silent_at = asyncio.get_running_loop().time() + self._limits.idle_timeout_seconds
        self._clock.reschedule(min(self._ends_at, silent_at))
