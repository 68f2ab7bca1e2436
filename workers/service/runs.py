"""Runs, as far as a caller may see them; and waiting for one without asking again and again.

An announcement wakes what waits. It is a hint: what waits looks into the ledger first, and again now and then, so a
lost announcement costs `PATIENCE_SECONDS` and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from sluice.contracts.api import RunKind, RunStatus, RunView
from sluice.contracts.errors import NotFound
from sluice.ledger.ledger import Ledger, RunSummary
from sluice.workers.broker.keys import announced_channel
from sluice.workers.service.caller import Caller
from sluice.workers.settings import Settings

__all__ = ["RunSummary", "Runs"]


class Runs:
    """What can be asked about the runs of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def one(self, run_id: str, caller: Caller) -> RunView:
        """Everything about a run.

        Raises:
            NotFound: there is no such run, or it is not the caller's to see.
        """
        run = self._ledger.run(run_id)
        if not caller.may_see(run.corpus):
            raise NotFound(f"no run {run_id}")
        return run

    def recent(
        self, caller: Caller, corpus: str | None, status: RunStatus | None, limit: int, kind: RunKind | None = None
    ) -> list[RunSummary]:
        """Runs of one corpus, or of all that the caller may touch, the newest first.

        Raises:
            Forbidden: the corpus is not the caller's.
        """
        if corpus is not None:
            caller.may_touch(corpus)
        wanted = [corpus] if corpus is not None or caller.corpora is None else sorted(caller.corpora)
        found = [run for one in wanted for run in self._ledger.runs(limit=limit, corpus=one, status=status, kind=kind)]
        return sorted(found, key=lambda run: run.run_id, reverse=True)[:limit]


log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 0.5


class Announcements:
    """One subscription for the whole process, shared by all that wait."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Begin to listen, in the running loop."""
        self._task = asyncio.create_task(self._listen(), name="announcements")

    async def stop(self) -> None:
        """Stop listening."""
        self._stopping = True
        # A connection that is being opened or closed can swallow a cancellation.
        while self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)

    @contextmanager
    def of(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something of the run was recorded."""
        news = asyncio.Event()
        self._waiting[run_id].add(news)
        try:
            yield news
        finally:
            self._waiting[run_id].discard(news)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    async def _listen(self) -> None:
        while not self._stopping:
            try:
                await self._follow()
            except (RedisError, OSError) as error:
                log.info("announcements_lost", error=repr(error))
                await asyncio.sleep(PATIENCE_SECONDS)

    async def _follow(self) -> None:
        client = redis.asyncio.Redis.from_url(self._settings.broker_location, socket_connect_timeout=2)
        async with client, client.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(announced_channel(self._settings.instance))
            async for message in subscription.listen():
                for news in self._waiting.get(json.loads(message["data"])["run_id"], ()):
                    news.set()


async def news_or_patience(news: asyncio.Event, seconds: float = PATIENCE_SECONDS) -> None:
    """Return when there is news, or when patience ends."""
    try:
        await asyncio.wait_for(news.wait(), seconds)
    except TimeoutError:
        return
    finally:
        news.clear()
