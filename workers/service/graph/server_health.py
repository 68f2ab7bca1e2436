"""Does the graph server answer? Asked and told as the decision record has it."""

from __future__ import annotations

from contracts.errors import NotFound, SluiceError
from contracts.graph.api import GraphServerHealth
from workers.context import Context


def check_graph_server(context: Context) -> GraphServerHealth:
    """Have the server answer a question. The message names host and port and no secret.

    Raises:
        NotFound: no server is configured.
    """
    server = context.graph_server
    if server is None:
        raise NotFound("no graph server is configured: set graph.url, or NEO4J_URI; without one the graph is in files")
    try:
        server.ping()
    except SluiceError as error:
        return GraphServerHealth(status="unhealthy", message=str(error))
    return GraphServerHealth(status="healthy", message="Neo4j connection successful")
