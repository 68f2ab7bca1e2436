"""From the browser's own network to the egress proxy: a listener in there, and a relay out here.

Each tab has an address of its own to send to (127.0.0.2, 127.0.0.3 …, all of them the listener's). By it the relay
knows whose traffic a connection carries, and presents the credentials of the tab's page to the proxy: the browser
learns none, and need not be asked for a password on every connection. What comes by an address when no page is carried
by it is closed at once.

The egress proxy carries one plain request or one tunnel per connection, so that the first head is the only one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

from sluice.contracts.errors import Overloaded
from sluice.ingest.url import ProxyAddress

DIAL_SECONDS = 10.0
"""How long the proxy may take to accept; it listens on this machine."""
MAX_FIRST_LINE_BYTES = 65_536
LAST_ADDRESS = 254
"""Of 127.0.0.0/24: pages that one browser can tell apart at a time."""


class EgressGrant:
    """The relay behind a listener. Start it on the loop that is to carry the bytes."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._port = listener.getsockname()[1]
        self._pages: dict[str, ProxyAddress | None] = {}
        self._server: asyncio.Server | None = None
        self._last = 1
        self._tunnels: set[_FromBrowser] = set()

    async def start(self) -> None:
        """Take connections."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _FromBrowser(self._pages, self._tunnels), sock=self._listener)

    def reserve(self) -> str:
        """An address that no other tab gets until `release`. It leads nowhere yet.

        Raises:
            Overloaded: every address is in use.
        """
        address = self._free_address()
        self._pages[address] = None
        return address

    def release(self, address: str) -> None:
        """Give a reserved address back."""
        del self._pages[address]

    def is_open(self, address: str) -> bool:
        """Whether a page at that address is led to a proxy at the moment."""
        return self._pages.get(address) is not None

    def url(self, address: str) -> str:
        """What the browser calls the address, `http://host:port` in its network."""
        return f"http://{address}:{self._port}"

    @contextmanager
    def carried(self, address: str, proxy_url: str) -> Iterator[None]:
        """The reserved `address` leads to the proxy until the block ends; then all its connections are cut.

        Raises:
            InvalidInput: `proxy_url` is not the address of a proxy.
        """
        self._pages[address] = ProxyAddress.at(proxy_url)
        try:
            yield
        finally:
            self._pages[address] = None
            for tunnel in [tunnel for tunnel in self._tunnels if tunnel.address == address]:
                tunnel.break_off()

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is not None:
            self._server.close()
        for tunnel in list(self._tunnels):
            tunnel.break_off()
        self._listener.close()

    def _free_address(self) -> str:
        for _ in range(LAST_ADDRESS):
            self._last = self._last % LAST_ADDRESS + 1
            address = f"127.0.0.{self._last}"
            if self._last > 1 and address not in self._pages:
                return address
        raise Overloaded("every address of the browser's relay is in use")


class _End(asyncio.Protocol):
    """One end of a connection; what arrives goes to the other end, no faster than that takes it."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        if self.other is not None:
            with suppress(OSError, RuntimeError):  # it closed meanwhile
                self.other.transport.write_eof()
        return True  # the other direction goes on

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class _FromBrowser(_End):
    """The browser's end: knows by its address whose it is, and presents that page's credentials."""

    def __init__(self, pages: dict[str, ProxyAddress | None], tunnels: set[_FromBrowser]) -> None:
        super().__init__()
        self.address = ""
        self._pages = pages
        self._tunnels = tunnels
        self._first = b""
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.address = transport.get_extra_info("sockname")[0]
        self._tunnels.add(self)
        if self._pages.get(self.address) is None:
            self.break_off()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            super().data_received(data)
            return
        self._first += data
        if self._dialling is None and b"\r\n" in self._first:
            self.transport.pause_reading()
            self._dialling = asyncio.ensure_future(self._dial())
        elif len(self._first) > MAX_FIRST_LINE_BYTES:
            self.break_off()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tunnels.discard(self)
        if self._dialling is not None:
            self._dialling.cancel()
        super().connection_lost(exc)

    def break_off(self) -> None:
        """Close both ends, whatever is under way."""
        self.transport.abort()
        if self.other is not None:
            self.other.transport.abort()

    async def _dial(self) -> None:
        proxy = self._pages.get(self.address)
        if proxy is None:  # the page has ended
            self.break_off()
            return
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, other = await asyncio.get_running_loop().create_connection(_End, proxy.host, proxy.port)
        except OSError:  # a time limit is one as well
            self.break_off()
            return
        other.other, self.other = self, other
        line, _, rest = self._first.partition(b"\r\n")
        ours = "".join(f"{name}: {value}\r\n" for name, value in proxy.headers.items())
        other.transport.write(line + b"\r\n" + ours.encode() + rest)
        self._first = b""
        self.transport.resume_reading()
