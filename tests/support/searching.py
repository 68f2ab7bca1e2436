"""A search as a query worker makes it, with the parts of a context."""

from __future__ import annotations

from sluice.contracts.budget import Spend
from sluice.contracts.retrieval import Query, Retrieval
from sluice.workers.context import Context
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.wiring.inject import assemble


def searched(query: Query, context: Context) -> tuple[Retrieval, Spend]:
    """What the corpus has on the query, and what finding it cost."""
    return assemble(Retriever, context).retrieve(query)
