"""Recall in a process that serves no queries itself: the query pool is asked, as by a direct query."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sluice.contracts.errors import InvalidSetting, Unavailable
from sluice.contracts.retrieval import Query, Retrieval
from sluice.memory.documents import is_indexed
from sluice.memory.find import IndexHealth
from sluice.memory.qdrant_schema import collection_name, expected_collections, orphan_collections
from sluice.otel.context import current_traceparent
from sluice.workers.wiring.memory.search import IndexSearch

if TYPE_CHECKING:
    from sluice.memory.journal.feature_memory import FeatureMemory
    from sluice.workers.context import Context

PATIENCE_SECONDS = 1.0
"""How long the query pool may take: a healthy one answers in milliseconds, and the journal can be read instead."""


class InstanceIndex(IndexSearch):
    """The index of one project, which workers fill: a `SearchIndex` that takes in nothing itself."""

    def __init__(self, context: Context, project: str) -> None:
        super().__init__(self._ask_pool)
        self._context = context
        self._project = project

    def follow(self, state: FeatureMemory, *, wholly: bool = False) -> Collection[str]:
        """What the index lacks; runs that are under way bring it."""
        return self.lacking(state)

    def lacking(self, state: FeatureMemory) -> Collection[str]:
        """The ids of iterations and learnings that the index does not serve yet."""
        corpus, readers = collection_name(self._project, state.feature), self._context.readers
        wanted = [*state.iterations, *(name for name, one in state.learnings.items() if is_indexed(one))]
        if not readers.exists(corpus):
            return wanted
        reader = readers.reader(corpus)
        reader.reload()
        if reader.document_count == len(wanted):  # then nearly always the same, and thousands need no look
            return ()
        held = reader.documents(wanted)
        return [name for name in wanted if name not in held]

    def health(self, features: tuple[str, ...]) -> IndexHealth:
        """How the instance's index and embedder fare."""
        from sluice.workers.broker.transport import BROKER_ERRORS

        is_served = embeds = False
        try:
            present = self._context.transport.present_workers()
            is_served = bool(present["query"] and present["index"])
            embeds = bool(present["embed"]) and self._context.transport.embedder_down() is None
        except (InvalidSetting, *BROKER_ERRORS):
            pass
        names = self._context.readers.names()
        expected = expected_collections(self._project, features)
        return IndexHealth(
            engine=self._context.settings.index.engine,
            index_available=is_served,
            embedder_available=embeds,
            embedding_model=self._context.embedding.fingerprint(min(expected)) if expected else None,
            collections=tuple(one for one in names if one in expected),
            orphans=orphan_collections(names, self._project, features),
        )

    def drop_orphans(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """None by itself: an operator removes them, see `MemoryUpkeep.remove_orphan`."""
        return ()

    def _ask_pool(self, query: Query) -> Retrieval:
        from sluice.workers.broker.direct_query import ask_query_pool
        from sluice.workers.broker.transport import BROKER_ERRORS

        try:
            raw = ask_query_pool(self._context.transport, query, current_traceparent(), PATIENCE_SECONDS)
        except (InvalidSetting, *BROKER_ERRORS) as error:
            raise Unavailable(f"the broker does not answer: {error}") from error
        return Retrieval.model_validate_json(raw)
