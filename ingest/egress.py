"""The one door out: a forward proxy of ours on loopback, which all outward traffic goes through.

Life of a request: authenticate, which tells on whose account it is → count it → read host and port → judge them →
resolve once → judge every address → wait for a place → dial an address that was judged → relay, counting bytes,
silence and time. Promises:

1. No connection is opened to an address that was not checked; a name is never resolved a second time, and within one
   crawl's account it keeps its first answer.
2. A refusal answers 403 with `X-Sluice-Refused: <rule>` (in the reason phrase too, since HTTP clients drop
   the headers of a failed CONNECT) and is counted on its account; `on_refusal` is told of the first of each kind.
   Rules: `policy`, `scheme`, `host`, `domain`, `port`, `address`; of limits `bytes`, `time`, `requests`, `hosts`,
   `connections`. What has begun when a limit is reached is broken off.
3. A failure answers 502, a time limit 504, too many connections 503, each with `X-Sluice-Failed: <why>`.
4. Every crawl has a token of its own (`open`), with caps, that is worth nothing once closed. Clients that live as
   long as the process have a secret for each purpose (`url_for`). The exceptions of `egress.allow` are by purpose.
5. Connections are shared fairly (`ingest.proxy.places`), and names are looked up before a place is taken: a crawl that
   takes all it can, or whose names nobody answers for, leaves the others theirs.
6. Those who show no secret are few: the oldest make way. `stop` ends every connection.

Plain HTTP is one request per connection; CONNECT is a tunnel, whose bytes are counted and not read. But where only
listed domains may be reached, its TLS handshake must name the host that was asked for.
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
from dataclasses import replace
from ipaddress import ip_address
from types import TracebackType

from contracts.errors import Unavailable
from ingest.proxy.account import Account, EgressAccount, EgressReport, caps_of
from ingest.proxy.client_hello import RECORD_HEADER_BYTES, NoHello, record_length, server_name
from ingest.proxy.forwarding import (
    BadHead,
    Failed,
    Head,
    Refused,
    Target,
    answer,
    body_length,
    parse_request,
    parse_response,
    read_target,
    request_body_length,
    request_head,
    response_head,
)
from ingest.proxy.places import Places
from ingest.proxy.resolving import BoundedResolver, Resolver
from ingest.proxy.rules import EgressRules, Refusal, canonical_host, check_address
from ingest.proxy.tunnel import ClientLeft, Excess, Relay, RelayLimits, Side, dial
from ingest.proxy.upstream import Upstream, read_upstream
from ingest.settings import PURPOSES, EgressSettings, Purpose

__all__ = [
    "EgressAccount",
    "EgressProxy",
    "EgressReport",
    "EgressRules",
    "Refusal",
    "Resolver",
    "check_address",
]

REALM = "sluice"
START_SECONDS = 10.0
CLOSE_SECONDS = 5.0
"""How long `close` of an account waits until its connections have ended; they end at once unless all is stuck."""
BACKLOG = 256
MAX_INTERIM_ANSWERS = 8
"""Responses of the 1xx kind before the real one; sites send one at most. They count as no bytes of a body."""
MAX_CHALLENGES = 3
"""Requests without a right secret on one connection; a browser sends one and waits to be asked."""
MAX_STRANGERS = 128
"""Connections that have shown no secret; clients of ours do so within milliseconds."""


class _Client:
    """A connection to the proxy, and the task that serves it."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.task: asyncio.Task[None] | None = None
        self.account: Account | None = None
        self.is_answered = False
        """Whether a site's answer is on its way, so that one of ours would come too late."""

    def cut(self) -> None:
        """End it, and what was opened for it."""
        if self.task is not None:
            self.task.cancel()
        self.side.break_off()

    def leave(self) -> None:
        """The other end has gone: nobody waits for an answer."""
        if self.task is not None:
            self.task.cancel()


class EgressProxy:
    """The proxy in its own thread. Use as a context manager, or `start` and `stop`.

    `url`, `url_for` and the accounts' URLs carry secrets of this process; hand them to clients, never to logs.
    `on_refusal` is called in the proxy's thread and must be quick: once for each kind of refusal of an account, at
    most 50 kinds, and at most 50 times a second for what has no account of its own.
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
        self._resolver = resolver
        self._names = BoundedResolver(settings.resolver_threads)
        self._upstream = _upstream_of(settings)
        self._on_refusal = on_refusal
        self._places = Places(settings.max_connections, per_target=settings.max_connections_per_host)
        self._limits = RelayLimits(
            settings.max_response_bytes, settings.idle_timeout_seconds, settings.max_connection_seconds
        )
        self._accounts: dict[str, tuple[str, Account]] = {
            purpose: (secrets.token_urlsafe(24), Account(purpose)) for purpose in PURPOSES
        }
        self._opened = itertools.count(1)
        self._clients: set[_Client] = set()
        self._strangers: dict[_Client, None] = {}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._port = 0

    # -- for whoever goes out -----------------------------------------------------------------

    @property
    def url(self) -> str:
        """As `url_for` pages: for whoever goes where strangers send him."""
        return self.url_for("crawl")

    def url_for(self, purpose: Purpose) -> str:
        """The proxy's address with user name and password; what goes out by it is for that purpose.

        Raises:
            Unavailable: it does not run.
        """
        return self._url_of(purpose)

    def open(
        self,
        purpose: Purpose,
        *,
        run_id: str = "",
        max_bytes: int | None = None,
        max_requests: int | None = None,
    ) -> EgressAccount:
        """A way out for one crawl alone, with a token of its own, until it is closed.

        `max_bytes` (both directions) and `max_requests` may lower the configured caps, not raise them. `run_id` is
        told with its refusals.

        Raises:
            Unavailable: the proxy does not run.
        """
        name = f"{purpose}-{next(self._opened)}"
        caps = caps_of(self._settings, max_bytes=max_bytes, max_requests=max_requests)
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
        theirs = [client for client in self._clients if client.account is account]
        for client in theirs:
            client.cut()
        await asyncio.gather(*(client.task for client in theirs if client.task), return_exceptions=True)

    # -- its own life -------------------------------------------------------------------------

    def start(self) -> None:
        """Listen on a free loopback port. Returns once connections are taken.

        Raises:
            Unavailable: it could not listen.
        """
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await self._loop.create_server(lambda: Side(on_open=self._accept), "127.0.0.1", 0, backlog=BACKLOG)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        # Python's own server leaves a connection open for good that it is accepting while it closes.
        await self._end_tasks(lambda: {client.task for client in self._clients})
        server.close()
        self._names.stop()
        for client in tuple(self._clients):
            client.cut()
        await self._end_tasks(set)

    async def _end_tasks(self, but_for: Callable[[], set[asyncio.Task[None] | None]]) -> None:
        """Give up every look-up of the accounts, and wait until there are no tasks but those."""
        while tasks := asyncio.all_tasks() - {asyncio.current_task()} - but_for():
            for _, account in tuple(self._accounts.values()):
                account.give_up_look_ups()
            await asyncio.wait(tasks)

    # -- one connection -----------------------------------------------------------------------

    def _accept(self, side: Side) -> None:
        client = _Client(side)
        side.on_lost = client.leave
        self._clients.add(client)
        self._strangers[client] = None
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cut()
        client.task = asyncio.get_running_loop().create_task(self._serve_client(client))

    async def _serve_client(self, client: _Client) -> None:
        try:
            await self._serve_request(client)
        except OSError:  # the client left, the site broke off, or both fell silent
            client.side.break_off()
        finally:
            client.side.close(self._settings.idle_timeout_seconds)
            self._strangers.pop(client, None)
            self._clients.discard(client)
            if client.account is not None:
                client.account.end()

    async def _serve_request(self, client: _Client) -> None:
        side = client.side
        try:
            asked = await self._authenticated_head(client)
            if asked is not None:
                await self._let_out(client, *asked)
        except BadHead as error:
            side.write(answer(400, "Bad Request", {"X-Sluice-Failed": "malformed"}, str(error)))
        except Failed as error:
            side.write(answer(error.status, f"Failed {error}", {"X-Sluice-Failed": str(error)}, str(error)))
        except Refused as error:
            self._refuse(error.refusal, client)

    def _refuse(self, refusal: Refusal, client: _Client) -> None:
        if client.account is not None:
            told = client.account.refused(refusal)
            if told is not None and self._on_refusal is not None:
                self._on_refusal(told)
        if client.is_answered:
            client.side.break_off()
            return
        reason = f"Refused {refusal.rule}: {refusal.detail}"
        client.side.write(answer(403, reason, {"X-Sluice-Refused": refusal.rule}, refusal.detail))

    async def _authenticated_head(self, client: _Client) -> tuple[Head, Account] | None:
        """The first request with a right secret, and its account; browsers send one without and wait to be asked."""
        for _ in range(MAX_CHALLENGES):
            async with asyncio.timeout(self._settings.idle_timeout_seconds):
                raw = await client.side.read_head()
            if raw is None:
                return None
            head = parse_request(raw)
            account = self._account_of(head.first("proxy-authorization") or "")
            if account is not None:
                self._strangers.pop(client, None)
                return head, account
            challenge = {"Proxy-Authenticate": f'Basic realm="{REALM}"'}
            again = not head.has_body
            client.side.write(answer(407, "Proxy Authentication Required", challenge, "", keep_open=again))
            if not again:
                return None
        return None

    def _account_of(self, authorization: str) -> Account | None:
        """The account whose name and secret were given, as Basic authentication writes them (RFC 7617)."""
        try:
            given = base64.b64decode(authorization.removeprefix("Basic "), validate=True)
        except (binascii.Error, ValueError):
            return None
        name, _, secret = given.partition(b":")
        ours, account = self._accounts.get(name.decode("latin-1"), (None, None))
        if ours is None or not hmac.compare_digest(secret, ours.encode()):
            return None
        return account

    async def _let_out(self, client: _Client, head: Head, account: Account) -> None:
        client.account = account
        exceeded = account.begin()
        target = read_target(head)
        if exceeded:
            raise Refused(self._beyond(target, exceeded))
        refusal = self._rules.check_host(target.host, target.port, account.purpose)
        if refusal is not None:
            raise Refused(refusal)
        host = canonical_host(target.host)
        if host is not None and host != target.host:
            target = replace(target, host=host)
        started = asyncio.get_running_loop().time()
        addresses = await self._judged_addresses(target, account)
        left_seconds = self._settings.connect_timeout_seconds - (asyncio.get_running_loop().time() - started)
        await self._take_place(target, account)
        try:
            site = await self._dial(target, addresses, left_seconds)
            account.reached(target.host)
            try:
                await self._carry(head, target, client, site, account)
            finally:
                site.break_off()
        finally:
            self._places.give(account, target=target.host)

    # -- whither ------------------------------------------------------------------------------

    async def _judged_addresses(self, target: Target, account: Account) -> tuple[str, ...]:
        """The addresses of a host, every one of which may be dialled."""
        if not account.may_ask_for(target.host):
            raise Refused(self._beyond(target, "hosts"))
        addresses = _literal(target.host) or await self._addresses(target, account)
        refusal = self._rules.check_addresses(target.host, target.port, addresses, account.purpose)
        if refusal is not None:
            raise Refused(refusal)
        return addresses

    async def _addresses(self, target: Target, account: Account) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                return await self._answer_for(target, account)
        except TimeoutError as error:
            raise Failed(504, "connect timeout") from error
        except (OSError, UnicodeError) as error:  # the latter: a label that no name server could hold
            raise Failed(502, "name not found") from error

    async def _answer_for(self, target: Target, account: Account) -> tuple[str, ...]:
        """What the name resolves to, or resolved to when the account first asked."""
        if account.caps is None:
            return await self._look_up(target, account, asker=target.host)
        known = account.look_ups.get(target.host)
        if known is None:
            known = asyncio.ensure_future(self._look_up(target, account, asker=account))
            account.keep(target.host, known)
        return await asyncio.shield(known)

    async def _look_up(self, target: Target, account: Account, *, asker: object) -> tuple[str, ...]:
        if self._resolver is not None:
            return await self._resolver(target.host, target.port)
        listed = self._rules.is_listed(target.host, target.port, account.purpose)
        return await self._names.look_up(target.host, target.port, asker=asker, absolute=not listed)

    async def _take_place(self, target: Target, account: Account) -> None:
        """One of the connections that may be open at a time."""
        at_most = account.caps.connections if account.caps else self._settings.max_connections
        if self._places.take_free(account, at_most=at_most, target=target.host):
            return
        try:
            async with asyncio.timeout(self._settings.connect_timeout_seconds):
                await self._places.take(account, at_most=at_most, target=target.host)
        except TimeoutError as error:
            if account.caps and self._places.held(account) >= at_most:
                raise Refused(self._beyond(target, "connections")) from error
            raise Failed(503, "too many connections") from error

    async def _dial(self, target: Target, addresses: tuple[str, ...], limit_seconds: float) -> Side:
        """A connection to the first address that answers, of those that were all judged."""
        try:
            if self._upstream is not None:
                return await self._dial_upstream(self._upstream, addresses[0], target.port, limit_seconds)
            return await dial(addresses, target.port, limit_seconds)
        except TimeoutError as error:
            raise Failed(504, "connect timeout") from error
        except OSError as error:
            raise Failed(502, f"connect: {error.strerror or type(error).__name__}") from error

    async def _dial_upstream(self, upstream: Upstream, address: str, port: int, limit_seconds: float) -> Side:
        try:
            async with asyncio.timeout(limit_seconds):
                proxies = await self._names.look_up(upstream.host, upstream.port, asker=upstream, absolute=False)
                side = await dial(proxies, upstream.port, limit_seconds)
        except TimeoutError as error:
            raise upstream.failed("connect timeout") from error
        except OSError as error:
            raise upstream.failed(f"connect: {error.strerror or type(error).__name__}") from error
        try:
            return await upstream.open_tunnel(side, address, port, limit_seconds)
        except BaseException:
            side.break_off()
            raise

    # -- what is carried ----------------------------------------------------------------------

    async def _carry(self, head: Head, target: Target, client: _Client, site: Side, account: Account) -> None:
        with Relay(client.side, site, self._limits, came_in=account.came_in, went_out=account.went_out) as relay:
            try:
                if head.method == "CONNECT":
                    await self._begin_tunnel(relay, target, client, account)
                else:
                    await self._begin_answer(relay, head, target, client)
                await relay.finish()
            except Excess as error:
                raise Refused(self._beyond(target, error.rule)) from error
            except ClientLeft:
                raise
            except TimeoutError as error:
                if client.is_answered:
                    raise
                raise Failed(504, "no response in time") from error
            except BadHead as error:
                if client.is_answered:
                    raise ConnectionError("the site answers no HTTP") from error
                raise Failed(502, f"not an HTTP response: {error}") from error
            except ConnectionError as error:
                if client.is_answered:
                    raise
                raise Failed(502, "the site broke off") from error

    async def _begin_tunnel(self, relay: Relay, target: Target, client: _Client, account: Account) -> None:
        client.side.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        client.is_answered = True
        if self._rules.wants_its_own_name(target.host, target.port, account.purpose):
            await self._check_hello(relay, target, client)
        relay.carry_up(None)
        relay.carry_down(None)

    async def _check_hello(self, relay: Relay, target: Target, client: _Client) -> None:
        """Nothing of a tunnel reaches the site before its handshake has named the site that was judged."""
        try:
            record = await relay.peek_client(record_length, RECORD_HEADER_BYTES)
            named = server_name(record)
        except NoHello as error:
            raise Refused(Refusal(target.host, target.port, "domain", f"no TLS within the tunnel: {error}")) from error
        if named is not None and canonical_host(named) != target.host:
            detail = f"a tunnel to {target.host} that asks for another site"
            raise Refused(Refusal(target.host, target.port, "domain", detail))
        if named is None and not _literal(target.host):
            raise Refused(Refusal(target.host, target.port, "domain", "a tunnel whose handshake names no site"))

    async def _begin_answer(self, relay: Relay, head: Head, target: Target, client: _Client) -> None:
        """Everything before the body of the answer."""
        relay.send_up(request_head(head, target))
        relay.carry_up(request_body_length(head))
        for _ in range(MAX_INTERIM_ANSWERS + 1):
            raw = await relay.read_answer_head()
            if raw is None:
                raise Failed(502, "the site closed without a response")
            answer_head = parse_response(raw)
            length = body_length(answer_head, head.method)
            if length is not None and length > self._settings.max_response_bytes:
                raise Excess("bytes")
            client.side.write(response_head(answer_head))
            client.is_answered = True
            if answer_head.status >= 200:
                relay.carry_down(length)
                return
        raise ConnectionError("the site announces an answer without end")

    def _beyond(self, target: Target, rule: str) -> Refusal:
        """The refusal of what goes beyond a limit."""
        return Refusal(target.host, target.port, rule, self._limit_of(rule))

    def _limit_of(self, rule: str) -> str:
        settings = self._settings
        details = {
            "bytes": f"more than {settings.max_response_bytes} bytes over one connection, or too many of one crawl",
            "time": f"more than {settings.max_connection_seconds:g} seconds over one connection",
            "requests": "too many requests of one crawl",
            "hosts": f"more than {settings.max_hosts_per_crawl} hosts in one crawl",
            "connections": f"more than {settings.max_connections_per_crawl} connections of one crawl at a time",
        }
        return details[rule]


def _literal(host: str) -> tuple[str, ...]:
    """The one address of a host that is written as one."""
    if host[-1:].isdecimal() or ":" in host:
        with contextlib.suppress(ValueError):
            return (str(ip_address(host)),)
    return ()


def _upstream_of(settings: EgressSettings) -> Upstream | None:
    url = settings.upstream_proxy_url
    return read_upstream(url.get_secret_value()) if url is not None else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, which relays at half the price, where there is one for the platform."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
