"""A thread with an event loop, for callers that wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from sluice.contracts.errors import TimedOut, Unavailable

Given = TypeVar("Given")


class LoopThread:
    """Runs coroutines for other threads. Starts at the first; safe for threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def run(self, work: Coroutine[Any, Any, Given], timeout_seconds: float) -> Given:
        """What the coroutine gives. It is cancelled at the time limit.

        Raises:
            TimedOut: it took longer than that.
            Unavailable: the loop was closed.
        """
        try:
            loop = self._running()
        except Unavailable:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(timeout_seconds)
        except concurrent.futures.TimeoutError as error:
            if future.done():  # it was the work's own time-out
                raise
            future.cancel()
            raise TimedOut(f"the graph server did not answer within {timeout_seconds:g} s") from error

    def close(self, last: Coroutine[Any, Any, None], timeout_seconds: float) -> None:
        """Run the last coroutine, then end the thread."""
        with self._guard:
            self._is_closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            last.close()
            return
        future = asyncio.run_coroutine_threadsafe(last, loop)
        concurrent.futures.wait([future], timeout_seconds)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout_seconds)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._is_closed:
                raise Unavailable("the connection to the graph server was closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
