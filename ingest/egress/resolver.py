"""From names to addresses by the system's resolver, with a bounded number of threads.

The system's resolver blocks until it has an answer or gives up, which a silent name server can make half a minute.
So each question takes a thread, of which there are as many as configured. Promises:

1. No more than the configured number of names is looked up at a time.
2. One asker has at most a quarter of the threads, and the last quarter is for those who have none
   (`ingest.egress.fair_slots`): slow names of one crawl hold up its own, and not the others'.
3. Names are absolute: the system's search domains are not tried, unless the owner wrote the name himself.
4. Neither who gave up nor the end of the process waits for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from sluice.ingest.egress.fair_slots import FairSlots

Resolver = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""From host and port to every address of the host, in the order to be tried."""
Found = tuple[str, ...] | Exception


@dataclass(frozen=True, eq=False, slots=True)
class _Question:
    """A name that a thread is to look up, and where its answer goes."""

    name: str
    port: int
    settle: Callable[[Found], None]


class BoundedResolver:
    """Looks names up, `threads` at a time. Belongs to the event loop that asks it."""

    def __init__(self, threads: int) -> None:
        self._threads = FairSlots(threads)
        self._at_most = max(1, threads // 4)
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._started = 0
        self._busy = 0

    async def look_up(self, name: str, port: int, *, asker: Hashable, absolute: bool = True) -> tuple[str, ...]:
        """Every address of `name`, without repeats, in the order to be tried.

        `absolute`: as if it ended with a dot, so that search domains do not count, nor the system's file of hosts.

        Raises:
            OSError: the name is not known, or the resolver does not answer.
            UnicodeError: it cannot be a name.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[str, ...]] = loop.create_future()

        def settle(found: Found) -> None:
            self._busy -= 1
            self._threads.give(asker, target=name)
            if answer.done():
                return  # the caller gave up
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def tell(found: Found) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, found)

        await self._threads.take(asker, at_most=self._at_most, target=name)
        self._hand_over(_Question(name + "." if absolute else name, port, tell))
        return await answer

    def stop(self) -> None:
        """End the threads, each after the answer that it waits for."""
        for _ in range(self._started):
            self._questions.put(None)
        self._started = 0

    def _hand_over(self, question: _Question) -> None:
        self._busy += 1
        if self._busy > self._started:
            self._started += 1
            threading.Thread(target=_answer_all, args=(self._questions,), name="resolve", daemon=True).start()
        self._questions.put(question)


def _answer_all(questions: queue.SimpleQueue[_Question | None]) -> None:
    """A thread's life: until it is told that there will be no more."""
    while (question := questions.get()) is not None:
        question.settle(_look_up(question.name, question.port))


def _look_up(name: str, port: int) -> Found:
    try:
        entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return error
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in entries))
