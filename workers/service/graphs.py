"""The graphs of an instance: questions to them, their status, catching up with the index, and the proof.

Questions read the published generation. Cypher runs in a process of its own that may neither write nor reach the
network (docs/graph-cypher.md); the others read mapped files in this one.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import InvalidInput, InvalidQuestion, NotFound, PolicyRefused, SluiceError, Unavailable
from sluice.contracts.event import Next
from sluice.contracts.graph import api
from sluice.contracts.graph.model import EdgeType
from sluice.graph.arm import DAMAGED, NO_GRAPH
from sluice.graph.cypher.engine_file import newest_files
from sluice.graph.extract.extract import parser_version, what_is_missing
from sluice.graph.generations.view import GraphView
from sluice.graph.servers.server import GraphServer
from sluice.graph.walk.nodes import Direction
from sluice.ledger.events.outbox import NO_KEY
from sluice.ledger.graph.reading import EMPTY_SHA256, row_sha256, sum_sha256
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller
from sluice.workers.service.service import Service
from sluice.workers.wiring.corpora import Reader
from sluice.workers.wiring.graph_documents import GraphLag, IndexedDocuments, measure_lag, published_in
from sluice.workers.wiring.graphs import directives, is_graphed, nothing_but_published

SMALL_LAG = 100
"""Largest lag, in documents, that may precede bulk: a second or so of work."""
MOST_NAMED = 100
"""Most differing documents that a proof names."""
NO_SERVER = "no graph server is configured: set graph.url, or NEO4J_URI; without one the graph is in files"
_OFF = "the graph is off (graph.enabled): what is published stays as it is"
_OF_THE_FEEDING = frozenset({"owner", "as_of", "sha256", "embedding"})
"""Properties on a graph server that only its feed uses."""


class GraphDesk:
    """Answers callers' questions to the graphs, and maintains them for operators and the reconciler's process.

    Every call for a caller raises `Forbidden` where the corpus is not the caller's, `InvalidInput` where it is an
    agent's memory, which has no graph, and `NotFound` where nothing was written to it. A question also raises
    `NotFound` where the graph has not been published, or has no such node, and `Unavailable` where it is damaged.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def query(self, request: api.CypherRequest, caller: Caller) -> api.CypherResult:
        """Return the rows for a question in Cypher.

        Raises:
            InvalidQuestion: it cannot be read, or does more than read; names line and column.
            PolicyRefused: the file of the Cypher engine is not written, by `graph.cypher`.
            TimedOut, Overloaded: it took longer than its limit, or too many questions are being answered.
            NotFound: the request is for a graph server, and none is configured, or it was not fed with the corpus yet.
        """
        from sluice.graph.cypher.run import run_cypher

        self._reader(request.corpus, caller)
        if not request.server and not self._context.settings.graph.cypher:
            raise PolicyRefused("graph.cypher", "questions in Cypher are off", "set graph.cypher = true")
        try:
            with metrics.GRAPH_QUERY_SECONDS.labels("server" if request.server else "cypher").time():
                if request.server:
                    return self._asked_of_server(request)
                version = self._context.ledger.graph.totals(request.corpus).version
                return run_cypher(request, self._context.graphs.folder(request.corpus), version)
        except InvalidInput as error:
            if request.server and error.field not in ("query", "parameters"):
                raise
            raise InvalidQuestion(error.field, error.problem, error.remedy) from error

    def nearest(self, corpus: str, question: str, caller: Caller, *, top_k: int = 8) -> api.NearestDocuments:
        """Return the documents that the graph server finds nearest to a question by their vectors, and their links.

        Raises:
            NotFound: no graph server is configured.
            Unavailable: it does not answer, or the embedding model does not, or the corpus has no vectors.
        """
        reader = self._reader(corpus, caller)
        with metrics.GRAPH_QUERY_SECONDS.labels("nearest").time():
            server, model = _server_of(self._context), reader.model_fingerprint
            if model is None:
                raise Unavailable(f"corpus {corpus} has no vectors yet")
            vector = self._context.embedding.embed_question([question], model).vectors[0]
            return server.retrieve(corpus, vector.tolist(), model, top_k)

    def neighbours(
        self,
        corpus: str,
        named: str,
        caller: Caller,
        *,
        direction: Direction | None = None,
        types: Collection[EdgeType] = (),
        limit: int = 50,
        kind: api.DocumentKind | None = None,
    ) -> api.Neighbours:
        """Return a node's neighbours, surest first. Raises `InvalidInput`, listing all, if several have its name."""
        from sluice.graph.walk.nodes import neighbours

        self._reader(corpus, caller)
        with metrics.GRAPH_QUERY_SECONDS.labels("neighbours").time():
            return neighbours(self._view(corpus), named, limit, direction=direction, types=types, kind=kind)

    def linked(
        self,
        corpus: str,
        module: str,
        caller: Caller,
        *,
        failing: bool = True,
        top_k: int = 10,
        kind: api.DocumentKind | None = None,
    ) -> api.Linked:
        """Return the failing tests that touch a module, and the documents that are linked to these; without `failing`
        all tests that do."""
        from sluice.graph.walk.linked import linked

        self._reader(corpus, caller)
        with metrics.GRAPH_QUERY_SECONDS.labels("linked").time():
            return linked(self._view(corpus), module, failing_only=failing, top_k=top_k, kind=kind)

    def status(self, corpus: str, caller: Caller) -> api.GraphStatus:
        """Return the status of a corpus's graph."""
        self._reader(corpus, caller)
        folder, totals = self._context.graphs.folder(corpus), self._context.ledger.graph.totals(corpus)
        generation, problem = published_in(folder)
        missing = what_is_missing()
        return api.GraphStatus(
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
            server_version=self._version_on_server(corpus),
            problem=problem or (str(missing) if missing else None if self._context.settings.graph.enabled else _OFF),
        )

    def every(self, caller: Caller) -> list[api.GraphStatus]:
        """Return the status of each graph that the caller may see; agents' memories have none."""
        names = [name for name in self._context.readers.names() if is_graphed(name) and caller.may_see(name)]
        return [self.status(name, caller) for name in names]

    def rebuild(self, corpus: str, caller: Caller) -> RunAccepted:
        """Begin a run that reads the corpus anew and publishes its graph. Until then the old graph answers.

        Raises `PolicyRefused` if the graph is off, and `Overloaded` if its queue is full.
        """
        self._reader(corpus, caller)
        if not self._context.settings.graph.enabled:
            raise PolicyRefused("graph", "the graph is off", "set graph.enabled = true")
        if missing := what_is_missing():
            raise missing
        self._context.ledger.graph.forget_versions(corpus)
        return self._begin(corpus, self.lag(corpus), caller.owner)

    def lag(self, corpus: str) -> GraphLag:
        """Measure what the graph of a corpus lacks of its index."""
        reader = self._context.readers.existing(corpus)
        return measure_lag(corpus, reader, self._context.ledger.graph, self._context.graphs.folder(corpus))

    def unpublished(self, corpus: str) -> int:
        """Count the changes of a corpus's graph that are not published."""
        generation, _ = published_in(self._context.graphs.folder(corpus))
        version = self._context.ledger.graph.totals(corpus).version
        return max(0, version - (generation.version if generation else 0))

    def bring_up(self, corpus: str, lag: GraphLag, *, once_per: str) -> RunAccepted:
        """Begin a run that brings the graph what it lacks. The same lag is sent once for each name `once_per`.

        Raises:
            Overloaded: the queue is full; says when to come back.
        """
        return self._begin(corpus, lag, NO_KEY, f"graph:{corpus}:{lag.digest}:{once_per}")

    def prove(self, corpus: str, caller: Caller) -> api.GraphProof:
        """Read every document of the index anew and compare what it states with the graph's rows. Writes nothing."""
        indexed = IndexedDocuments(self._reader(corpus, caller))
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
        return api.GraphProof(
            corpus=corpus,
            documents=documents,
            edges=edges,
            grown_sha256=summed if grown == rebuilt else grown,
            rebuilt_sha256=rebuilt,
            differing=tuple((*differing, *kept)[:MOST_NAMED]),
        )

    def _reader(self, corpus: str, caller: Caller) -> Reader:
        """Return the index reader of a corpus that may have a graph."""
        caller.may_touch(corpus)
        if not is_graphed(corpus):
            raise InvalidInput("corpus", f"{corpus} is an agent's memory, which has no graph", "name another corpus")
        return self._context.readers.existing(corpus)

    def _view(self, corpus: str) -> GraphView:
        view, problem = self._context.graphs.arm(corpus).view()
        if view is not None:
            return view
        if problem == NO_GRAPH:
            raise NotFound(f"no graph of corpus {corpus!r} is published yet; see `sluice graph status`")
        raise Unavailable(f"{problem}; it is being made anew")

    def _version_on_server(self, corpus: str) -> int | None:
        """Return the version of the corpus's graph that the graph server was fed; None if it is unknown."""
        if self._context.graph_server is None:
            return None
        try:
            feed = self._context.graph_server.read_feed(corpus)
        except SluiceError:
            return None
        return feed.version if feed else None

    def _asked_of_server(self, request: api.CypherRequest) -> api.CypherResult:
        """Query the graph server; nodes and edges have the properties of the published file.

        The question passes the guard of the published file, in the server's dialect, before it is sent.
        """
        from sluice.graph.cypher.guard import guard
        from sluice.graph.cypher.parse import NEO4J

        began, server = time.monotonic(), _server_of(self._context)
        statement = guard(request.query, request.parameters, request.corpus, request.limit, NEO4J)
        feed = server.read_feed(request.corpus)
        if feed is None:
            raise NotFound(f"corpus {request.corpus!r} has not been fed to the graph server yet")
        found = server.query(statement.text, statement.parameters, statement.rows, request.timeout_seconds)
        return api.CypherResult(
            columns=statement.columns if statement.columns is not None else found.columns,
            rows=tuple(tuple(map(_shown, row)) for row in found.rows),
            is_cut=found.is_cut and statement.rows == request.limit,
            generation=f"server@{feed.version}",
            behind=max(0, self._context.ledger.graph.totals(request.corpus).version - feed.version),
            duration_ms=round((time.monotonic() - began) * 1_000, 3),
        )

    def _begin(self, corpus: str, lag: GraphLag, owner: str, key: str | None = None) -> RunAccepted:
        service, fingerprint = Service(self._context), lag.digest if key else ""
        is_small = len(lag.document_ids) <= SMALL_LAG
        run = service.new_run(
            "graph", corpus, owner=owner, idempotency_key=key, fingerprint=fingerprint, is_small=is_small
        )
        first = [Next(one) for one in directives(lag.document_ids, lag.journal_offset)]
        return service.begin(run, first or [Next(nothing_but_published(lag.journal_offset))])


def check_graph_server(context: Context) -> api.GraphServerHealth:
    """Ping the graph server, or open the files that serve the graph where none is configured.

    The message says which of them serves, and names the server's host and port; it holds no secret.
    """
    server = context.graph_server
    if server is None:
        names = [name for name in context.readers.names() if is_graphed(name)]
        broken = [name for name in names if context.graphs.arm(name).view()[1] == DAMAGED]
        if broken:
            return api.GraphServerHealth(status="unhealthy", message=f"{DAMAGED}: {', '.join(broken)}")
        return api.GraphServerHealth(status="healthy", message=f"{NO_SERVER}, which answer")
    try:
        server.ping()
    except SluiceError as error:
        return api.GraphServerHealth(status="unhealthy", message=str(error))
    return api.GraphServerHealth(status="healthy", message="Neo4j connection successful")


def _server_of(context: Context) -> GraphServer:
    if context.graph_server is None:
        raise NotFound(NO_SERVER)
    return context.graph_server


def _shown(value: Any) -> Any:
    """Return a cell without the properties that only the feed uses."""
    if isinstance(value, dict):
        own = _OF_THE_FEEDING if "label" in value or "type" in value else frozenset[str]()
        return {name: _shown(one) for name, one in value.items() if name not in own}
    return [_shown(one) for one in value] if isinstance(value, list) else value
