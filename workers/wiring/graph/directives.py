"""Selects the documents that the graph is to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sluice.contracts.index import GraphDirected
from sluice.memory.qdrant_schema import COLLECTION_NAME

if TYPE_CHECKING:
    from sluice.contracts.index import DocumentIndexed
    from sluice.graph.settings import GraphSettings

MOST_DOCUMENTS = 1_000
"""Of one event: some ten seconds of work."""


def is_graphed(corpus: str) -> bool:
    """Whether a corpus has a graph: those of agents' memories have none."""
    return COLLECTION_NAME.fullmatch(corpus) is None


def graph_directives(corpus: str, indexed: DocumentIndexed, settings: GraphSettings) -> Iterator[GraphDirected]:
    """What has the graph read the documents of an event, those removed too; none without the extra `graph`."""
    from sluice.graph.extract.extract import what_is_missing

    if settings.enabled and is_graphed(corpus) and what_is_missing() is None:
        yield from directives(indexed.document_ids, indexed.journal_offset)


def directives(document_ids: Sequence[str], journal_offset: int) -> Iterator[GraphDirected]:
    """Directives for all of these documents, each of a portion."""
    for first in range(0, len(document_ids), MOST_DOCUMENTS):
        portion = tuple(document_ids[first : first + MOST_DOCUMENTS])
        yield GraphDirected(document_ids=portion, journal_offset=journal_offset)


def nothing_but_published(journal_offset: int) -> GraphDirected:
    """A directive that has the rows published as they are."""
    return GraphDirected(document_ids=(), journal_offset=journal_offset)
