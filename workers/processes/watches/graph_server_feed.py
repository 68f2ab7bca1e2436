"""A graph server is kept where the ledger's rows of the graph are, beside the events and never in their way.

    the rows of a corpus change ──> what differs is sent, seconds later
    the server is away          ──> nothing waits for it and nothing is lost: it is tried again, and again
    it comes back, older or empty ──> what it lacks is sent

Of all workers of the stage one feeds: the one that gets a lease in the ledger.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from sluice.contracts.errors import InvalidSetting, PolicyRefused, SluiceError, Unavailable
from sluice.otel import metrics
from sluice.workers.steps.graph.server import feed_server
from sluice.workers.wiring.graph.directives import is_graphed

if TYPE_CHECKING:
    from sluice.graph.servers.server import GraphServer
    from sluice.ledger.graph.rows import Totals
    from sluice.workers.context import Context

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
PASS_SECONDS = 30.0
"""Of one corpus before the next has its turn."""
LOOK_AGAIN_SECONDS = 300.0
"""Until a server that had everything is asked whether it still has: it may have been set back."""
AWAY_SECONDS = 15.0
"""Until a server that did not answer is tried again."""
REFUSED_SECONDS = 120.0
"""Until one is tried again that refused the password, or that the rules forbid to reach."""
LEASE_SECONDS = 60.0
REST = 5.0
"""A corpus rests for so many times as long as its last pass took: while much is indexed, reading it has the machine."""


class _Standing(NamedTuple):
    """Where the truth about a corpus is."""

    totals: Totals
    model: str | None


class GraphServerFeed:
    """The feeding by one process."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        self._clock = clock
        self._holder = secrets.token_hex(8)
        self._level: dict[str, tuple[_Standing, float]] = {}
        """Of each corpus, where it stood when the server had all of it, and when that was."""
        self._resting: dict[str, float] = {}
        """Until when each corpus rests."""
        self._not_before = 0.0
        self._told = ""

    def look(self) -> None:
        """Send what the server lacks.

        Raises:
            Unavailable: the ledger or the index does not answer.
        """
        server = self._context.graph_server
        if server is None or self._clock() < self._not_before:
            return
        corpora = [one for one in self._context.readers.names() if is_graphed(one)]
        for corpus in corpora:
            if self._is_due(corpus):
                if not self._context.ledger.lease("graph-server", self._holder, LEASE_SECONDS):
                    return
                if not self._feed(corpus, server):
                    break
        metrics.GRAPH_BEHIND.labels("server").set(sum(map(self._behind, corpora)))

    def _is_due(self, corpus: str) -> bool:
        if self._clock() < self._resting.get(corpus, 0.0):
            return False
        if corpus not in self._level:
            return True
        stood, at = self._level[corpus]
        return stood != self._standing(corpus) or self._clock() - at >= LOOK_AGAIN_SECONDS

    def _behind(self, corpus: str) -> int:
        had = self._level[corpus][0].totals.version if corpus in self._level else 0
        return max(0, self._context.ledger.graph.totals(corpus).version - had)

    def _standing(self, corpus: str) -> _Standing:
        reader = self._context.readers.reader(corpus)
        return _Standing(self._context.ledger.graph.totals(corpus), reader.model_fingerprint)

    def _feed(self, corpus: str, server: GraphServer) -> bool:
        """Whether the server answered."""
        began = self._clock()
        reader, before = self._context.readers.reader(corpus), self._standing(corpus)
        reader.reload()

        def go_on() -> None:
            self._context.ledger.lease("graph-server", self._holder, LEASE_SECONDS)

        try:
            done = feed_server(
                corpus, server, self._context.ledger.graph, reader, seconds=PASS_SECONDS, before_portion=go_on
            )
        except SluiceError as error:
            self._put_off(corpus, server, error)
            return False
        self._told = ""
        self._resting[corpus] = self._clock() + REST * (self._clock() - began)
        if done.is_level:
            self._level[corpus] = before, self._clock()
        if done.fed.stored or done.fed.removed or not done.is_level:
            log.info(
                "graph_server_fed",
                corpus=corpus,
                version=done.totals.version,
                stored=done.fed.stored,
                removed=done.fed.removed,
                is_level=done.is_level,
            )
        return True

    def _put_off(self, corpus: str, server: GraphServer, error: SluiceError) -> None:
        """Try again later; the same trouble is told once."""
        is_refused = isinstance(error, InvalidSetting | PolicyRefused)
        if not is_refused and not isinstance(error, Unavailable):
            raise error
        self._not_before = self._clock() + (REFUSED_SECONDS if is_refused else AWAY_SECONDS)
        if str(error) != self._told:
            self._told = str(error)
            log.warning("graph_server_not_fed", corpus=corpus, server=server.place, error=str(error))
