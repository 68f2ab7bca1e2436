"""Serves one client of the egress proxy, from its first byte to the end of its traffic.

The client shows its secret → its request is counted → host and port are read → the site is reached
(`ingest.egress.dial`) → bytes are relayed both ways. Promises:

1. No request is parsed further before it has shown a valid secret. Connections without one are few: one
   too many ends the oldest, so that a client that may not use the proxy cannot use up its sockets.
2. A failure on the way to a site gets an answer of ours. A failure after the site's answer has begun breaks the
   connection off, so that no client takes a part for the whole.
3. If a tunnel may lead to one site alone, nothing reaches the site before the handshake has named that site.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sluice.ingest.egress.crawl_account import Account, EgressLimits, beyond
from sluice.ingest.egress.dial import Dialler, literal
from sluice.ingest.egress.http_heads import (
    MALFORMED_RESPONSE,
    RECORD_HEADER_BYTES,
    BadHead,
    CutShort,
    Failed,
    Head,
    NoHello,
    Refused,
    Target,
    answer,
    body_length,
    parse_request,
    parse_response,
    read_target,
    record_length,
    request_body_length,
    request_head,
    response_head,
    server_name,
)
from sluice.ingest.egress.rules import EgressRules, Refusal, canonical_host
from sluice.ingest.egress.side import Excess, Relay, Side

MAX_UNAUTHENTICATED = 128
"""Most connections that have shown no secret; our clients do so within milliseconds."""


class Client:
    """A connection to the proxy, and the task that serves it."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.task: asyncio.Task[None] | None = None
        self.uploading: asyncio.Task[None] | None = None
        """Carries what the client sends to the site."""
        self.account: Account | None = None
        self.is_answered = False
        """Whether a site's answer has begun, so that one of ours would come too late."""

    def cut(self) -> None:
        """End the client's task and connection."""
        self.leave()
        self.side.break_off()

    def leave(self) -> None:
        """Cancel the task, since the other end has gone and waits for no answer."""
        if self.task is not None:
            self.task.cancel()


class Clients:
    """The connected clients."""

    def __init__(self) -> None:
        self._clients: set[Client] = set()
        self._unauthenticated: dict[Client, None] = {}

    def add(self, client: Client) -> None:
        """Add a client that has shown no secret yet."""
        self._clients.add(client)
        self._unauthenticated[client] = None
        if len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            oldest = next(iter(self._unauthenticated))
            del self._unauthenticated[oldest]
            oldest.cut()

    def recognise(self, client: Client) -> None:
        """Mark a client that has shown a valid secret."""
        self._unauthenticated.pop(client, None)

    def remove(self, client: Client) -> None:
        """Remove a client that has been served."""
        self._unauthenticated.pop(client, None)
        self._clients.discard(client)

    def of(self, account: Account) -> list[Client]:
        """Return the clients that showed the account's secret."""
        return [client for client in self._clients if client.account is account]

    def tasks(self) -> set[asyncio.Task[None] | None]:
        """Return the tasks that serve the clients."""
        return {task for client in self._clients for task in (client.task, client.uploading)}

    def cut(self) -> None:
        """End all clients."""
        for client in tuple(self._clients):
            client.cut()


REALM = "sluice"
MAX_INTERIM_ANSWERS = 8
"""Most 1xx responses before the real one; sites send one at most. They do not count as body bytes."""
MAX_CHALLENGES = 3
"""Most requests without a valid secret on one connection; a browser sends one and waits for the challenge."""


class RequestServer:
    """Serves clients, each in a task of its own.

    `account_of` returns the account whose secret is in a `Proxy-Authorization`, or None. `on_refusal` is called with
    the refusals that `Account.refused` returns.
    """

    def __init__(
        self,
        limits: EgressLimits,
        rules: EgressRules,
        dialler: Dialler,
        clients: Clients,
        *,
        account_of: Callable[[str], Account | None],
        on_refusal: Callable[[Refusal], None] | None = None,
    ) -> None:
        self._limits = limits
        self._rules = rules
        self._dialler = dialler
        self._clients = clients
        self._account_of = account_of
        self._on_refusal = on_refusal

    async def serve(self, client: Client) -> None:
        """Serve the client until it is done, or cancelled, then remove it from `self._clients`."""
        try:
            await self._serve_request(client)
        except OSError:  # the client reset, the site broke off, or both fell silent
            client.side.break_off()
        finally:
            client.side.close(self._limits.idle_timeout_seconds)
            self._clients.remove(client)
            if client.account is not None:
                client.account.end()

    async def _serve_request(self, client: Client) -> None:
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

    def _refuse(self, refusal: Refusal, client: Client) -> None:
        if client.account is not None:
            told = client.account.refused(refusal)
            if told is not None and self._on_refusal is not None:
                self._on_refusal(told)
        if client.is_answered:
            client.side.break_off()
            return
        reason = f"Refused {refusal.rule}: {refusal.detail}"
        client.side.write(answer(403, reason, {"X-Sluice-Refused": refusal.rule}, refusal.detail))

    async def _authenticated_head(self, client: Client) -> tuple[Head, Account] | None:
        """Return the first request with a valid secret, and its account; challenge others, as browsers expect."""
        for _ in range(MAX_CHALLENGES):
            async with asyncio.timeout(self._limits.idle_timeout_seconds):
                raw = await client.side.read_head()
            if raw is None:
                return None
            head = parse_request(raw)
            account = self._account_of(head.firsts.get("proxy-authorization", ""))
            if account is not None:
                self._clients.recognise(client)
                return head, account
            challenge = {"Proxy-Authenticate": f'Basic realm="{REALM}"'}
            again = not head.has_body
            client.side.write(answer(407, "Proxy Authentication Required", challenge, "", keep_open=again))
            if not again:
                return None
        return None

    async def _let_out(self, client: Client, head: Head, account: Account) -> None:
        client.account = account
        exceeded = account.begin()
        target = read_target(head)
        if exceeded:
            raise Refused(beyond(target, exceeded, self._limits))
        async with self._dialler.reach(target, account) as (reached, site):
            await self._carry(head, reached, client, site, account)

    # -- relaying -----------------------------------------------------------------------------

    async def _carry(self, head: Head, target: Target, client: Client, site: Side, account: Account) -> None:
        relay = Relay(client.side, site, self._limits, came_in=account.came_in, went_out=account.went_out)
        try:
            async with relay.limited():
                if head.method == "CONNECT":
                    await self._carry_tunnel(relay, target, client, account)
                else:
                    await self._carry_answer(relay, head, target, client)
        except Excess as error:
            raise Refused(beyond(target, error.rule, self._limits)) from error
        except TimeoutError as error:
            if client.is_answered:
                raise
            raise Failed(504, "no response in time") from error
        except (ConnectionError, CutShort) as error:
            if client.is_answered:
                raise
            raise Failed(502, "the site broke off") from error
        except BadHead as error:
            raise Failed(502, f"{MALFORMED_RESPONSE}: {error}") from error

    async def _carry_tunnel(self, relay: Relay, target: Target, client: Client, account: Account) -> None:
        client.side.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        client.is_answered = True
        if self._rules.wants_its_own_name(target.host, target.port, account.purpose):
            await self._check_hello(relay, target, client)
        client.uploading = relay.carry_up(None)
        await relay.carry_down(None)

    async def _check_hello(self, relay: Relay, target: Target, client: Client) -> None:
        """Refuse a tunnel unless its handshake names the judged site; nothing has reached the site by then."""
        try:
            start = await relay.read_client(RECORD_HEADER_BYTES)
            record = start + await relay.read_client(record_length(start) - len(start))
            named = server_name(record)
        except NoHello as error:
            raise Refused(Refusal(target.host, target.port, "domain", f"no TLS within the tunnel: {error}")) from error
        if named is not None and canonical_host(named) != target.host:
            detail = f"a tunnel to {target.host} that asks for another site"
            raise Refused(Refusal(target.host, target.port, "domain", detail))
        if named is None and not literal(target.host):
            raise Refused(Refusal(target.host, target.port, "domain", "a tunnel whose handshake names no site"))
        relay.send_up(record)

    async def _carry_answer(self, relay: Relay, head: Head, target: Target, client: Client) -> None:
        relay.send_up(request_head(head, target))
        client.uploading = relay.carry_up(request_body_length(head))
        for _ in range(MAX_INTERIM_ANSWERS + 1):
            raw = await relay.read_answer_head()
            if raw is None:
                raise Failed(502, "the site closed without a response")
            answer_head = parse_response(raw)
            length = body_length(answer_head, head.method)
            if length is not None and length > self._limits.max_response_bytes:
                raise Excess("bytes")
            client.side.write(response_head(answer_head))
            if answer_head.status >= 200:
                client.is_answered = True
                await relay.carry_down(length)
                return
        raise BadHead("interim responses without end")
