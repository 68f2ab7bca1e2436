"""Watches over the graphs of corpora: brings each up to date with its index, without holding up the events.

`GraphWatch` sends the documents that a graph lacks of its index, whatever became of their events. An event is missing
where the graph or its pool was off, a run was cancelled, an event was parked, an upgrade changed the parser, or a
corpus was rolled back or restored from a copy. One process of an instance does so: the one that holds a lease in the
ledger. A corpus with graph work under way is skipped, a complete one is not read again until something changes, and the
same lag is sent once an hour, so that an unreadable document is not retried without end.

`GraphServerFeed` copies the ledger's rows of the graph to a graph server. One worker of the stage does so:
the one that holds a lease in the ledger.

    the rows of a corpus change ──> the differences are sent, seconds later
    the server is away          ──> nothing waits for it and nothing is lost: the feed tries again and again
    it comes back, older or empty ──> the missing rows are sent

`CypherFiles` writes each published graph for the Cypher engine as well. One worker of the stage at a time writes in a
corpus: the one that holds a file lock there.

    a generation is published ──> its file is written, in a child process
    the child fails, or is too slow ──> the previous file answers questions; the next generation is tried
    a file does not open ──> its reader deletes it, and it is written again
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import structlog

from sluice.contracts.errors import InvalidSetting, Overloaded, PolicyRefused, SluiceError, Unavailable
from sluice.graph.cypher.build import DocumentFacts, build_in_child
from sluice.graph.cypher.engine_file import CypherFile, newest_files
from sluice.graph.extract.extract import what_is_missing
from sluice.graph.servers.server import GraphServer
from sluice.ledger.graph.reading import Totals
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.runtime.observers import utc_now
from sluice.workers.wiring.graph_documents import feed_server, published_in
from sluice.workers.wiring.graphs import is_graphed

if TYPE_CHECKING:
    from sluice.workers.service.graphs import GraphDesk

log = structlog.get_logger(__name__)

GRAPH_LOOK_SECONDS = 60.0
GRAPH_LEASE_SECONDS = 2 * GRAPH_LOOK_SECONDS
TOMBSTONES_FOR = timedelta(days=1)
"""Time for which a removed document's tombstone stays: no handler works on one event for longer."""


class _Seen(NamedTuple):
    """State of a corpus and its graph when the graph was complete."""

    journal_offset: int
    model: str | None
    totals: Totals
    published: str | None
    hour: str
    """A published file may be damaged without a visible change: so everything is checked again each hour."""


class GraphWatch:
    """One process's watch over the graphs of its instance."""

    def __init__(self, context: Context, now: Callable[[], datetime] = utc_now) -> None:
        self._context, self._now = context, now
        self._holder = secrets.token_hex(8)
        self._covered: dict[str, _Seen] = {}

    def look(self) -> None:
        """Send the documents that the graphs lack."""
        context = self._context
        is_on = context.settings.graph.enabled and what_is_missing() is None
        if not is_on or not context.ledger.lease("graph", self._holder, GRAPH_LEASE_SECONDS):
            return
        from sluice.workers.service.graphs import GraphDesk

        graphs, behind, edges = GraphDesk(context), Counter[str](), 0
        for corpus in filter(is_graphed, context.readers.names()):
            behind.update(self._follow(graphs, corpus))
            edges += context.ledger.graph.totals(corpus).edges
        for what in ("documents", "generation"):
            metrics.GRAPH_BEHIND.labels(what).set(behind[what])
        metrics.GRAPH_EDGES.set(edges)

    def _follow(self, graphs: GraphDesk, corpus: str) -> dict[str, int]:
        """Send the documents that the graph of a corpus lacks; return the lag in documents and unpublished changes."""
        graph = self._context.ledger.graph
        try:
            if self._covered.get(corpus) == self._seen(corpus):
                return {}
            if graph.has_work(corpus):
                return {"generation": graphs.unpublished(corpus)}
            lag = graphs.lag(corpus)
            if lag.is_ahead:
                log.warning("graph_ahead_of_index", corpus=corpus, journal_offset=lag.journal_offset)
                graph.forget_versions(corpus)
                lag = graphs.lag(corpus)
            if lag.is_there:
                graphs.bring_up(corpus, lag, once_per=self._hour)
                log.info("graph_followed", corpus=corpus, documents=len(lag.document_ids), changes=lag.unpublished)
            else:
                graph.drop_tombstones(corpus, (self._now() - TOMBSTONES_FOR).timestamp())
                self._covered[corpus] = self._seen(corpus)
        except Overloaded:  # its queue is full of earlier work
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


SERVER_LOOK_SECONDS = 2.0
PASS_SECONDS = 30.0
"""Seconds spent on one corpus before the next has its turn."""
LOOK_AGAIN_SECONDS = 300.0
"""Seconds until a complete server is checked again: it may have been restored to an older state."""
AWAY_SECONDS = 15.0
"""Seconds until a server that did not answer is tried again."""
REFUSED_SECONDS = 120.0
"""Seconds until a server is tried again that refused the password, or that the rules forbid to reach."""
SERVER_LEASE_SECONDS = 60.0
SERVER_REST = 5.0
"""A corpus rests for so many times as long as its last pass took, so that indexing keeps most of the machine."""


class _Standing(NamedTuple):
    """State of a corpus in the ledger and the index."""

    totals: Totals
    model: str | None


class GraphServerFeed:
    """One process's feed."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._holder = secrets.token_hex(8)
        self._level: dict[str, tuple[_Standing, float]] = {}
        """For each corpus, its state when the server had all of it, and when that was."""
        self._resting: dict[str, float] = {}
        """The time until which each corpus rests."""
        self._not_before = 0.0
        self._told = ""

    def look(self) -> None:
        """Send the rows that the server lacks."""
        server = self._context.graph_server
        if server is None or self._clock() < self._not_before:
            return
        corpora = [one for one in self._context.readers.names() if is_graphed(one)]
        for corpus in corpora:
            if self._is_due(corpus):
                if not self._context.ledger.lease("graph-server", self._holder, SERVER_LEASE_SECONDS):
                    return
                if not self._feed(corpus, server):
                    break
        had = {corpus: standing.totals.version for corpus, (standing, _) in self._level.items()}
        versions = {corpus: self._context.ledger.graph.totals(corpus).version for corpus in corpora}
        behind = sum(max(0, version - had.get(corpus, 0)) for corpus, version in versions.items())
        metrics.GRAPH_BEHIND.labels("server").set(behind)

    def _is_due(self, corpus: str) -> bool:
        if self._clock() < self._resting.get(corpus, 0.0):
            return False
        if corpus not in self._level:
            return True
        stood, at = self._level[corpus]
        return stood != self._standing(corpus) or self._clock() - at >= LOOK_AGAIN_SECONDS

    def _standing(self, corpus: str) -> _Standing:
        reader = self._context.readers.reader(corpus)
        return _Standing(self._context.ledger.graph.totals(corpus), reader.model_fingerprint)

    def _feed(self, corpus: str, server: GraphServer) -> bool:
        """Send a corpus's rows; return whether the server answered."""
        began = self._clock()
        reader, before = self._context.readers.reader(corpus), self._standing(corpus)
        reader.reload()

        def go_on() -> None:
            self._context.ledger.lease("graph-server", self._holder, SERVER_LEASE_SECONDS)

        try:
            done = feed_server(
                corpus, server, self._context.ledger.graph, reader, seconds=PASS_SECONDS, before_portion=go_on
            )
        except SluiceError as error:
            self._put_off(corpus, server, error)
            return False
        self._told = ""
        self._resting[corpus] = self._clock() + SERVER_REST * (self._clock() - began)
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
        """Delay the next try; logs the same error once."""
        is_refused = isinstance(error, InvalidSetting | PolicyRefused)
        if not is_refused and not isinstance(error, Unavailable):
            raise error
        self._not_before = self._clock() + (REFUSED_SECONDS if is_refused else AWAY_SECONDS)
        if str(error) != self._told:
            self._told = str(error)
            log.warning("graph_server_not_fed", corpus=corpus, server=server.place, error=str(error))


CYPHER_LOOK_SECONDS = 2.0
WRITE_SECONDS = 600.0
"""Seconds after which a child is killed: fifty times what 100,000 nodes take."""
REST = 9.0
"""A corpus rests for so many times as long as its last file took: a tenth of the time is spent on writing."""
FAILED_SECONDS = 300.0
"""Seconds until a generation that could not be written is tried again."""


class CypherFiles:
    """One process's writer of Cypher files."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.time) -> None:
        self._context, self._clock = context, clock
        self._failed: dict[str, tuple[str, float]] = {}
        """For each corpus, the generation that could not be written, and until when it rests."""

    def look(self) -> None:
        """Write the missing files."""
        behind = 0
        for corpus in filter(is_graphed, self._context.readers.names()):
            folder = self._context.graphs.folder(corpus)
            generation, _ = published_in(folder)
            if generation is None:
                continue
            newest = next(iter(newest_files(folder)), None)
            if (newest is None or newest.generation != generation.name) and self._is_due(
                corpus, generation.name, newest
            ):
                newest = self._write(corpus, generation.name) or newest
            behind += max(0, generation.version - (newest.version if newest else 0))
        metrics.GRAPH_BEHIND.labels("cypher").set(behind)

    def _is_due(self, corpus: str, generation: str, newest: CypherFile | None) -> bool:
        name, until = self._failed.get(corpus, ("", 0.0))
        if name == generation and self._clock() < until:
            return False
        return newest is None or not 0 <= self._clock() - newest.written_at < REST * newest.seconds

    def _write(self, corpus: str, generation: str) -> CypherFile | None:
        began = time.monotonic()
        facts = self._facts(corpus)
        try:
            written = build_in_child(self._context.graphs.folder(corpus), WRITE_SECONDS, corpus=corpus, facts=facts)
        except (SluiceError, OSError) as error:
            self._failed[corpus] = generation, self._clock() + FAILED_SECONDS
            log.warning("cypher_file_not_written", corpus=corpus, generation=generation, error=str(error))
            return None
        if written is not None:
            metrics.GRAPH_PUBLISH_SECONDS.labels("cypher").observe(time.monotonic() - began)
            log.info("cypher_file_written", corpus=corpus, generation=written.generation, version=written.version)
        return written

    def _facts(self, corpus: str) -> dict[str, DocumentFacts]:
        """Return the facts of documents that the generation lacks, as the index and the ledger have them now."""
        reader = self._context.readers.reader(corpus)
        reader.reload()
        model = reader.model_fingerprint
        with self._context.ledger.graph.snapshot(corpus) as rows:
            written = dict(rows.updated_at())
        return {
            facts.document_id: DocumentFacts(facts.language, facts.checksum, model, _told(written, facts.document_id))
            for facts in reader.all_facts()
        }


def _told(written: dict[str, float], document_id: str) -> str | None:
    at = written.get(document_id)
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
