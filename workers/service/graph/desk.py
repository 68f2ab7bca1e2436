"""Questions to the graph of a corpus: in Cypher, what is next to a node, what is linked to a failing test.

They read the published generation. Cypher runs in a process of its own that may neither write nor reach the network
(docs/graph-cypher.md); the others read mapped files in this one.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from sluice.contracts.errors import InvalidInput, InvalidQuestion, NotFound, PolicyRefused, SluiceError, Unavailable
from sluice.contracts.graph.api import (
    CypherRequest,
    CypherResult,
    GraphServerHealth,
    Linked,
    NearestDocuments,
    Neighbours,
)
from sluice.contracts.graph.model import EdgeType
from sluice.otel import metrics
from sluice.workers.wiring.graph.directives import is_graphed

if TYPE_CHECKING:
    from sluice.graph.generations.view import GraphView
    from sluice.graph.servers.server import GraphServer
    from sluice.graph.walk.nodes import Direction
    from sluice.workers.context import Context
    from sluice.workers.service.caller import Caller
    from sluice.workers.wiring.corpora import Reader


def graphed_reader(context: Context, corpus: str, caller: Caller) -> Reader:
    """What reads the index of a corpus that may have a graph.

    Raises:
        Forbidden: the corpus is not the caller's.
        InvalidInput: it is an agent's memory, which has no graph.
        NotFound: nothing was written to the corpus.
    """
    caller.may_touch(corpus)
    if not is_graphed(corpus):
        raise InvalidInput("corpus", f"{corpus} is an agent's memory, which has no graph", "name another corpus")
    return context.readers.existing(corpus)


class GraphDesk:
    """What may be asked of the graphs of an instance. Every call raises:

    Forbidden: the corpus is not the caller's. NotFound: nothing was written to the corpus, its graph has not been
    published, or has no such node. Unavailable: the graph is damaged, and is being made anew.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def query(self, request: CypherRequest, caller: Caller) -> CypherResult:
        """The rows for a question in Cypher.

        Raises:
            InvalidQuestion: it cannot be read, or asks for more than reading; names line and column.
            PolicyRefused: the file of the Cypher engine is not written, by `graph.cypher`.
            TimedOut, Overloaded: it took longer than it may, or as many questions as may are being answered.
            NotFound: a graph server was asked for, and none is configured, or it was not fed with the corpus yet.
        """
        graphed_reader(self._context, request.corpus, caller)
        if request.server:
            with metrics.GRAPH_QUERY_SECONDS.labels("server").time():
                return query_graph_server(self._context, request)
        if not self._context.settings.graph.cypher:
            raise PolicyRefused("graph.cypher", "questions in Cypher are off", "set graph.cypher = true")
        from sluice.graph.cypher.run import run_cypher

        version = self._context.ledger.graph.totals(request.corpus).version
        with metrics.GRAPH_QUERY_SECONDS.labels("cypher").time():
            try:
                return run_cypher(request, self._context.graphs.folder(request.corpus), version)
            except InvalidInput as error:
                raise InvalidQuestion(error.field, error.problem, error.remedy) from error

    def nearest(self, corpus: str, question: str, caller: Caller, *, top_k: int = 8) -> NearestDocuments:
        """The documents that the graph server finds nearest to a question by their vectors, and what is linked to them.

        Raises:
            NotFound: no graph server is configured.
            Unavailable: it does not answer, or the embedding model does not.
        """
        graphed_reader(self._context, corpus, caller)
        with metrics.GRAPH_QUERY_SECONDS.labels("nearest").time():
            return nearest_on_graph_server(self._context, corpus, question, top_k)

    def neighbours(
        self,
        corpus: str,
        named: str,
        caller: Caller,
        *,
        direction: Direction | None = None,
        types: Collection[EdgeType] = (),
        limit: int = 50,
    ) -> Neighbours:
        """What is next to a node, the surest edges first.

        Raises:
            InvalidInput: the name means several nodes; the remedy lists them.
        """
        graphed_reader(self._context, corpus, caller)
        from sluice.graph.walk.nodes import neighbours

        with metrics.GRAPH_QUERY_SECONDS.labels("neighbours").time():
            return neighbours(self._view(corpus), named, limit, direction=direction, types=types)

    def linked(self, corpus: str, module: str, caller: Caller, *, failing: bool = True, top_k: int = 10) -> Linked:
        """The failing tests that touch a module, and the documents that are linked to these; without `failing` all
        tests that do."""
        graphed_reader(self._context, corpus, caller)
        from sluice.graph.walk.linked import linked

        with metrics.GRAPH_QUERY_SECONDS.labels("linked").time():
            return linked(self._view(corpus), module, failing_only=failing, top_k=top_k)

    def _view(self, corpus: str) -> GraphView:
        from sluice.graph.arm import NO_GRAPH

        view, problem = self._context.graphs.arm(corpus).view()
        if view is not None:
            return view
        if problem == NO_GRAPH:
            raise NotFound(f"no graph of corpus {corpus!r} is published yet; see `sluice graph status`")
        raise Unavailable(f"{problem}; it is being made anew")


NO_SERVER = "no graph server is configured: set graph.url, or NEO4J_URI; without one the graph is in files"


def graph_server_of(context: Context) -> GraphServer:
    """The graph server. Raises `NotFound` where none is configured."""
    server = context.graph_server
    if server is None:
        raise NotFound(NO_SERVER)
    return server


def version_on_graph_server(context: Context, corpus: str) -> int | None:
    """Changes of the corpus's graph that the graph server was fed up to; None where that cannot be said."""
    if context.graph_server is None:
        return None
    try:
        feed = context.graph_server.read_feed(corpus)
    except SluiceError:
        return None
    return feed.version if feed else None


def query_graph_server(context: Context, request: CypherRequest) -> CypherResult:
    """The rows that the graph server has for a question; nodes and edges with the properties of the published file.

    The question passes the guard of the published file, written in the server's words, before it is sent.

    Raises:
        NotFound: no graph server is configured, or the corpus was never fed to it.
        InvalidQuestion: the question cannot be read, or asks for more than reading; names line and column.
        TimedOut: it took longer than it may.
        Unavailable: the server does not answer. Also as `GraphServer` raises.
    """
    from sluice.graph.cypher.dialects import NEO4J
    from sluice.graph.cypher.guard import guard

    began, server = time.monotonic(), graph_server_of(context)
    try:
        statement = guard(request.query, request.parameters, request.corpus, request.limit, NEO4J)
        feed = server.read_feed(request.corpus)
        if feed is None:
            raise NotFound(f"corpus {request.corpus!r} has not been fed to the graph server yet")
        found = server.query(statement.text, statement.parameters, statement.rows, request.timeout_seconds)
    except InvalidInput as error:
        if error.field not in ("query", "parameters"):
            raise
        raise InvalidQuestion(error.field, error.problem, error.remedy) from error
    return CypherResult(
        columns=statement.columns if statement.columns is not None else found.columns,
        rows=tuple(tuple(map(_shown, row)) for row in found.rows),
        is_cut=found.is_cut and statement.rows == request.limit,
        generation=f"server@{feed.version}",
        behind=max(0, context.ledger.graph.totals(request.corpus).version - feed.version),
        duration_ms=round((time.monotonic() - began) * 1_000, 3),
    )


def nearest_on_graph_server(context: Context, corpus: str, question: str, limit: int) -> NearestDocuments:
    """The documents of a corpus nearest to a question, and what they are linked to, as the decision record has it.

    Raises:
        NotFound: no graph server is configured, or nothing was written to the corpus.
        Unavailable: the server or the embedding model does not answer, or the corpus has no vectors.
    """
    server, reader = graph_server_of(context), context.readers.existing(corpus)
    model = reader.model_fingerprint
    if model is None:
        raise Unavailable(f"corpus {corpus} has no vectors yet")
    vector = context.embedding.embed_question([question], model).vectors[0]
    return server.retrieve(corpus, vector.tolist(), model, limit)


_OF_THE_FEEDING = frozenset({"owner", "as_of", "sha256", "embedding"})


def _shown(value: Any) -> Any:
    """A cell without the properties that are for the feeding alone."""
    if isinstance(value, dict):
        own = _OF_THE_FEEDING if "label" in value or "type" in value else frozenset[str]()
        return {name: _shown(one) for name, one in value.items() if name not in own}
    return [_shown(one) for one in value] if isinstance(value, list) else value


def check_graph_server(context: Context) -> GraphServerHealth:
    """Have the server answer a question. The message names host and port and no secret.

    Raises:
        NotFound: no server is configured.
    """
    server = graph_server_of(context)
    try:
        server.ping()
    except SluiceError as error:
        return GraphServerHealth(status="unhealthy", message=str(error))
    return GraphServerHealth(status="healthy", message="Neo4j connection successful")
