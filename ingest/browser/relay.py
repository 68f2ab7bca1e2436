"""The relay from the browser's own network to the egress proxy: the listener is inside that network, the relay outside.

Each tab sends to an address of its own (127.0.0.2, 127.0.0.3 …, all of them the listener's). The address tells the
relay which page a connection belongs to, and it presents that page's credentials to the proxy: the browser learns none,
and need not answer a password prompt on every connection. A connection to an address without a page is closed at once.

The egress proxy carries one plain request or one tunnel per connection, so that the first head is the only one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sluice.contracts.errors import Overloaded
from sluice.ingest.url import ProxyAddress

DIAL_SECONDS = 10.0
"""Longest time for the proxy to accept; it listens on this machine."""
MAX_FIRST_LINE_BYTES = READ_BYTES = 65_536
LAST_ADDRESS = 254
"""Last address of 127.0.0.0/24; it limits the pages that one browser can show at a time to 253."""


class EgressGrant:
    """The relay behind a listener. Start it on the loop that is to carry the bytes."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._port = listener.getsockname()[1]
        self._pages: dict[str, ProxyAddress | None] = {}
        self._server: asyncio.Server | None = None
        self._last = 1
        self._carried: dict[asyncio.Task[None] | None, str] = {}
        """Address that each connection came by, keyed by the task that carries it."""

    async def start(self) -> None:
        """Start accepting connections."""
        self._server = await asyncio.start_server(self._carry, sock=self._listener, limit=MAX_FIRST_LINE_BYTES)

    def reserve(self) -> str:
        """Reserve an address for one tab; it leads nowhere yet. Raises Overloaded if every address is in use."""
        address = self._free_address()
        self._pages[address] = None
        return address

    def release(self, address: str) -> None:
        """Release a reserved address."""
        del self._pages[address]

    def is_open(self, address: str) -> bool:
        """Return whether the address currently leads to a proxy."""
        return self._pages.get(address) is not None

    def url(self, address: str) -> str:
        """Return the address as the browser uses it, `http://host:port` in its network."""
        return f"http://{address}:{self._port}"

    @contextmanager
    def carried(self, address: str, proxy_url: str) -> Iterator[None]:
        """Lead the reserved `address` to the proxy until the block ends; then cut all its connections.

        Raises InvalidInput if `proxy_url` is not the address of a proxy.
        """
        self._pages[address] = ProxyAddress.at(proxy_url)
        try:
            yield
        finally:
            self._pages[address] = None
            self._cut(address)

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._server is not None:
            self._server.close()
        for address in set(self._carried.values()):
            self._cut(address)
        self._listener.close()

    def _cut(self, address: str) -> None:
        for task, came_by in self._carried.items():
            if came_by == address and task is not None:
                task.cancel()

    async def _carry(self, from_browser: asyncio.StreamReader, to_browser: asyncio.StreamWriter) -> None:
        """Carry one connection of the browser, with the credentials of the page whose address it came by."""
        address = to_browser.get_extra_info("sockname")[0]
        self._carried[asyncio.current_task()] = address
        ends = [to_browser]
        try:
            if self._pages.get(address) is not None and (line := await from_browser.readuntil(b"\r\n")):
                proxy = self._pages[address]
                if proxy is None:  # the page has ended
                    return
                async with asyncio.timeout(DIAL_SECONDS):
                    from_proxy, to_proxy = await asyncio.open_connection(proxy.host, proxy.port)
                ends.append(to_proxy)
                ours = "".join(f"{name}: {value}\r\n" for name, value in proxy.headers.items())
                to_proxy.write(line + ours.encode())
                await asyncio.gather(_pass_on(from_browser, to_proxy), _pass_on(from_proxy, to_browser))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # one end broke off, or the proxy does not accept
        finally:
            del self._carried[asyncio.current_task()]
            for end in ends:
                end.transport.abort()

    def _free_address(self) -> str:
        for _ in range(LAST_ADDRESS):
            self._last = self._last % LAST_ADDRESS + 1
            address = f"127.0.0.{self._last}"
            if self._last > 1 and address not in self._pages:
                return address
        raise Overloaded("every address of the browser's relay is in use")


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Forward bytes, no faster than the sink takes them; at the end of the source the other direction goes on."""
    while content := await source.read(READ_BYTES):
        sink.write(content)
        await sink.drain()
    with suppress(OSError, RuntimeError):  # it closed meanwhile
        sink.write_eof()
