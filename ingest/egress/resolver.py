"""Resolves names to addresses by the system's resolver, on a bounded number of threads that are shared fairly.

The system's resolver blocks until it has an answer or gives up, which a silent name server can make half a minute.
So each question takes a thread, up to the configured number. Promises:

1. No more than the configured number of names is looked up at a time.
2. One asker has at most a quarter of the threads, and the last quarter is for askers that hold none: slow names of
   one crawl delay that crawl only.
3. Names are absolute: the system's search domains are not tried, unless the owner configured the name.
4. Neither a caller that gave up nor the end of the process waits for an answer.

`FairSlots` shares the threads here and the connections of the proxy (`ingest.egress.dial`) among crawls that do not
know each other, of which one may be hostile: it limits the slots in total, per holder and per target; the last
quarter is for holders that have none; a free slot goes to the waiting holder
with the fewest slots, among equals to the first that came.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class _Waiting:
    """A holder that waits for a slot."""

    holder: Hashable
    at_most: int
    target: Hashable
    granted: asyncio.Future[None]


class FairSlots:
    """A pool of `total` slots, at most `per_target` for one target. Belongs to one event loop."""

    def __init__(self, total: int, *, per_target: int | None = None) -> None:
        self._total = total
        self._reserved = total // 4
        self._per_target = per_target or total
        self._taken = 0
        self._held: Counter[Hashable] = Counter()
        self._targets: Counter[Hashable] = Counter()
        self._waiting: list[_Waiting] = []

    def held(self, holder: Hashable) -> int:
        """Return how many slots a holder has."""
        return self._held.get(holder, 0)

    def take_free(self, holder: Hashable, *, at_most: int, target: Hashable) -> bool:
        """Take a slot if no holder waits for one; False if there is none. The caller gives the slot back."""
        if self._waiting or not self._may(holder, at_most, target):
            return False
        self._count(holder, target, 1)
        return True

    async def take(self, holder: Hashable, *, at_most: int, target: Hashable) -> None:
        """Wait for a slot; `holder` has no more than `at_most` of them. The caller gives the slot back."""
        if self.take_free(holder, at_most=at_most, target=target):
            return
        wanted = _Waiting(holder, at_most, target, asyncio.get_running_loop().create_future())
        self._waiting.append(wanted)
        self._grant()
        try:
            await wanted.granted
        except asyncio.CancelledError:
            if wanted in self._waiting:
                self._waiting.remove(wanted)
            else:  # granted and given up at the same moment
                self.give(holder, target=target)
            raise

    def give(self, holder: Hashable, *, target: Hashable) -> None:
        """Give a slot back, and hand it on."""
        self._count(holder, target, -1)
        self._grant()

    def _grant(self) -> None:
        while admissible := [one for one in self._waiting if self._may(one.holder, one.at_most, one.target)]:
            next_one = min(admissible, key=lambda one: self.held(one.holder))
            self._waiting.remove(next_one)
            self._count(next_one.holder, next_one.target, 1)
            next_one.granted.set_result(None)

    def _may(self, holder: Hashable, at_most: int, target: Hashable) -> bool:
        held = self.held(holder)
        room = self._total - self._taken - (self._reserved if held else 0)
        return room > 0 and held < at_most and self._targets.get(target, 0) < self._per_target

    def _count(self, holder: Hashable, target: Hashable, change: int) -> None:
        self._taken += change
        for counts, key in ((self._held, holder), (self._targets, target)):
            counts[key] += change
            if not counts[key]:
                del counts[key]


Resolver = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""Maps host and port to every address of the host, in the order to be tried."""
Found = tuple[str, ...] | Exception


class BoundedResolver:
    """Looks names up, each in a thread of its own, `threads` at a time. Belongs to the event loop that calls it."""

    def __init__(self, threads: int) -> None:
        self._threads = FairSlots(threads)
        self._at_most = max(1, threads // 4)

    async def look_up(self, name: str, port: int, *, asker: Hashable, absolute: bool = True) -> tuple[str, ...]:
        """Return every address of `name`, without repeats, in the order to be tried.

        With `absolute` search domains and the hosts file do not apply, as if the name ended with a dot. Raises OSError
        if the name is not known or the resolver does not answer, UnicodeError if it cannot be a name.
        """
        await self._threads.take(asker, at_most=self._at_most, target=name)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

        def settle(found: Found) -> None:
            self._threads.give(asker, target=name)
            if answer.done():
                return  # the caller gave up
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def ask() -> None:
            found = _addresses(name + "." if absolute else name, port)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=ask, name="resolve", daemon=True).start()
        return await answer


def _addresses(name: str, port: int) -> Found:
    try:
        entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return error
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
