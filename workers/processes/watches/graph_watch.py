"""What the graph of a corpus lacks of its index is sent, whatever became of the events that were to bring it.

An event is missing where the graph or its pool was off, a run was cancelled, an event was parked, the parser is another
since an upgrade, or a corpus was rolled back or put in place from a copy. Of all processes of an instance one looks:
the one that gets a lease in the ledger. A corpus with work of the graph under way is left out, one in which nothing has
moved since it lacked nothing is not read again, and the same lag is sent once an hour: what cannot be read is not tried
without end.
"""

from __future__ import annotations

import secrets
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import structlog

from sluice.contracts.errors import Overloaded, SluiceError, Unavailable
from sluice.graph.extract.extract import what_is_missing
from sluice.otel import metrics
from sluice.workers.wiring.graph.directives import is_graphed
from sluice.workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.ledger.graph.rows import Totals
    from sluice.workers.context import Context
    from sluice.workers.service.graph.upkeep import GraphUpkeep

log = structlog.get_logger(__name__)

LOOK_SECONDS = 60.0
LEASE_SECONDS = 2 * LOOK_SECONDS
TOMBSTONES_FOR = timedelta(days=1)
"""How long a document that left is remembered: no handler works on one event for longer."""


class _Seen(NamedTuple):
    """What a corpus and its graph were when the graph lacked nothing."""

    journal_offset: int
    model: str | None
    totals: Totals
    published: str | None
    hour: str
    """A published file may be damaged without being seen to move: so all is looked at again each hour."""


class GraphWatch:
    """The look of one process after the graphs of its instance."""

    def __init__(self, context: Context, now: Callable[[], datetime] = utc_now) -> None:
        self._context = context
        self._now = now
        self._holder = secrets.token_hex(8)
        self._covered: dict[str, _Seen] = {}

    def look(self) -> None:
        """Send what graphs lack.

        Raises:
            Unavailable: the ledger or the broker does not answer; the next look tries again.
        """
        context = self._context
        is_on = context.settings.graph.enabled and what_is_missing() is None
        if not is_on or not context.ledger.lease("graph", self._holder, LEASE_SECONDS):
            return
        from sluice.workers.service.graph.upkeep import GraphUpkeep
        from sluice.workers.service.service import Service

        upkeep, behind, edges = GraphUpkeep(context, Service(context)), Counter[str](), 0
        for corpus in filter(is_graphed, context.readers.names()):
            behind.update(self._follow(upkeep, corpus))
            edges += context.ledger.graph.totals(corpus).edges
        for what in ("documents", "generation"):
            metrics.GRAPH_BEHIND.labels(what).set(behind[what])
        metrics.GRAPH_EDGES.set(edges)

    def _follow(self, upkeep: GraphUpkeep, corpus: str) -> dict[str, int]:
        """Send what the graph of a corpus lacks; how much that is."""
        graph = self._context.ledger.graph
        try:
            if self._covered.get(corpus) == self._seen(corpus):
                return {}
            if graph.has_work(corpus):
                return {"generation": upkeep.unpublished(corpus)}
            lag = upkeep.lag(corpus)
            if lag.is_ahead:
                log.warning("graph_ahead_of_index", corpus=corpus, journal_offset=lag.journal_offset)
                graph.forget_versions(corpus)
                lag = upkeep.lag(corpus)
            if lag.is_there:
                upkeep.bring_up(corpus, lag, once_per=self._hour)
                log.info("graph_followed", corpus=corpus, documents=len(lag.document_ids), changes=lag.unpublished)
            else:
                graph.drop_tombstones(corpus, (self._now() - TOMBSTONES_FOR).timestamp())
                self._covered[corpus] = self._seen(corpus)
        except Overloaded:  # its queue is full of what is to be done before
            return {}
        except Unavailable:
            raise
        except (SluiceError, OSError) as error:
            log.warning("graph_not_followed", corpus=corpus, error=str(error))
            return {}
        return {"documents": len(lag.document_ids), "generation": abs(lag.unpublished)}

    @property
    def _hour(self) -> str:
        return f"{self._now():%Y-%m-%dT%H}"

    def _seen(self, corpus: str) -> _Seen:
        reader = self._context.readers.reader(corpus)
        reader.reload()
        published = self._context.graphs.published_name(corpus)
        totals = self._context.ledger.graph.totals(corpus)
        return _Seen(reader.journal_offset, reader.model_fingerprint, totals, published, self._hour)
