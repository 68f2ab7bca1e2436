"""Upkeep of a corpus's graph: status, catching up, reading it anew, and the proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import Corrupted, PolicyRefused
from sluice.contracts.graph.api import GraphProof, GraphStatus
from sluice.contracts.operations.forget import Trace
from sluice.contracts.outcome import Next
from sluice.graph.cypher.engine_file import newest_files
from sluice.graph.extract.extract import parser_version, what_is_missing
from sluice.graph.generations.publish import MANIFEST, Generation, open_generation
from sluice.ledger.events.fair_queue import NO_KEY
from sluice.ledger.graph.rows import EMPTY_SHA256, row_sha256, sum_sha256
from sluice.workers.service.graph.desk import graphed_reader, version_on_graph_server
from sluice.workers.wiring.graph.directives import directives, is_graphed, nothing_but_published
from sluice.workers.wiring.graph.documents import GraphLag, IndexedDocuments, measure_lag, published_in

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

    def every(self, caller: Caller) -> list[GraphStatus]:
        """How the graph of each corpus stands that the caller may see; agents' memories have none."""
        names = [name for name in self._context.readers.names() if is_graphed(name) and caller.may_see(name)]
        return [self.status(name, caller) for name in names]

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


MOST_NAMED_IN_A_PLACE = 20
"""Of what is found in one place, so many are named."""


def find_in_graph(context: Context, corpus: str, ids: frozenset[str]) -> Iterator[Trace]:
    """What the graph has of documents that are named, or that the index has no more."""
    with context.ledger.graph.snapshot(corpus) as rows:
        known = [one.document_id for one in rows.standing() if not one.is_tombstone]
    yield trace_of_graph(context, corpus, "graph rows", known, ids)
    folder = context.graphs.folder(corpus)
    for place in sorted(folder.glob("graph-*")):
        name = f"graph generation {place.name}"
        try:
            view = open_generation(folder, Generation.model_validate_json((place / MANIFEST).read_bytes()))
        except (OSError, ValidationError, Corrupted) as error:
            detail = f"it cannot be read, and goes with the next publishing: {error}"
            yield Trace(place=name, looked_at=0, found=("not looked into",), detail=detail)
        else:
            held = [view.node(number).key for number in range(view.documents)]
            yield trace_of_graph(context, corpus, name, held, ids)


def trace_of_graph(context: Context, corpus: str, place: str, held: list[str], ids: frozenset[str]) -> Trace:
    """What is held of documents that are named, or that the index has no more."""
    served = context.readers.reader(corpus).documents(held) if context.readers.exists(corpus) else {}
    found = sorted(one for one in held if one in ids or one not in served)
    return Trace(place=place, looked_at=len(held), found=first_names(found))


def first_names(names: Iterable[str]) -> tuple[str, ...]:
    """The first of the names, and how many there are more."""
    every = tuple(names)
    more = (f"and {len(every) - MOST_NAMED_IN_A_PLACE} more",) if len(every) > MOST_NAMED_IN_A_PLACE else ()
    return (*every[:MOST_NAMED_IN_A_PLACE], *more)
