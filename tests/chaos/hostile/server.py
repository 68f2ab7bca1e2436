"""One server for every address: it tells by where it was reached whether it is the public web or a canary.

Whoever reaches it at a public address gets the pages of `pages`; whoever reaches it anywhere else has reached what no
crawl may reach, which is written down in `canaries`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.chaos.hostile.names import SILENT
from tests.chaos.hostile.wire import is_forbidden

PORTS = (21, 22, 25, 80, 443, 3306, 5432, 6379, 8000, 8080, 8443, 9200, 11211)
_MAPPED = "::ffff:"
_MAX_HEAD_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked, and at which address of ours."""

    method: str
    host: str
    path: str
    query: str
    headers: dict[str, str]
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()

    def encoded(self) -> bytes:
        """As it goes over the wire."""
        lines = [f"HTTP/1.1 {self.status} X", *(f"{name}: {value}" for name, value in self.headers)]
        lines += [f"Content-Length: {len(self.body)}", "Connection: close", "", ""]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + self.body


Live = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
"""Writes whatever it likes."""
Answer = Reply | Live
Finder = Callable[[Request], Answer | None]


def html(text: str, *headers: tuple[str, str], status: int = 200) -> Reply:
    """A page."""
    return Reply(text.encode(), status, (("Content-Type", "text/html; charset=utf-8"), *headers))


@dataclass
class Site:
    """The pages by path, what was asked of them, and the canaries that were reached."""

    pages: dict[str, Answer] = field(default_factory=dict)
    finders: list[Finder] = field(default_factory=list)
    """Asked in turn for what `pages` does not have."""
    asked: list[Request] = field(default_factory=list)
    canaries: list[tuple[str, int]] = field(default_factory=list)

    def answer_to(self, request: Request) -> Answer:
        """The page, or 404."""
        if request.path in self.pages:
            return self.pages[request.path]
        found = (finder(request) for finder in self.finders)
        return next((one for one in found if one is not None), Reply(status=404))

    def asked_for(self, path: str) -> int:
        """How often."""
        return sum(request.path == path for request in self.asked)


class Server:
    """Listens on every address and the ports of `PORTS`, from `__enter__` to `__exit__`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server", daemon=True)
        self._open: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Server:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        for port in PORTS:
            listener = socket.create_server(("::", port), family=socket.AF_INET6, backlog=512, dualstack_ipv6=True)
            await asyncio.start_server(self._serve, sock=listener, limit=_MAX_HEAD_BYTES)

    async def _hang_up(self) -> None:
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._exchange(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            writer.transport.abort()  # the client left, or we do
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address, port = writer.get_extra_info("sockname")[:2]
        address = address.removeprefix(_MAPPED)
        if is_forbidden(address):
            self.site.canaries.append((address, port))
        if address == SILENT or port != 80:
            await reader.read()  # until the client leaves: it gets no byte
            return
        request = _request(await reader.readuntil(b"\r\n\r\n"), address, port)
        self.site.asked.append(request)
        answer = self.site.answer_to(request)
        if isinstance(answer, Reply):
            writer.write(answer.encoded())
            await writer.drain()
        else:
            await answer(request, writer)


def _request(head: bytes, address: str, port: int) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = ([*first.split(" ", 2), "", ""])[:3]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    path, _, query = target.partition("?")
    return Request(method, headers.get("host", ""), path, query, headers, address, port)
