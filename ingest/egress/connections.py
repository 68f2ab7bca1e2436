"""The clients of the egress proxy, and which of them have yet to show a secret. Belongs to one event loop.

Connections without a secret are few: one too many ends the oldest. So a client that may not use the proxy cannot use
up its sockets.
"""

from __future__ import annotations

import asyncio

from sluice.ingest.egress.crawl_account import Account
from sluice.ingest.egress.side import Side

MAX_UNAUTHENTICATED = 128
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
        """The other end has gone: no answer is waited for."""
        if self.task is not None:
            self.task.cancel()


class Clients:
    """All that are connected."""

    def __init__(self) -> None:
        self._clients: set[Client] = set()
        self._unauthenticated: dict[Client, None] = {}

    def add(self, client: Client) -> None:
        """One more, which has shown no secret yet."""
        self._clients.add(client)
        self._unauthenticated[client] = None
        if len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            oldest = next(iter(self._unauthenticated))
            del self._unauthenticated[oldest]
            oldest.cut()

    def recognise(self, client: Client) -> None:
        """It has shown a right secret."""
        self._unauthenticated.pop(client, None)

    def remove(self, client: Client) -> None:
        """It has been served."""
        self._unauthenticated.pop(client, None)
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
