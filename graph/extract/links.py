"""Where a document links to: pages, files and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, NodeLabel, Origin, document_node
from sluice.graph.extract.addresses import link_target, web_address
from sluice.graph.extract.prose.pieces import Kind, Piece, bare_urls

_LABEL = "label:"


def link_edges(document: GraphDocument, pieces: Iterable[Piece]) -> Iterator[Edge]:
    """LINKS_TO edges of the document's links and of those among `pieces`, with their words.

    RESOLVES_TO edges from the labels that it has itself.

    A relative address is resolved against the document's path, or else its URL. Fragments are dropped, queries kept.
    """
    source = document_node(document.document_id)
    for line, url, words in document.links:
        if (target := link_target(document, url)) is not None:
            yield Edge(EdgeType.LINKS_TO, source, target, Origin.LINK, (line,), words)
    for piece in pieces:
        if piece.kind is Kind.LINK:
            target = link_target(document, piece.address)
            if target is not None:
                yield Edge(EdgeType.LINKS_TO, source, target, Origin.LINK, (piece.line,), piece.text)
        elif piece.kind is Kind.WORDS:
            for url in bare_urls(piece.text):
                if (target := web_address(url)) is not None:
                    yield Edge(EdgeType.LINKS_TO, source, target, Origin.LINK, (piece.line,))
        elif piece.kind is Kind.LABEL:
            yield Edge(EdgeType.LINKS_TO, source, _label(piece.address), Origin.LINK, (piece.line,), piece.text)
        elif piece.kind is Kind.OWN_LABEL:
            yield Edge(EdgeType.RESOLVES_TO, _label(piece.address), source, Origin.DEFINITION, (piece.line,), "label")


def _label(name: str) -> Node:
    return Node(NodeLabel.URL, _LABEL + name)
