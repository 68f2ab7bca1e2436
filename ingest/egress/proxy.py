"""The only way out: our forward proxy on loopback, through which all outward traffic goes.

Life of a request: authenticate, which yields its account → count it → read host and port → judge them →
resolve once → judge every address → wait for a slot → dial an address that was judged → relay, limiting bytes,
idle time and total time. Promises:

1. No connection is opened to an address that was not checked; a name is never resolved a second time, and within one
   crawl's account it keeps its first answer.
2. A refusal answers 403 with `X-Sluice-Refused: <rule>` (in the reason phrase too, since HTTP clients drop
   the headers of a failed CONNECT) and is counted on its account; `on_refusal` is called for the first of each kind.
   Rules: `policy`, `scheme`, `host`, `domain`, `port`, `address`; of limits `bytes`, `time`, `requests`, `hosts`,
   `connections`. A request in progress is broken off when it reaches a limit.
3. A failure answers 502, a time limit 504, too many connections 503, each with `X-Sluice-Failed: <why>`.
4. Every crawl has a token of its own (`open`), with caps, which is invalid once closed. Clients that live as
   long as the process have a secret for each purpose (`url_for`). The exceptions of `egress.allow` are by purpose.
5. Connections are shared fairly (`ingest.egress.resolver`), and names are looked up before a slot is taken: a
   crawl that takes all it can, or whose names get no answer, does not starve the others.
6. Unauthenticated clients are few: the oldest are closed first. `stop` ends every connection.

Plain HTTP is one request per connection; CONNECT is a tunnel, whose bytes are counted and not read. But where only
listed domains may be reached, its TLS handshake must name the requested host.

This module holds the proxy's life and accounts; `ingest.egress.serve_client` serves a client, `ingest.egress.dial`
reaches a site.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import concurrent.futures
import contextlib
import hmac
import itertools
import secrets
import threading
from collections.abc import Callable

from sluice.contracts.errors import Unavailable
from sluice.ingest.egress.crawl_account import USUAL_LIMITS, Account, Caps, EgressAccount, EgressLimits, EgressReport
from sluice.ingest.egress.dial import Dialler
from sluice.ingest.egress.resolver import Resolver
from sluice.ingest.egress.rules import EgressRules, Refusal, check_address, require_open
from sluice.ingest.egress.serve_client import Client, Clients, RequestServer
from sluice.ingest.egress.side import Side
from sluice.ingest.settings import PURPOSES, EgressSettings, Purpose

__all__ = ["EgressAccount", "EgressProxy", "EgressReport", "EgressRules", "Refusal", "Resolver", "check_address"]

START_SECONDS = 10.0
CLOSE_SECONDS = 5.0
"""Longest wait of `close` for an account's connections to end; normally they end at once."""
BACKLOG = 256


class EgressProxy:
    """The proxy in its own thread. Use as a context manager, or `start` and `stop`.

    `url`, `url_for` and the accounts' URLs carry secrets of this process; hand them to clients, never to logs.
    `on_refusal` is called in the proxy's thread and must be quick: once for each kind of refusal of an account, at
    most 50 kinds, and at most 50 times a second for traffic without an account of its own.
    """

    def __init__(
        self,
        settings: EgressSettings,
        *,
        resolver: Resolver | None = None,
        on_refusal: Callable[[Refusal], None] | None = None,
        limits: EgressLimits = USUAL_LIMITS,
    ) -> None:
        self._settings, self._limits = settings, limits
        self._accounts: dict[str, tuple[str, Account]] = {
            purpose: (secrets.token_urlsafe(24), Account(purpose)) for purpose in PURPOSES
        }
        self._opened = itertools.count(1)
        rules = EgressRules(settings)
        self._dialler = Dialler(settings, rules, resolver, limits)
        self._clients = Clients()
        self._server = RequestServer(
            limits, rules, self._dialler, self._clients, account_of=self._account_of, on_refusal=on_refusal
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._port = 0

    # -- for clients --------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL for pages: for clients that follow addresses from other people's content."""
        return self.url_for("crawl")

    def url_for(self, purpose: Purpose) -> str:
        """Return the proxy's address with the secret of `purpose`. Raises Unavailable if the proxy does not run."""
        return self._url_of(purpose)

    def open(self, purpose: Purpose, *, run_id: str = "", max_bytes: int | None = None) -> EgressAccount:
        """Open an account for one crawl alone, with a token of its own, until it is closed. Refusals carry `run_id`.

        `max_bytes` (both directions) may lower the configured cap, not raise it. Raises
        PolicyRefused (`egress`) if the policy is `deny`, and Unavailable if the proxy does not run.
        """
        require_open(self._settings)
        name = f"{purpose}-{next(self._opened)}"
        limits, most_bytes = self._limits, self._limits.max_bytes_per_crawl
        caps = Caps(
            requests=self._settings.max_requests_per_crawl,
            bytes=most_bytes if max_bytes is None else min(most_bytes, max_bytes),
            hosts=limits.max_hosts_per_crawl,
            connections=limits.max_connections_per_crawl,
        )
        account = Account(purpose, run_id=run_id, caps=caps)
        self._accounts[name] = secrets.token_urlsafe(24), account
        try:
            return EgressAccount(self._url_of(name), account.report, lambda: self._close(name))
        except Unavailable:
            del self._accounts[name]
            raise

    def _url_of(self, name: str) -> str:
        if not self._port:
            raise Unavailable("the egress proxy does not run")
        return f"http://{name}:{self._accounts[name][0]}@127.0.0.1:{self._port}"

    def _close(self, name: str) -> None:
        _, account = self._accounts.pop(name, (None, None))
        if account is None or self._loop is None or self._thread is None:
            return
        ending = self._end(account)
        try:
            ended = asyncio.run_coroutine_threadsafe(ending, self._loop)
        except RuntimeError:  # the loop has ended, and every connection with it
            ending.close()
            return
        if threading.current_thread() is not self._thread:
            with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                ended.result(CLOSE_SECONDS)

    async def _end(self, account: Account) -> None:
        """End every connection and look-up of an account."""
        account.give_up_look_ups()
        theirs = self._clients.of(account)
        for client in theirs:
            client.cut()
        await asyncio.gather(*(client.task for client in theirs if client.task), return_exceptions=True)

    # -- life cycle -------------------------------------------------------------------------

    def start(self) -> None:
        """Listen on a free loopback port, and return once it accepts connections. Raises Unavailable if it cannot."""
        ready = threading.Event()
        failure: list[OSError] = []

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=_new_loop) as runner:
                    runner.run(self._serve(ready))
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

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await self._loop.create_server(lambda: Side(on_open=self._accept), "127.0.0.1", 0, backlog=BACKLOG)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        # Python's own server never closes a connection that it accepts while it is closing.
        await self._end_tasks(self._clients.tasks)
        server.close()
        self._clients.cut()
        await self._end_tasks(set)

    async def _end_tasks(self, but_for: Callable[[], set[asyncio.Task[None] | None]]) -> None:
        """Cancel every look-up of the accounts, and wait until only the tasks of `but_for` remain."""
        while tasks := asyncio.all_tasks() - {asyncio.current_task()} - but_for():
            for _, account in tuple(self._accounts.values()):
                account.give_up_look_ups()
            await asyncio.wait(tasks)

    # -- clients ------------------------------------------------------------------------------

    def _accept(self, side: Side) -> None:
        client = Client(side)
        side.on_lost = client.leave
        self._clients.add(client)
        client.task = asyncio.get_running_loop().create_task(self._server.serve(client))

    def _account_of(self, authorization: str) -> Account | None:
        """Return the account for the name and secret of a Basic authentication header (RFC 7617)."""
        try:
            given = base64.b64decode(authorization.removeprefix("Basic "), validate=True)
        except (binascii.Error, ValueError):
            return None
        name, _, secret = given.partition(b":")
        ours, account = self._accounts.get(name.decode("latin-1"), (None, None))
        if ours is None or not hmac.compare_digest(secret, ours.encode()):
            return None
        return account


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop loop, which relays at half the cost, if the platform has it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
