"""A property graph in memory that runs the statements of `graph.servers`, each by its text."""

from __future__ import annotations

import itertools
import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sluice.contracts.graph.model import NodeLabel
from sluice.graph.servers.statements import (
    BETWEEN_SYMBOLS,
    REMOVED,
    Dialect,
    DialectName,
    EdgeKind,
    create_edges,
    delete_edges,
    dialects,
    statement,
    statements,
)
from tests.support.bolt.packstream import Structure

FEED = "GraphFeed"


class Refused(Exception):
    """A statement that the server refuses, by the code of the server's own."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


class Table(NamedTuple):
    columns: Sequence[str] = ()
    rows: Iterable[list[Any]] = ()


class StoredEdge(NamedTuple):
    type: str
    source: tuple[str, str, str]
    target: tuple[str, str, str]
    properties: dict[str, Any]


@dataclass
class Content:
    """Nodes by label, corpus and id; edges by number; names of constraints and indexes."""

    nodes: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    edges: dict[int, StoredEdge] = field(default_factory=dict)
    schema: set[str] = field(default_factory=set)
    index_dimension: int | None = None


class Store:
    """What one server holds. `guard` is held by a transaction from BEGIN to its end."""

    def __init__(
        self, dialect: DialectName = "neo4j", *, has_vector_command: bool = True, has_vectors: bool = True
    ) -> None:
        self.content = Content()
        self.guard = threading.Lock()
        self._numbers = itertools.count()
        self._dialect = dialects()[dialect]
        self._has_vector_command, self._has_vectors = has_vector_command, has_vectors
        self.extra: dict[str, Callable[[dict[str, Any]], Table]] = {}
        """Statements of a test, by their text."""
        self._known = self._statements(self._dialect)

    def run(self, text: str, parameters: dict[str, Any], *, in_transaction: bool) -> Table:
        found = self.extra.get(text) or self._known.get(text)
        if found is not None:
            return found(parameters)
        if text in self._dialect.schema or text.startswith(("CREATE VECTOR INDEX", "CALL db.index.vector.create")):
            if in_transaction and self._dialect.name == "memgraph":
                raise Refused("Memgraph.ClientError.MemgraphError.MemgraphError", "not allowed in a transaction")
            return self._change_schema(text)
        raise Refused("Neo.ClientError.Statement.SyntaxError", f"Invalid input: {text[:40]!r}")

    # -- for tests ------------------------------------------------------------------------------

    def ids(self, corpus: str, label: str = "Document") -> list[str]:
        return sorted(node[2] for node in self.content.nodes if node[:2] == (label, corpus))

    def node(self, corpus: str, document_id: str, label: str = "Document") -> dict[str, Any]:
        return self.content.nodes[label, corpus, document_id]

    def edges(self, corpus: str) -> list[tuple[str, str, str, str]]:
        """Type, source, target, owner of every edge of a corpus, ordered."""
        own = (edge for edge in self.content.edges.values() if edge.properties["corpus"] == corpus)
        return sorted((edge.type, edge.source[2], edge.target[2], edge.properties.get("owner", "")) for edge in own)

    # -- statements -----------------------------------------------------------------------------

    def _statements(self, dialect: Dialect) -> dict[str, Callable[[dict[str, Any]], Table]]:
        known: dict[str, Callable[[dict[str, Any]], Table]] = {
            statement("ping"): lambda _: Table(("n",), [[1]]),
            dialect.vector_index_info: lambda _: self._vector_indexes(),
            statement("merge_documents"): self._merge_documents,
            statement("remove_documents"): self._remove_documents,
            statement("delete_documents"): lambda p: self._delete_nodes(p, NodeLabel.DOCUMENT, alone=False),
            statements("lower_fences")[0]: self._lower_fences,
            statements("lower_fences")[1]: lambda p: self._delete_nodes(p, REMOVED, alone=False),
            statement("delete_citations"): lambda p: self._delete_nodes(
                {**p, "ids": self.ids(p["corpus"], "Conversation")}, NodeLabel.CONVERSATION, alone=False
            ),
            statement("read_feed"): self._feed,
            statement("write_feed"): self._set_feed,
            statement("standing"): self._standing,
            dialect.nearest: lambda p: self._nearest(p, by_index=True),
            dialect.nearest_exactly: lambda p: self._nearest(p, by_index=False),
            statement("linked"): self._linked,
            statements("drop_corpus")[0]: self._drop_edges,
            statements("drop_corpus")[1]: self._drop_nodes,
            delete_edges()[0]: lambda p: self._delete_edges(p, None),
        }
        for kind, text in zip(BETWEEN_SYMBOLS, delete_edges()[1:], strict=True):
            known[text] = lambda p, kind=kind: self._delete_edges(p, kind)  # type: ignore[misc]
        for edge_kind, text in create_edges().items():
            known[text] = lambda p, kind=edge_kind: self._create_edges(p, kind)  # type: ignore[misc]
        for label, text in dialect.delete_orphans.items():
            known[text] = lambda p, label=label: self._delete_nodes(p, label, alone=True)  # type: ignore[misc]
        return known

    def _change_schema(self, text: str) -> Table:
        if "VECTOR INDEX" in text or "vector.create" in text:
            is_command = text.startswith("CREATE")
            if not self._has_vectors or (is_command and not self._has_vector_command):
                raise Refused("Neo.ClientError.Statement.SyntaxError", "Invalid input 'VECTOR'")
            if self.content.index_dimension is not None:
                if "IF NOT EXISTS" in text:
                    return Table()
                code = "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists"
                raise Refused(code, "An equivalent index already exists")
            numbers = re.search(r"(?:dimensions`|\"dimension\"): (\d+)|'embedding', (\d+)", text)
            assert numbers, text
            self.content.index_dimension = int(numbers[1] or numbers[2])
            return Table()
        if text in self.content.schema and "IF NOT EXISTS" not in text:
            raise Refused("Memgraph.ClientError.MemgraphError.MemgraphError", "Constraint already exists.")
        self.content.schema.add(text)
        return Table()

    def _vector_indexes(self) -> Table:
        found = self.content.index_dimension
        return Table(("name", "dimension"), [["document_embedding", found]] if found else [])

    def _merge_documents(self, given: dict[str, Any]) -> Table:
        nodes, corpus, accepted = self.content.nodes, given["corpus"], []
        for row in given["documents"]:
            key, gone = ("Document", corpus, row["id"]), (REMOVED, corpus, row["id"])
            if (
                nodes.get(gone, {}).get("as_of", -1) > row["as_of"]
                or nodes.get(key, {}).get("as_of", -1) > row["as_of"]
            ):
                continue
            embedding, dimension = row["properties"].get("embedding"), self.content.index_dimension
            if self._dialect.name == "memgraph" and embedding and dimension and len(embedding) != dimension:
                raise Refused("Memgraph.ClientError.MemgraphError.MemgraphError", "Vector dimension mismatch")
            nodes.pop(gone, None)
            nodes[key] = row["properties"]
            accepted.append([row["id"]])
        return Table(("id",), accepted)

    def _remove_documents(self, given: dict[str, Any]) -> Table:
        nodes, corpus, accepted = self.content.nodes, given["corpus"], []
        for row in given["documents"]:
            key, gone = ("Document", corpus, row["id"]), (REMOVED, corpus, row["id"])
            if max(nodes.get(one, {}).get("as_of", -1) for one in (key, gone)) <= row["as_of"]:
                nodes[gone] = {"corpus": corpus, "id": row["id"], "as_of": row["as_of"]}
                accepted.append([row["id"]])
        return Table(("id",), accepted)

    def _delete_edges(self, given: dict[str, Any], kind: str | None) -> Table:
        owners, touched = set(given["owners"]), set()
        for number, edge in list(self.content.edges.items()):
            own = edge.properties
            if own["corpus"] != given["corpus"] or own.get("owner") not in owners:
                continue
            ends = (edge.source, edge.target)
            document = ("Document", given["corpus"], own["owner"])
            if (document in ends) if kind is None else edge.type == kind:
                del self.content.edges[number]
                touched |= {end for end in ends if end != document}
        return Table(("label", "id"), [[label, name] for label, _, name in sorted(touched)])

    def _create_edges(self, given: dict[str, Any], kind: EdgeKind) -> Table:
        for row in given["edges"]:
            ends = [
                (label.value, given["corpus"], name)
                for label, name in ((kind.source, row["source"]), (kind.target, row["target"]))
            ]
            if any(end[0] == "Document" and end not in self.content.nodes for end in ends):
                continue
            for end, known in zip(ends, (row["source_named"], row["target_named"]), strict=True):
                self.content.nodes.setdefault(end, {"corpus": end[1], "id": end[2], **known})
            self.content.edges[next(self._numbers)] = StoredEdge(kind.type.value, *ends, row["properties"])
        return Table()

    def _delete_nodes(self, given: dict[str, Any], label: str, *, alone: bool) -> Table:
        for name in given["ids"]:
            key = (str(label), given["corpus"], name)
            own = [number for number, edge in self.content.edges.items() if key in (edge.source, edge.target)]
            if alone and own:
                continue
            for number in own:
                del self.content.edges[number]
            self.content.nodes.pop(key, None)
        return Table()

    def _lower_fences(self, given: dict[str, Any]) -> Table:
        for name in given["ids"]:
            if ("Document", given["corpus"], name) in self.content.nodes:
                self.node(given["corpus"], name)["as_of"] = -1
        return Table()

    def _feed(self, given: dict[str, Any]) -> Table:
        found = self.content.nodes.get((FEED, given["corpus"], ""))
        columns = ("version", "sha256", "embedding_version", "citations_sha256", "dimension")
        return Table(columns, [[found.get(name) for name in columns]] if found else [])

    def _set_feed(self, given: dict[str, Any]) -> Table:
        self.content.nodes[FEED, given["corpus"], ""] = dict(given)
        return Table()

    def _standing(self, given: dict[str, Any]) -> Table:
        names = [one for one in self.ids(given["corpus"]) if one > given["after"]][: given["most"]]
        columns = ("id", "sha256", "embedding_version")
        own = [self.node(given["corpus"], name) for name in names]
        return Table(columns, [[node.get(column) for column in columns] for node in own])

    def _nearest(self, given: dict[str, Any], *, by_index: bool) -> Table:
        asked, dimension = given["embedding"], self.content.index_dimension
        if by_index and dimension is None:
            raise Refused("Neo.ClientError.Procedure.ProcedureCallFailed", "There is no such vector schema index")
        if by_index and len(asked) != dimension:
            raise Refused("Neo.ClientError.Procedure.ProcedureCallFailed", "Index query vector has another dimension")
        documents = [node for key, node in self.content.nodes.items() if key[0] == "Document" and "embedding" in node]
        scored = [
            (-_cosine(node["embedding"], asked), node["id"], node)
            for node in documents
            if len(node["embedding"]) == len(asked)
        ]
        best = sorted(scored, key=lambda one: one[:2])[: given["candidates"] if by_index else None]
        columns = ("id", "path", "url", "title")
        rows = [
            [*(node.get(name) for name in columns), -score]
            for score, _, node in best
            if node["corpus"] == given["corpus"] and node.get("embedding_version") == given["embedding_version"]
        ]
        return Table((*columns, "score"), rows[: given["most"]])

    def _linked(self, given: dict[str, Any]) -> Table:
        paths: dict[tuple[str, str], set[str]] = {}
        edges = list(self.content.edges.values())
        for first, second in itertools.product(edges, edges):
            start, end = first.source, second.target
            if (
                first.type in ("REFERS_TO", "LINKS_TO")
                and second.type in ("DEFINED_IN", "RESOLVES_TO")
                and first.target == second.source
                and start[1] == end[1] == given["corpus"]
                and start[2] in given["ids"]
                and start != end
            ):
                paths.setdefault((start[2], end[2]), set()).add(first.target[2])
        columns = ("near_id", "id", "path", "url", "title", "names", "shared")
        rows = []
        for (start_id, end_id), names in sorted(paths.items(), key=lambda one: (-len(one[1]), one[0][1], one[0][0])):
            node = self.node(given["corpus"], end_id)
            rows.append([start_id, *(node.get(name) for name in columns[1:5]), sorted(names)[:5], len(names)])
        return Table(columns, rows[: given["most"]])

    def _drop_edges(self, given: dict[str, Any]) -> Table:
        own = [number for number, edge in self.content.edges.items() if edge.source[1] == given["corpus"]]
        for number in own[: given["most"]]:
            del self.content.edges[number]
        return Table(("count",), [[min(len(own), given["most"])]])

    def _drop_nodes(self, given: dict[str, Any]) -> Table:
        own = [key for key in self.content.nodes if key[1] == given["corpus"]]
        for key in own[: given["most"]]:
            del self.content.nodes[key]
        return Table(("count",), [[min(len(own), given["most"])]])


def node_value(label: str, properties: dict[str, Any]) -> Structure:
    """A node as Bolt 5 sends it."""
    number = next(_NUMBERS)
    return Structure(0x4E, [number, [label], properties, f"4:x:{number}"])


def edge_value(kind: str, properties: dict[str, Any]) -> Structure:
    """A relationship as Bolt 5 sends it."""
    number, start, end = next(_NUMBERS), next(_NUMBERS), next(_NUMBERS)
    own = [f"5:x:{number}", f"4:x:{start}", f"4:x:{end}"]
    return Structure(0x52, [number, start, end, kind, properties, *own])


_NUMBERS = itertools.count(1)
"""The driver takes nodes of one number for one node."""


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / (math.hypot(*one) * math.hypot(*other))
