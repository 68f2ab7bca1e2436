"""Recall in a process that serves no queries itself: the query pool is asked, as by a direct query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.errors import InvalidSetting, Unavailable
from contracts.retrieval import Query, Retrieval
from otel.context import current_traceparent
from workers.wiring.memory.search import IndexSearch

if TYPE_CHECKING:
    from workers.context import Context

PATIENCE_SECONDS = 1.0
"""How long the query pool may take: a healthy one answers in milliseconds, and the journal can be read instead."""


def search_by_query_pool(context: Context) -> IndexSearch:
    """Searches of collections by the instance's query workers."""

    def ask(query: Query) -> Retrieval:
        from workers.broker.direct_query import ask_query_pool
        from workers.broker.transport import BROKER_ERRORS

        try:
            raw = ask_query_pool(context.transport, query, current_traceparent(), PATIENCE_SECONDS)
        except (InvalidSetting, *BROKER_ERRORS) as error:
            raise Unavailable(f"the broker does not answer: {error}") from error
        return Retrieval.model_validate_json(raw)

    return IndexSearch(ask)
