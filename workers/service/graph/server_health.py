"""Does the graph server answer? Asked and told as the decision record has it."""

from __future__ import annotations

from sluice.contracts.errors import SluiceError
from sluice.contracts.graph.api import GraphServerHealth
from sluice.workers.context import Context
from sluice.workers.service.graph.server_questions import graph_server_of


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
