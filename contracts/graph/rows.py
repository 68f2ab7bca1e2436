"""What a published graph is made from: documents with the edges that they own, and who cited them."""

from __future__ import annotations

from typing import NamedTuple

from sluice.contracts.graph.model import Edge


class DocumentRow(NamedTuple):
    """A document of the graph, as the ledger keeps it: what identifies it, and the edges made from its text."""

    document_id: str
    path: str | None
    url: str | None
    title: str | None
    edges: tuple[Edge, ...]


class CitationRow(NamedTuple):
    """An answer that cited a document. `conversation` is the session's id, or the run's where there is none."""

    document_id: str
    conversation: str
    lines: tuple[int, ...] = ()
    """Where the cited passages begin, from 1, ascending, each once."""
