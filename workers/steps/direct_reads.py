"""Direct queries in a query worker. A query for a journal offset that is not covered yet holds no thread.

It waits in a list that one thread watches, and goes back to the queue once what is served covers its offset. An offset
beyond the end of the journal is refused at once: no wait would help.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from sluice.contracts.errors import InvalidInput, Overloaded, SluiceError, Unavailable
from sluice.contracts.retrieval import Query
from sluice.index.disk.layout import CorpusLayout
from sluice.index.journal.journal import JournalTail
from sluice.workers.broker.direct_query import bad_reply
from sluice.workers.broker.transport import ReadRequest
from sluice.workers.context import Context
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.wiring.inject import assemble

log = structlog.get_logger(__name__)

MOST_WAITING = 1_000
"""Queries that may wait in one process: some megabytes."""
LOOK_SECONDS = 0.02
"""Pause between two looks at a list that is not empty: a few reads of memory for each query."""
REPLY_MARGIN_SECONDS = 0.5
"""Time before its caller gives up at which a waiting query is refused."""


class _Waiting(NamedTuple):
    request: ReadRequest
    until: float

    @property
    def corpus(self) -> str:
        return self.request.query.corpus


class DirectReads:
    """Answers direct queries, refuses them, or lets them wait. Safe across threads."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.time) -> None:
        self._context = context
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()

    def take(self, request: ReadRequest) -> None:
        """Reply to a query, or put it on the list of those that wait. Raises what the broker raises."""
        try:
            if not self._is_covered(request):
                self._wait_with(request)
                return
            reply = self._answer(request.query)
        except SluiceError as error:
            reply = bad_reply(error)
        except Exception as error:
            log.error("read_failed", error=repr(error), exc_info=error)
            reply = bad_reply(SluiceError("the query worker failed; its log has the trace"))
        self._context.transport.reply(request.reply_key, reply)

    def look_after_waiting(self, stopping: threading.Event) -> None:
        """Send covered queries back to the queue and refuse those that waited too long, until `stopping` is set."""
        while not stopping.is_set():
            with self._changed:
                if not self._waiting:
                    self._changed.wait(1.0)
            self.look()
            stopping.wait(LOOK_SECONDS)

    def look(self) -> None:
        """Check every waiting query once."""
        waiting = tuple(self._waiting)
        covered = {
            corpus: self._context.readers.reader(corpus).journal_offset for corpus in {one.corpus for one in waiting}
        }
        for one in waiting:
            if self._has_gone_on(one, covered[one.corpus]):
                with self._changed:
                    self._waiting.remove(one)

    def _has_gone_on(self, waiting: _Waiting, covered: int) -> bool:
        transport, query = self._context.transport, waiting.request.query
        if covered >= query.minimum_journal_offset:
            transport.put_back_read(waiting.request)
        elif self._clock() >= waiting.until:
            told = f"corpus {query.corpus} covers journal offset {covered}, not yet {query.minimum_journal_offset}"
            transport.reply(waiting.request.reply_key, bad_reply(Unavailable(told)))
        else:
            return False
        return True

    def _is_covered(self, request: ReadRequest) -> bool:
        wanted, corpus = request.query.minimum_journal_offset, request.query.corpus
        covered = self._context.readers.existing(corpus).journal_offset
        if wanted <= covered:
            return True
        end = max(covered, self._journal_end(corpus))
        if wanted > end:
            raise InvalidInput(
                "minimum_journal_offset",
                f"{wanted} is beyond the journal of corpus {corpus}, which ends at {end}",
                "send the journal_offset of a finished run",
            )
        return False

    def _answer(self, query: Query) -> bytes:
        context = self._context
        return assemble(Retriever, context).read(query, context.tokenizer, context.flags.switched_off())

    def _journal_end(self, corpus: str) -> int:
        journal = JournalTail(CorpusLayout(self._context.settings.index_root, corpus).journal, 0)
        try:
            return journal.durable_offset()
        finally:
            journal.close()

    def _wait_with(self, request: ReadRequest) -> None:
        from sluice.index.search.reader import RELOAD_TIMEOUT_SECONDS

        until = min(request.expires_at - REPLY_MARGIN_SECONDS, self._clock() + RELOAD_TIMEOUT_SECONDS)
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                raise Overloaded(f"{MOST_WAITING} queries wait for a journal offset in this worker: come back later")
            self._waiting.append(_Waiting(request, until))
            self._changed.notify()
