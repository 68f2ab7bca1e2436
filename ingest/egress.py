"""The one door out: a forward proxy of ours on loopback, which all outward traffic goes through.

Life of a request: authenticate, which tells what it is for → read host and port → judge them → resolve once → judge
every address → dial an address that was judged → relay, counting bytes and silence. Promises:

1. No connection is opened to an address that was not checked; the name is never resolved a second time.
2. A refusal answers 403 with `X-Sluice-Refused: <rule>` (in the reason phrase too, since HTTP clients drop
   the headers of a failed CONNECT) and is handed to `on_refusal`. Rules: `scheme`, `host`, `domain`,
   `port`, `address`, `bytes`.
3. A failure answers 502, a time limit 504, too many connections 503, each with `X-Sluice-Failed: <why>`.
4. Every purpose has a secret of its own, and the exceptions of `egress.allow` that are for it.
5. Bytes, silence and the number of connections are bounded; `stop` ends every connection.

Plain HTTP is one request per connection; CONNECT is a tunnel, whose bytes are counted and not read.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from types import TracebackType

from contracts.errors import Unavailable
from ingest.egress_rules import EgressRules, Refusal, canonical_host, check_address
from ingest.forwarding import (
    MAX_HEAD_BYTES,
    BadHead,
    Failed,
    Head,
    Refused,
    Target,
    answer,
    body_length,
    read_head,
    read_target,
    request_head,
    response_head,
)
from ingest.settings import PURPOSES, EgressSettings, Purpose
from ingest.tunnel import Connection, Resolver, break_off, connect, relay, resolve

__all__ = ["EgressProxy", "EgressRules", "Refusal", "Resolver", "check_address", "resolve"]

REALM = "sluice"
START_SECONDS = 10.0
MAX_INTERIM_ANSWERS = 8
"""Responses of the 1xx kind before the real one; sites send one at most. They count as no bytes of a body."""


class EgressProxy:
    """The proxy in its own thread. Use as a context manager, or `start` and `stop`.

    `url` and `url_for` carry secrets of this process; hand them to clients, never to logs.
    """

    def __init__(
        self,
        settings: EgressSettings,
        *,
        resolver: Resolver | None = None,
        on_refusal: Callable[[Refusal], None] | None = None,
    ) -> None:
        self._settings = settings
        self._rules = EgressRules(settings)
        self._resolve = resolver or resolve
        self._on_refusal = on_refusal
        self._secrets: dict[Purpose, str] = {purpose: secrets.token_urlsafe(24) for purpose in PURPOSES}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._slots = asyncio.Semaphore(settings.max_connections)
        self._port = 0

    @property
    def url(self) -> str:
        """As `url_for` pages: for whoever goes where strangers send him."""
        return self.url_for("crawl")

    def url_for(self, purpose: Purpose) -> str:
        """The proxy's address with user name and password; what goes out by it is for that purpose.

        Raises:
            Unavailable: it does not run.
        """
        if not self._port:
            raise Unavailable("the egress proxy does not run")
        return f"http://{purpose}:{self._secrets[purpose]}@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen on a free loopback port. Returns once connections are taken.

        Raises:
            Unavailable: it could not listen.
        """
        ready = threading.Event()
        failure: list[OSError] = []

        def run() -> None:
            try:
                asyncio.run(self._serve(ready))
            except OSError as error:
                failure.append(error)
                ready.set()

        self._thread = threading.Thread(target=run, name="egress", daemon=True)
        self._thread.start()
        if not ready.wait(START_SECONDS) or failure:
            raise Unavailable("the egress proxy could not start") from (failure[0] if failure else None)

    def stop(self) -> None:
        """End every connection and the thread. May be called again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join()
        self._port = 0

    def __enter__(self) -> EgressProxy:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = asyncio.create_task(self._serve_client(reader, writer))
            connections[connection] = writer
            connection.add_done_callback(connections.pop)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        # A server that closes while it is still accepting leaves that connection open for good.
        while accepting := asyncio.all_tasks() - {asyncio.current_task()} - connections.keys():
            await asyncio.gather(*accepting, return_exceptions=True)
        server.close()
        open_connections = dict(connections)
        for connection, writer in open_connections.items():
            connection.cancel()
            writer.close()  # one that is cancelled before its first step would leave it open
        await asyncio.gather(*open_connections, return_exceptions=True)

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve_request(reader, writer)
        except OSError:  # the client left, the site broke off or is cut off, or both fell silent
            break_off(writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await self._authenticated_head(reader, writer)
            if asked is not None:
                await self._let_out(*asked, reader, writer)
        except BadHead as error:
            await answer(writer, 400, "Bad Request", {"X-Sluice-Failed": "malformed"}, str(error))
        except Failed as error:
            await answer(writer, error.status, f"Failed {error}", {"X-Sluice-Failed": str(error)}, str(error))
        except Refused as error:
            await self._refuse(error.refusal, writer)

    async def _refuse(self, refusal: Refusal, writer: asyncio.StreamWriter) -> None:
        self._record(refusal)
        reason = f"Refused {refusal.rule}: {refusal.detail}"
        await answer(writer, 403, reason, {"X-Sluice-Refused": refusal.rule}, refusal.detail)

    async def _authenticated_head(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Head, Purpose] | None:
        """The first request with a right secret, and its purpose; browsers send one without and wait to be asked."""
        while True:
            async with asyncio.timeout(self._settings.idle_timeout_seconds):
                head = await read_head(reader)
            if head is None:
                return None
            purpose = self._purpose_of((head.first("proxy-authorization") or "").encode("latin-1"))
            if purpose is not None:
                return head, purpose
            again = not head.has_body
            challenge = {"Proxy-Authenticate": f'Basic realm="{REALM}"'}
            await answer(writer, 407, "Proxy Authentication Required", challenge, "", keep_open=again)
            if not again:
                return None

    def _purpose_of(self, given: bytes) -> Purpose | None:
        """The purpose whose credentials were given, as Basic authentication writes them."""
        found: Purpose | None = None
        for purpose, secret in self._secrets.items():
            if hmac.compare_digest(given, b"Basic " + base64.b64encode(f"{purpose}:{secret}".encode())):
                found = purpose
        return found

    async def _let_out(
        self, head: Head, purpose: Purpose, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        target = read_target(head)
        refusal = self._rules.check_host(target.host, target.port, purpose)
        if refusal is not None:
            raise Refused(refusal)
        async with self._slot():
            site = await self._dial(target, purpose)
            try:
                await self._carry(head, target, (reader, writer), site)
            finally:
                site[1].close()

    async def _carry(self, head: Head, target: Target, client: Connection, site: Connection) -> None:
        answered = False

        async def begin() -> int | None:
            nonlocal answered
            length = await self._begin_answer(head, target, client[1], site)
            answered = True
            return length

        limit_bytes, idle_seconds = self._settings.max_response_bytes, self._settings.idle_timeout_seconds
        try:
            whole = await relay(client, site, begin, limit_bytes=limit_bytes, idle_seconds=idle_seconds)
        except TimeoutError as error:
            if answered:
                raise
            raise Failed(504, "no response in time") from error
        if not whole:
            self._record(self._too_large(target))
            break_off(client[1])

    async def _begin_answer(
        self, head: Head, target: Target, client: asyncio.StreamWriter, site: Connection
    ) -> int | None:
        """Everything before the body; returns the body's length where it is known."""
        if head.method == "CONNECT":
            client.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            return None
        site[1].write(request_head(head, target))
        for _ in range(MAX_INTERIM_ANSWERS + 1):
            answer_head = await _read_response_head(site[0])
            length = body_length(answer_head, head.method)
            if length is not None and length > self._settings.max_response_bytes:
                raise Refused(self._too_large(target))
            client.write(response_head(answer_head))
            if answer_head.status >= 200:
                return length
        raise ConnectionError("the site announces an answer without end")  # part of it is on its way: break off

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Failed(503, "too many connections") from error
        try:
            yield
        finally:
            self._slots.release()

    async def _dial(self, target: Target, purpose: Purpose) -> Connection:
        """A connection to the first address that answers, of those that were all judged."""
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                addresses = await self._addresses(target)
                refusal = self._rules.check_addresses(target.host, target.port, addresses, purpose)
                if refusal is not None:
                    raise Refused(refusal)
                return await connect(addresses, target.port, self._settings.connect_timeout_seconds)
        except TimeoutError as error:
            raise Failed(504, "connect timeout") from error
        except (socket.gaierror, UnicodeError) as error:  # the latter: a label that no name server could hold
            raise Failed(502, "name not found") from error
        except OSError as error:
            raise Failed(502, f"connect: {error.strerror or type(error).__name__}") from error

    async def _addresses(self, target: Target) -> tuple[str, ...]:
        try:
            return (str(ip_address(target.host)),)
        except ValueError:
            return await self._resolve(canonical_host(target.host) or target.host, target.port)

    def _too_large(self, target: Target) -> Refusal:
        limit = self._settings.max_response_bytes
        return Refusal(target.host, target.port, "bytes", f"more than {limit} bytes over one connection")

    def _record(self, refusal: Refusal) -> None:
        if self._on_refusal is not None:
            self._on_refusal(refusal)


async def _read_response_head(site: asyncio.StreamReader) -> Head:
    try:
        head = await read_head(site, response=True)
    except BadHead as error:
        raise Failed(502, f"not an HTTP response: {error}") from error
    except ConnectionError as error:
        raise Failed(502, "the site broke off") from error
    if head is None:
        raise Failed(502, "the site closed without a response")
    return head
