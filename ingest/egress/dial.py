"""The way to a site: from the requested target to a connection with an address that was judged.

Name and port are judged → the name is resolved, once → every address is judged → a slot is taken → one of those
addresses is dialled, through the owner's proxy if there is one. Promises:

1. No name is looked up before it was judged, and only judged addresses are dialled. Within an account that
   has caps, a name keeps its first answer.
2. No slot is held while a name is looked up. It is given back when the connection ends, or fails.
3. The look-up and the connection share one time limit; waiting for a slot has the same limit for itself.
4. The owner's proxy gets CONNECT requests (RFC 9110, 9.3.6) to addresses that were judged here, never to
   names: it dials what was checked. Its password appears in no error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from ipaddress import ip_address

from sluice.contracts.errors import InvalidInput, InvalidSetting
from sluice.ingest.egress.crawl_account import USUAL_LIMITS, Account, EgressLimits, beyond
from sluice.ingest.egress.http_heads import BadHead, Failed, Refused, Target, parse_response
from sluice.ingest.egress.resolver import BoundedResolver, FairSlots, Resolver
from sluice.ingest.egress.rules import EgressRules, canonical_host
from sluice.ingest.egress.side import Side, dial
from sluice.ingest.settings import EgressSettings
from sluice.ingest.url import ProxyAddress


@dataclass(frozen=True, slots=True)
class Upstream:
    """The proxy of the owner's network, if all traffic must go through one."""

    address: ProxyAddress

    async def open_tunnel(self, proxy: Side, address: str, port: int, limit_seconds: float) -> Side:
        """Request a tunnel over a connection to the proxy. Returns that connection, which from now on is the site's.

        Raises Failed if the proxy refuses, breaks off or speaks no HTTP, TimeoutError if it does not answer in time.
        """
        authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        fields = (f"{name}: {value}" for name, value in self.address.headers.items())
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}", *fields]
        proxy.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        try:
            async with asyncio.timeout(limit_seconds):
                raw = await proxy.read_head()
            status = parse_response(raw).status if raw is not None else 0
        except (BadHead, ConnectionError) as error:
            raise self.failed(str(error) or type(error).__name__) from error
        if not 200 <= status < 300:
            raise self.failed(f"answers {status}" if status else "closes the connection")
        return proxy

    def failed(self, why: str) -> Failed:
        """Return the failure of this proxy, with its address."""
        return Failed(502, f"upstream proxy {self.address.host}:{self.address.port}: {why}")


def read_upstream(url: str) -> Upstream:
    """Read a proxy's URL, `http://user:password@proxy.corp:3128`.

    Raises InvalidSetting for any other; the error does not repeat it, as it may hold a password.
    """
    try:
        return Upstream(ProxyAddress.at(url, default_port=3128))
    except InvalidInput:
        remedy = "for instance http://user:password@proxy.corp:3128"
        raise InvalidSetting("egress.upstream_proxy_url", "is not the http:// address of a proxy", remedy) from None


class Dialler:
    """Connects to sites, `max_connections` at a time. Belongs to the event loop that calls it.

    Raises InvalidSetting if the setting of the owner's proxy is not a proxy URL.
    """

    def __init__(
        self,
        settings: EgressSettings,
        rules: EgressRules,
        resolver: Resolver | None = None,
        limits: EgressLimits = USUAL_LIMITS,
    ) -> None:
        self._limits = limits
        self._rules = rules
        self._resolver = resolver
        self._names = BoundedResolver(limits.resolver_threads)
        url = settings.upstream_proxy_url
        self._upstream = read_upstream(url.get_secret_value()) if url is not None else None
        self._fair_slots = FairSlots(limits.max_connections, per_target=limits.max_connections_per_host)

    @contextlib.asynccontextmanager
    async def reach(self, target: Target, account: Account) -> AsyncIterator[tuple[Target, Side]]:
        """Yield the judged target and a connection to it, on the account's behalf.

        At the end of the block the connection is broken off, and its slot is free. Raises Refused by the rules or the
        limits `hosts` and `connections`, and Failed if the target cannot be reached, or not in time.
        """
        refusal = self._rules.check_host(target.host, target.port, account.purpose)
        if refusal is not None:
            raise Refused(refusal)
        host = canonical_host(target.host)
        if host is not None and host != target.host:
            target = replace(target, host=host)
        started = asyncio.get_running_loop().time()
        addresses = await self._judged_addresses(target, account)
        left_seconds = self._limits.connect_timeout_seconds - (asyncio.get_running_loop().time() - started)
        await self._take_slot(target, account)
        try:
            site = await self._dial(target, addresses, left_seconds)
            account.reached(target.host)
            try:
                yield target, site
            finally:
                site.break_off()
        finally:
            self._fair_slots.give(account, target=target.host)

    async def _judged_addresses(self, target: Target, account: Account) -> tuple[str, ...]:
        """Return the addresses of a host after judging every one of them."""
        if not account.may_ask_for(target.host):
            raise Refused(beyond(target, "hosts", self._limits))
        addresses = literal(target.host) or await self._addresses(target, account)
        refusal = self._rules.check_addresses(target.host, target.port, addresses, account.purpose)
        if refusal is not None:
            raise Refused(refusal)
        return addresses

    async def _addresses(self, target: Target, account: Account) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(self._limits.connect_timeout_seconds):
                return await self._answer_for(target, account)
        except TimeoutError as error:
            raise Failed(504, "connect timeout") from error
        except (OSError, UnicodeError) as error:  # the latter: a label that no name server could hold
            raise Failed(502, "name not found") from error

    async def _answer_for(self, target: Target, account: Account) -> tuple[str, ...]:
        """Resolve the name; a capped account gets the answer of its first look-up."""
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

    async def _take_slot(self, target: Target, account: Account) -> None:
        """Take one of the connection slots."""
        at_most = account.caps.connections if account.caps else self._limits.max_connections
        if self._fair_slots.take_free(account, at_most=at_most, target=target.host):
            return
        try:
            async with asyncio.timeout(self._limits.connect_timeout_seconds):
                await self._fair_slots.take(account, at_most=at_most, target=target.host)
        except TimeoutError as error:
            if account.caps and self._fair_slots.held(account) >= at_most:
                raise Refused(beyond(target, "connections", self._limits)) from error
            raise Failed(503, "too many connections") from error

    async def _dial(self, target: Target, addresses: tuple[str, ...], limit_seconds: float) -> Side:
        """Connect to the first of the judged addresses that answers."""
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
                proxies = await self._names.look_up(
                    upstream.address.host, upstream.address.port, asker=upstream, absolute=False
                )
                side = await dial(proxies, upstream.address.port, limit_seconds)
        except TimeoutError as error:
            raise upstream.failed("connect timeout") from error
        except OSError as error:
            raise upstream.failed(f"connect: {error.strerror or type(error).__name__}") from error
        try:
            return await upstream.open_tunnel(side, address, port, limit_seconds)
        except BaseException:
            side.break_off()
            raise


def literal(host: str) -> tuple[str, ...]:
    """Return the address if `host` is one, else nothing."""
    if host[-1:].isdecimal() or ":" in host:
        with contextlib.suppress(ValueError):
            return (str(ip_address(host)),)
    return ()
