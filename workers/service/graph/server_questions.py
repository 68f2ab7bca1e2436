"""Questions to the graph server of an instance: read-only Cypher, and the documents nearest to a question."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sluice.contracts.errors import InvalidInput, InvalidQuestion, NotFound, SluiceError, Unavailable
from sluice.contracts.graph.api import (
    CypherRequest,
    CypherResult,
    GraphServerHealth,
    NearestDocuments,
)

if TYPE_CHECKING:
    from sluice.graph.servers.server import GraphServer
    from sluice.workers.context import Context


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
