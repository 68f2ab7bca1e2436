"""Questions to the graph of a corpus: in Cypher, what is next to a node, what is linked to a failing test.

They read the published generation. Cypher runs in a process of its own that may neither write nor reach the network
(docs/graph-cypher.md); the others read mapped files in this one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sluice.contracts.errors import InvalidInput, InvalidQuestion, NotFound, PolicyRefused, Unavailable
from sluice.contracts.graph.api import CypherRequest, CypherResult, Linked, NearestDocuments, Neighbours
from sluice.contracts.graph.model import EdgeType
from sluice.otel import metrics
from sluice.workers.service.graph.server_questions import nearest_on_graph_server, query_graph_server
from sluice.workers.wiring.graph.directives import is_graphed

if TYPE_CHECKING:
    from sluice.graph.generations.view import GraphView
    from sluice.graph.walk.neighbours import Direction
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
        from sluice.graph.walk.neighbours import neighbours

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
