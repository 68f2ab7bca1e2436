"""Python files as the graph reads them."""

from __future__ import annotations

from textwrap import dedent

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Origin
from sluice.graph.extract.extract import put_together
from sluice.graph.extract.python.edges import python_edges


def python_file(text: str, path: str | None = "shop/cart.py", url: str | None = None) -> GraphDocument:
    """A document `d` with this source, its common indentation taken away."""
    return GraphDocument("d", path, url, None, "python", dedent(text), {})


def edges_of(text: str, path: str = "shop/cart.py") -> list[Edge]:
    """What the source states."""
    return list(put_together(python_edges(python_file(text, path))))


def references(text: str, path: str = "shop/cart.py") -> dict[str, Origin]:
    """Names that the source refers to, without `python:`, and how each was found; by its surest origin."""
    order = list(Origin)
    found: dict[str, Origin] = {}
    for edge in edges_of(text, path):
        if edge.type is EdgeType.REFERS_TO:
            name = edge.target.key.removeprefix("python:")
            found[name] = min(edge.origin, found.get(name, edge.origin), key=order.index)
    return found


def pairs(text: str, kind: EdgeType, path: str = "shop/cart.py") -> set[tuple[str, str]]:
    """Sources and targets of the source's edges of one type, without `python:`."""
    return {
        (edge.source.key.removeprefix("python:"), edge.target.key.removeprefix("python:"))
        for edge in edges_of(text, path)
        if edge.type is kind
    }
