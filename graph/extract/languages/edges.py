"""Reads source code in languages other than Python into edges.

The queries that come with the grammars (`queries/tags.scm`) and each language's rules find what defines and refers. The
scoping is ours: a reference is bound to a definition or import of the same file; an unbound one is a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, Origin, document_node, symbol, unknown
from sluice.graph.extract.addresses import name_address, path_address, path_beside
from sluice.graph.extract.languages.c import included
from sluice.graph.extract.languages.reading import RULES, VALUES, Definition, Reading, Reference
from sluice.graph.extract.languages.rules import Imported, joined, known, stem_of

if TYPE_CHECKING:
    from tree_sitter import Node as SyntaxNode
    from tree_sitter import Tree

_ONLY_QUALIFIED = frozenset({"variable", "constant", "constructor"})
"""Definitions that a bare name does not reach: no unknown receiver leads to them."""


def tagged_edges(document: GraphDocument, tree: Tree) -> list[Edge]:
    """Return DEFINED_IN, REFERS_TO, INHERITS and ALIAS_OF edges of a source in one of `RULES`."""
    return list(_Source(document, tree.root_node).edges())


class _Source:
    def __init__(self, document: GraphDocument, root: SyntaxNode) -> None:
        grammar = document.language or ""
        self._rules = rules = RULES[grammar]
        self._document = document_node(document.document_id)
        self._module = rules.module(document.path, root)
        self._path = document.path or ""
        self._private = stem_of(document.path)
        self._last_line = root.end_point.row + 1
        self._included = list(included(root, document.path)) if rules.is_global else []
        self._imported = list(rules.imports(root, self._module, document.path))
        self._imports = {one.local: one for one in self._imported if one.local}
        self._reading = Reading(root, grammar, document.path)

    def edges(self) -> Iterator[Edge]:
        yield from self._module_edges()
        for one in (*self._reading.definitions.values(), *self._reading.overloads):
            yield from self._defined(one)
        for imported in self._imported:
            yield from self._imported_edges(imported)
        for reference in self._reading.references:
            yield from self._referred(reference)
        for file, is_beside, line in self._included:
            yield from self._included_edges(file, is_beside, line)

    def _module_edges(self) -> Iterator[Edge]:
        if self._module and self._rules.language != "java":
            lines = tuple(sorted({1, self._last_line}))
            node = symbol(self._rules.language, self._module)
            yield Edge(EdgeType.DEFINED_IN, node, self._document, Origin.DEFINITION, lines, "module")

    def _defined(self, one: Definition) -> Iterator[Edge]:
        language, lines = self._rules.language, tuple(sorted({one.first, one.last}))
        name = one.path.rpartition(".")[2]
        yield Edge(
            EdgeType.DEFINED_IN,
            symbol(language, self._name(one.path)),
            self._document,
            Origin.DEFINITION,
            lines,
            one.kind,
        )
        if one.kind not in _ONLY_QUALIFIED:
            yield Edge(EdgeType.DEFINED_IN, unknown(language, name), self._document, Origin.DEFINITION, lines, one.kind)

    def _imported_edges(self, one: Imported) -> Iterator[Edge]:
        target = symbol(self._rules.language, one.meaning)
        if one.exported:
            name = symbol(self._rules.language, joined(self._module, one.exported))
            if name != target:
                yield Edge(EdgeType.ALIAS_OF, name, target, Origin.IMPORT, (one.line,))
        if one.exported != "*":
            yield Edge(EdgeType.REFERS_TO, self._document, target, Origin.IMPORT, (one.line,))

    def _included_edges(self, file: str, is_beside: bool, line: int) -> Iterator[Edge]:
        targets = [(name_address(file.rpartition("/")[2]), Origin.NAME)]
        if "/" in file:
            targets = [(path_address(file), Origin.IMPORT)]
        elif is_beside and (beside := path_beside(self._path, file)) is not None:
            targets.append((beside, Origin.IMPORT))
        for target, origin in targets:
            yield Edge(EdgeType.LINKS_TO, self._document, target, origin, (line,), "include")

    def _referred(self, one: Reference) -> Iterator[Edge]:
        bound = self._bound(one)
        if bound is None:
            return
        target, origin = bound
        yield Edge(EdgeType.REFERS_TO, self._document, target, origin, (one.line,))
        if one.kind == "inherits" and one.class_path:
            child = symbol(self._rules.language, self._name(one.class_path))
            if child != target:
                yield Edge(EdgeType.INHERITS, child, target, origin, (one.line,))

    def _bound(self, one: Reference) -> tuple[Node, Origin] | None:
        """Return the symbol that a reference means, and the origin of that; None where the reference says nothing."""
        rules, (head, *rest) = self._rules, one.chain
        last, is_value = one.chain[-1], one.kind == "value"
        if not head or head in rules.own:
            if head and one.class_path and len(rest) == 1:
                return self._symbol(joined(one.class_path, last)), Origin.SELF
            return None if is_value or not rest else (unknown(rules.language, last), Origin.NAME)
        defined = self._reading.definitions
        if (path := self._in_scope(head, one.inside)) is not None:
            if rest and defined[path].kind in VALUES and joined(path, *rest) not in defined:
                return None if is_value else (unknown(rules.language, last), Origin.NAME)
            return self._symbol(joined(path, *rest)), Origin.SCOPE
        if head in self._imports:
            return symbol(rules.language, joined(self._imports[head].meaning, *rest)), Origin.IMPORT
        if is_value or head in known(rules.language) or (one.kind == "type" and len(head) == 1):
            return None
        if (qualified := rules.qualify(one.chain, one.is_path, self._module, self._path)) is not None:
            return symbol(rules.language, qualified[0]), qualified[1]
        if rest:
            is_type = one.is_path and head[:1].isupper()  # `Cart::new`: the type says more than `new`
            return unknown(rules.language, head if is_type else last), Origin.NAME
        if rules.sees_members and one.kind == "call" and one.class_path:
            return self._symbol(joined(one.class_path, head)), Origin.SELF
        if rules.sees_package:
            return self._symbol(head), Origin.IMPORT
        return (symbol if rules.is_global else unknown)(rules.language, head), Origin.NAME

    def _in_scope(self, head: str, inside: str) -> str | None:
        """Return the path of the definition that a name means, searched from the inside out."""
        read = self._reading
        while True:
            path = joined(inside, head)
            if path in read.definitions and (self._rules.sees_members or inside not in read.classes):
                return path
            if not inside:
                return None
            inside = inside.rpartition(".")[0]

    def _symbol(self, path: str) -> Node:
        return symbol(self._rules.language, self._name(path))

    def _name(self, path: str) -> str:
        found = self._reading.definitions.get(path)
        return joined(self._private if found is not None and found.is_private else self._module, path)
