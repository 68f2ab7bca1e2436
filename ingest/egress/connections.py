"""Who is connected to the egress proxy, and who of them has yet to show a secret. Belongs to one event loop.

Strangers are few: where one comes too many, the oldest makes way. So who may not use the proxy cannot use up its
sockets.
"""

from __future__ import annotations

import asyncio

from ingest.egress.crawl_account import Account
from ingest.egress.side import Side

MAX_STRANGERS = 128
"""Connections that have shown no secret; clients of ours do so within milliseconds."""


class Client:
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


class Clients:
    """All that are connected."""

    def __init__(self) -> None:
        self._clients: set[Client] = set()
        self._strangers: dict[Client, None] = {}

    def add(self, client: Client) -> None:
        """One more, who is a stranger yet."""
        self._clients.add(client)
        self._strangers[client] = None
        if len(self._strangers) > MAX_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cut()

    def recognise(self, client: Client) -> None:
        """It has shown a right secret."""
        self._strangers.pop(client, None)

    def remove(self, client: Client) -> None:
        """It has been served."""
        self._strangers.pop(client, None)
        self._clients.discard(client)

    def of(self, account: Account) -> list[Client]:
        """Those that an account's secret was shown by."""
        return [client for client in self._clients if client.account is account]

    def tasks(self) -> set[asyncio.Task[None] | None]:
        """What serves them."""
        return {client.task for client in self._clients}

    def cut(self) -> None:
        """End them all."""
        for client in tuple(self._clients):
            client.cut()
