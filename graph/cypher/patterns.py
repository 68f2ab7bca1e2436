"""What a question matches: nodes, edges and paths, as clauses, as conditions and counted."""

from __future__ import annotations

from typing import Any

from sluice.contracts.graph.model import EdgeType, NodeLabel
from sluice.graph.cypher.dialects import Dialect
from sluice.graph.cypher.parse import refuse_at, shown
from sluice.graph.cypher.walk import Walk, listed, one_of
from sluice.graph.schema import EDGE_PROPERTIES, PROPERTIES

MAX_HOPS = 5
MAX_HOPS_OF_SHORTEST = 10
"""Of a shortest path, which is looked for from both ends and visits a node once."""
MAX_NODES = 16
"""Node patterns in one question."""
_NO_PATTERN = "a pattern is like (d:Document)-[:LINKS_TO]->(u)"


class Patterns(Walk):
    """The corpus stands in every node of every pattern, and every path has a greatest length."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._nodes = 0
        self._shortest = ""
        """The dialect's words for the length of the shortest path that is being written."""

    def _nodePattern(self, node: Any) -> str:  # noqa: N802
        self._nodes += 1
        if self._nodes > MAX_NODES:
            refuse_at(node, f"more than {MAX_NODES} nodes in the patterns", "take the question apart")
        labels = self._labels(node.nodeLabels()) if node.nodeLabels() is not None else []
        label = ":" + self._dialect.either_label.join(labels) if labels else ""
        variable = self._rule(node.symbol()) if node.symbol() is not None else ""
        pairs = self._properties_of(node, PROPERTIES - {"corpus"})
        return f"({variable}{label} {{{', '.join(['corpus: $corpus', *pairs])}}})"

    def _labels(self, node: Any) -> list[str]:
        """The labels of which a node has one."""
        names = node.name()
        signs = [child.getText() for child in node.getChildren() if child.getText() in (":", "|")]
        if ":" in signs[1:]:
            refuse_at(names[1], "more than one label on a node", "a node has one; A|B means one or the other")
        return [one_of(name, "label", frozenset(NodeLabel)) for name in names]

    def _patternElem(self, node: Any) -> str:  # noqa: N802
        if node.functionInvocation() is not None:
            return self._shortest_path(node.functionInvocation())
        if node.patternElem() is not None:
            refuse_at(node, f"{shown(node.getText())} is no pattern", _NO_PATTERN)
        return self._parts(node)

    def _shortest_path(self, node: Any) -> str:
        written = self._dialect.shortest.get(node.invocationName().getText().lower())
        inner = node.patternElem()
        if written is None or inner is None or inner.nodePattern() is None:
            refuse_at(node, f"{shown(node.getText())} is no pattern", _NO_PATTERN)
        if len(inner.patternElemChain()) != 1:
            refuse_at(inner, "a shortest path of several edge patterns", "it has one, like (a)-[:REFERS_TO*..5]->(b)")
        detail = inner.patternElemChain()[0].relationshipPattern().relationDetail()
        if detail is None or detail.rangeLit() is None:
            refuse_at(inner, "a shortest path of a single edge", "its edge has a star: (a)-[*..5]-(b)")
        self._shortest, around = written
        try:
            return around.format(self._parts(inner))
        finally:
            self._shortest = ""

    def _relationshipPattern(self, node: Any) -> str:  # noqa: N802
        written = "".join(map(self._rule, node.getChildren()))
        # Both arrows mean either direction, as none does; an engine knows none alone.
        return written[1:-1] if written[0] == "<" and written[-1] == ">" else written

    def _relationDetail(self, node: Any) -> str:  # noqa: N802
        variable = self._rule(node.symbol()) if node.symbol() is not None else ""
        types = node.relationshipTypes()
        names = [one_of(name, "edge", frozenset(EdgeType)) for name in types.name()] if types is not None else []
        pairs = self._properties_of(node, frozenset(EDGE_PROPERTIES))
        return "[{}{}{}{}]".format(
            variable,
            ":" + "|".join(names) if names else "",
            self._length(node.rangeLit()) if node.rangeLit() is not None else "",
            f" {{{', '.join(pairs)}}}" if pairs else "",
        )

    def _length(self, node: Any) -> str:
        signs = [child.getText() for child in node.getChildren() if child.getText().strip()]
        before, dots, after = "".join(signs[1:]).partition("..")
        bound = MAX_HOPS_OF_SHORTEST if self._shortest else MAX_HOPS
        least = self._whole(node, before) if before else 1
        if self._shortest and not after and (dots or not before):
            after, dots = str(bound), ".."
        if (dots and not after) or not (before or after):
            refuse_at(node, "a path without a greatest length", f"write *1..{bound} or less")
        most = self._whole(node, after) if dots else least
        if most > bound:
            refuse_at(node, f"a path of up to {most} edges", f"at most {bound}")
        if least > most:
            refuse_at(node, f"a path of at least {least} and at most {most} edges", "the first is the smaller one")
        if self._shortest and least != 1:
            refuse_at(node, f"a shortest path of at least {least} edges", "it has at least one")
        return (self._shortest or self._dialect.variable_length).format(least, most)

    def _properties_of(self, node: Any, allowed: frozenset[str]) -> list[str]:
        properties = node.properties()
        if properties is None:
            return []
        if properties.mapLit() is None:
            refuse_at(properties, "properties by one parameter are not allowed", "name each, as in {path: $path}")
        pairs = []
        for pair in properties.mapLit().mapPair():
            name = pair.name().getText()
            if name not in allowed:
                remedy = "the corpus is that of the request" if name == "corpus" else f"one of {listed(allowed)}"
                refuse_at(pair, f"the property {shown(name)} is not allowed here", remedy)
            pairs.append(f"{name}: {self._rule(pair.expression())}")
        return pairs

    # Patterns that are asked for, or counted.

    def _subqueryExist(self, node: Any) -> str:  # noqa: N802
        kind = node.EXISTS().getText().upper()
        if node.patternWhere() is None:
            refuse_at(
                node, f"a question inside of {kind} {{ … }}", "a pattern and a WHERE: EXISTS { (d)-->() WHERE … }"
            )
        return f"{kind} {{ MATCH {self._rule(node.patternWhere())} }}"

    def _pattern_in(self, kind: str, pattern: Any) -> str:
        return f"{kind} {{ MATCH {self._rule(pattern)} }}"
