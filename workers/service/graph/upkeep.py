"""How the graph of a corpus stands, and putting it right: status, catching up, reading it anew, and the proof."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import PolicyRefused
from sluice.contracts.graph.api import GraphProof, GraphStatus
from sluice.contracts.outcome import Next
from sluice.graph.cypher.engine_file import newest_files
from sluice.graph.extract.extract import parser_version, what_is_missing
from sluice.ledger.events.fair_queue import NO_KEY
from sluice.ledger.graph.rows import EMPTY_SHA256, row_sha256, sum_sha256
from sluice.workers.service.graph.readers import graphed_reader
from sluice.workers.service.graph.server_questions import version_on_graph_server
from sluice.workers.wiring.graph.directives import directives, nothing_but_published
from sluice.workers.wiring.graph.indexed import IndexedDocuments
from sluice.workers.wiring.graph.lag import GraphLag, measure_lag, published_in

if TYPE_CHECKING:
    from sluice.workers.context import Context
    from sluice.workers.service.caller import Caller
    from sluice.workers.service.service import Service
    from sluice.workers.wiring.corpora import Reader

SMALL_LAG = 100
"""Documents that may go before bulk: a second or so."""
MOST_NAMED = 100
"""Of documents that differ, so many are named."""


_OFF = "the graph is off (graph.enabled): what is published stays as it is"


class GraphUpkeep:
    """What operators, and the reconciler's process, do for the graphs of an instance."""

    def __init__(self, context: Context, service: Service) -> None:
        self._context = context
        self._service = service

    def status(self, corpus: str, caller: Caller) -> GraphStatus:
        """How the graph of a corpus stands.

        Raises:
            Forbidden: the corpus is not the caller's.
            NotFound: nothing was written to the corpus.
            InvalidInput: it is an agent's memory, which has no graph.
        """
        graphed_reader(self._context, corpus, caller)
        folder, totals = self._context.graphs.folder(corpus), self._context.ledger.graph.totals(corpus)
        generation, problem = published_in(folder)
        missing = what_is_missing()
        return GraphStatus(
            corpus=corpus,
            documents=totals.documents,
            edges=totals.edges,
            version=totals.version,
            graph_sha256=totals.sha256,
            parser_version="" if missing else parser_version(),
            generation=generation.name if generation else None,
            published_version=generation.version if generation else 0,
            published_nodes=generation.nodes if generation else 0,
            published_edges=generation.edges if generation else 0,
            published_at=generation.published_at if generation else None,
            cypher_version=max((found.version for found in newest_files(folder)), default=None),
            server_version=version_on_graph_server(self._context, corpus),
            problem=problem or (str(missing) if missing else None if self._context.settings.graph.enabled else _OFF),
        )

    def rebuild(self, corpus: str, caller: Caller) -> RunAccepted:
        """Have every document of the corpus read anew, and the graph published. Until then the old one answers.

        Raises:
            As `status`; PolicyRefused: the graph is off. Overloaded: its queue is full.
        """
        reader = graphed_reader(self._context, corpus, caller)
        if not self._context.settings.graph.enabled:
            raise PolicyRefused("graph", "the graph is off", "set graph.enabled = true")
        if missing := what_is_missing():
            raise missing
        self._context.ledger.graph.forget_versions(corpus)
        return self._begin(corpus, self._measured(corpus, reader), caller.owner)

    def lag(self, corpus: str) -> GraphLag:
        """What the graph of a corpus lacks of its index."""
        return self._measured(corpus, self._context.readers.existing(corpus))

    def unpublished(self, corpus: str) -> int:
        """Changes of a corpus's graph that are not published."""
        generation, _ = published_in(self._context.graphs.folder(corpus))
        version = self._context.ledger.graph.totals(corpus).version
        return max(0, version - (generation.version if generation else 0))

    def bring_up(self, corpus: str, lag: GraphLag, *, once_per: str) -> RunAccepted:
        """Send what the graph lacks. The same lag is sent once for each name `once_per`.

        Raises:
            Overloaded: the queue is full; says when to come back.
        """
        return self._begin(corpus, lag, NO_KEY, f"graph:{corpus}:{lag.digest}:{once_per}")

    def prove(self, corpus: str, caller: Caller) -> GraphProof:
        """Read every document of the index anew and compare what it states with the graph's rows. Writes nothing.

        Raises:
            As `status`.
        """
        indexed = IndexedDocuments(graphed_reader(self._context, corpus, caller))
        with self._context.ledger.graph.snapshot(corpus) as rows:
            summed, kept = rows.totals.sha256, {row.document_id: row_sha256(row) for row in rows.full_rows()}
        grown = sum_sha256(kept.values())
        rebuilt, documents, edges = EMPTY_SHA256, 0, 0
        differing = []
        for row in indexed.rows():
            sha256 = row_sha256(row)
            rebuilt, documents, edges = sum_sha256([sha256], rebuilt), documents + 1, edges + len(row.edges)
            if kept.pop(row.document_id, None) != sha256:
                differing.append(row.document_id)
        return GraphProof(
            corpus=corpus,
            documents=documents,
            edges=edges,
            grown_sha256=summed if grown == rebuilt else grown,
            rebuilt_sha256=rebuilt,
            differing=tuple((*differing, *kept)[:MOST_NAMED]),
        )

    def _measured(self, corpus: str, reader: Reader) -> GraphLag:
        return measure_lag(corpus, reader, self._context.ledger.graph, self._context.graphs.folder(corpus))

    def _begin(self, corpus: str, lag: GraphLag, owner: str, key: str | None = None) -> RunAccepted:
        run = self._service.new_run(
            "graph", corpus, owner=owner, idempotency_key=key, fingerprint=lag.digest if key else ""
        )
        run = replace(run, is_small=len(lag.document_ids) <= SMALL_LAG)
        first = [Next(one) for one in directives(lag.document_ids, lag.journal_offset)]
        return self._service.begin(run, first or [Next(nothing_but_published(lag.journal_offset))])
