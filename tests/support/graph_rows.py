"""Rows of a graph, written as tests state them: what a Python file defines and what it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice.contracts.graph.model import (
    CitationRow,
    DocumentRow,
    Edge,
    EdgeType,
    Node,
    NodeLabel,
    Origin,
    document_node,
    symbol,
    unknown,
)
from sluice.graph.generations.definitions import Definition, How
from sluice.graph.generations.fold import fold
from sluice.graph.generations.resolution import Resolver
from sluice.graph.generations.view import GraphView


class File:
    """A document and its edges. Python modules are named by their paths, as the extraction names them."""

    def __init__(self, path: str, document_id: str | None = None) -> None:
        self.path = path
        self.document_id = document_id or path
        self.module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._edges: list[Edge] = []
        self._node = document_node(self.document_id)
        parts = path.split("/")
        for end in [f"?/{parts[-1]}", *("/".join(parts[-count:]) for count in range(2, len(parts))), path]:
            self.states(EdgeType.RESOLVES_TO, Node(NodeLabel.URL, f"path:{end}"), self._node, Origin.DEFINITION)
        if path.endswith(".py"):
            self.states(EdgeType.DEFINED_IN, symbol("python", self.module), self._node, Origin.DEFINITION, "module")

    def states(
        self, kind: EdgeType, source: Node, target: Node, origin: Origin, detail: str = "", lines: tuple[int, ...] = ()
    ) -> File:
        self._edges.append(Edge(kind, source, target, origin, lines, detail))
        return self

    def defines(self, name: str, first: int, last: int, kind: str = "function") -> File:
        lines = tuple(sorted({first, last}))
        for key in (symbol("python", f"{self.module}.{name}"), unknown("python", name.rpartition(".")[2])):
            self.states(EdgeType.DEFINED_IN, key, self._node, Origin.DEFINITION, kind, lines)
        return self

    def refers(self, name: str, *lines: int, origin: Origin = Origin.IMPORT) -> File:
        return self.states(EdgeType.REFERS_TO, self._node, symbol("python", name), origin, "", lines)

    def links(self, address: str, *lines: int, text: str = "") -> File:
        return self.states(EdgeType.LINKS_TO, self._node, Node(NodeLabel.URL, address), Origin.LINK, text, lines)

    def aliases(self, name: str, meaning: str) -> File:
        whole = symbol("python", f"{self.module}.{name}")
        return self.states(EdgeType.ALIAS_OF, whole, symbol("python", meaning), Origin.IMPORT)

    def inherits(self, name: str, base: str, *lines: int) -> File:
        whole = symbol("python", f"{self.module}.{name}")
        return self.states(EdgeType.INHERITS, whole, symbol("python", base), Origin.IMPORT, "", lines)

    def row(self) -> DocumentRow:
        return DocumentRow(self.document_id, self.path, None, None, tuple(sorted(set(self._edges))))


def rows(*files: File) -> list[DocumentRow]:
    return [file.row() for file in files]


def view_of(*files: File, citations: Iterable[CitationRow] = ()) -> GraphView:
    """The folded graph of some files, without a file on the disk."""
    return GraphView(fold(rows(*files), citations), "graph-000000000001", 1)


def candidates_of(documents: Sequence[DocumentRow], by: str, key: str) -> list[tuple[str, Definition, How, float]]:
    """A name's possible meanings in the document `by`: the defining document's id, definition, rule and share."""
    resolver = Resolver(documents)
    place = [row.document_id for row in documents].index(by)
    meant = [
        (resolver.definitions[one.definition], one) for one in resolver.meanings(resolver.found(key, place), place)
    ]
    return [(documents[entry.document].document_id, entry, one.how, one.share) for entry, one in meant]
