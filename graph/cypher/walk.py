"""Walks the tree of a query: writes each known rule of the grammar, and refuses the others.

Each allowed rule has a method in `Walk` or a class derived from it, or an entry in a table here; any other is refused
with its position. So an unforeseen part of the language is refused, not let through. Texts and numbers of a query are
values: they go to the engine as parameters, or are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from math import isfinite
from typing import Any

from sluice.contracts.graph.model import EdgeType, NodeLabel
from sluice.graph.cypher.parse import SAID, Dialect, refuse_at, shown
from sluice.graph.schema import EDGE_PROPERTIES, PROPERTIES

_ESCAPES = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_ESCAPE = re.compile(r"\\(u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})\Z")
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
_DECIMAL = re.compile(r"-?([0-9]{1,30}\.[0-9]{1,30}|\.[0-9]{1,30}|[0-9]{1,30})([eE][+-]?[0-9]{1,3})?\Z")
_LARGEST = 2**63 - 1


def decode_text(literal: str) -> str:
    """Decode a quoted literal. Raises ValueError for an escape that engines read differently."""
    decoded = _ESCAPE.sub(_decode_escape, literal[1:-1])
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16")


def decode_number(written: str) -> int | float:
    """Decode a number. Raises ValueError where it is none, or larger than 64 bits."""
    if _WHOLE.match(written):
        number = int(written)
    elif _HEXADECIMAL.match(written):
        number = int(written, 16)
    elif _DECIMAL.match(written) and not written.lstrip("-").isdigit():
        real = float(written)
        if not isfinite(real):
            raise ValueError("is too large")
        return real
    else:
        raise ValueError("is no number in decimal digits")
    if abs(number) > _LARGEST:
        raise ValueError("is larger than 64 bits")
    return number


def _decode_escape(found: re.Match[str]) -> str:
    code = found[2] or found[3]
    try:
        return chr(int(code, 16)) if code else _ESCAPES[found[4]]
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"the escape {found[0]!r} is not known") from None


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_MAX_NAME_CHARACTERS = 100


class Walk:
    """One query in the words of one dialect: names, texts and numbers, and rules that pass unchanged."""

    def __init__(self, dialect: Dialect) -> None:
        self.literals: dict[str, str] = {}
        """Texts of the query, by the name of the parameter that carries them."""
        self.parameters: set[str] = set()
        """The caller's parameters that the query uses, by their own names."""
        self._dialect = dialect

    def _rule(self, node: Any) -> str:
        if not hasattr(node, "getRuleIndex"):
            return self._word(node)
        rule = rule_of(node)
        if refusal := SAID.tables["refused"].get(rule):
            refuse_at(node, *refusal)
        method = getattr(self, "_" + rule, None)
        if method is not None:
            return str(method(node))
        if rule not in SAID.words("passed_on"):
            refuse_at(node, f"{shown(node.getText())} is not allowed", "see docs/graph-cypher.md for what is")
        return self._parts(node)

    def _parts(self, node: Any) -> str:
        return " ".join(filter(None, map(self._rule, node.getChildren()))).replace(" , ", ", ")

    def _word(self, terminal: Any) -> str:
        from antlr4 import Token
        from antlr4_cypher import CypherLexer

        text = terminal.symbol.text
        if terminal.symbol.type in (CypherLexer.SP, CypherLexer.SEMI, Token.EOF):
            return ""
        word = text.upper()
        if not text.isascii() or word not in SAID.words("words"):
            refuse_at(terminal, f"{shown(text)} is not allowed", "see docs/graph-cypher.md for what is")
        return str(word)

    # Names, texts and numbers.

    def _parameter(self, node: Any) -> str:
        name = node.symbol().getText() if node.symbol() is not None else ""
        if not _PLAIN_NAME.match(name):
            refuse_at(node, f"{shown(node.getText())} is no name of a parameter", "letters, digits and underscores")
        self.parameters.add(name)
        return f"$p_{name}"

    def _symbol(self, node: Any) -> str:
        """Write a variable. A name that is not plain is replaced by one that no plain name equals."""
        text = node.getText()
        if text[:1].isdigit():
            return self._number(node, text)
        name = text[1:-1] if text[:1] == "`" else text
        if not name or len(name) > _MAX_NAME_CHARACTERS:
            refuse_at(node, f"{shown(text)} is no name for a variable", f"1 to {_MAX_NAME_CHARACTERS} characters")
        return f"`{name}`" if _PLAIN_NAME.match(name) else f"`name_{sha256(name.encode()).hexdigest()}`"

    def _numLit(self, node: Any) -> str:  # noqa: N802
        return self._number(node, node.getText())

    def _stringLit(self, node: Any) -> str:  # noqa: N802
        try:
            text = decode_text(node.getText())
        except ValueError as error:
            refuse_at(node, f"in this text {error}", r"known are \n \t \r \b \f \\ \' \" and \u with four digits")
        name = f"s_{len(self.literals)}"
        self.literals[name] = text
        return f"${name}"

    _charLit = _stringLit  # noqa: N815

    def _number(self, node: Any, written: str) -> str:
        try:
            return repr(decode_number(written))
        except ValueError as error:
            refuse_at(node, f"the number {shown(written)} {error}", "write it in decimal digits, up to 64 bits")

    def _whole(self, node: Any, written: str, remedy: str = "a number from 0") -> int:
        try:
            number = decode_number(written)
        except ValueError:
            number = -1
        if not isinstance(number, int) or number < 0:
            refuse_at(node, f"{shown(written)} is no whole number from 0", remedy)
        return number


def rule_of(node: Any) -> str:
    """Return the name of a node's rule in the grammar; empty for a word or sign."""
    return str(node.parser.ruleNames[node.getRuleIndex()]) if hasattr(node, "getRuleIndex") else ""


def only_child(node: Any) -> Any:
    """Return the only descendant of an expression, or its first node that has several parts."""
    while node.getChildCount() == 1 and hasattr(node.getChild(0), "getRuleIndex"):
        node = node.getChild(0)
    return node


def one_of(node: Any, kind: str, allowed: frozenset[Any]) -> str:
    """Return the name that a node holds. Raises InvalidInput where it is not among those allowed."""
    text = node.getText()
    name = text[1:-1] if text[:1] == "`" else text
    if name not in {str(one) for one in allowed}:
        refuse_at(node, f"the {kind} {shown(text)} is not known", f"one of {listed(allowed)}")
    return str(name)


def listed(names: Iterable[Any]) -> str:
    """Return the names for people, in alphabetical order."""
    return ", ".join(sorted(str(name) for name in names))


MAX_HOPS = 5
MAX_HOPS_OF_SHORTEST = 10
"""Limit of a shortest path, which is searched from both ends and visits a node once."""
MAX_NODES = 16
"""Node patterns in one query."""
_NO_PATTERN = "a pattern is like (d:Document)-[:LINKS_TO]->(u)"


class Patterns(Walk):
    """Writes patterns: the corpus stands in every node, and every path has a greatest length."""

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
        """Return the labels of which a node has one."""
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
        # Both arrows mean either direction, as no arrow does; no engine accepts both.
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

    # Patterns in EXISTS and COUNT.

    def _subqueryExist(self, node: Any) -> str:  # noqa: N802
        kind = node.EXISTS().getText().upper()
        if node.patternWhere() is None:
            refuse_at(
                node, f"a question inside of {kind} {{ … }}", "a pattern and a WHERE: EXISTS { (d)-->() WHERE … }"
            )
        return f"{kind} {{ MATCH {self._rule(node.patternWhere())} }}"

    def _pattern_in(self, kind: str, pattern: Any) -> str:
        return f"{kind} {{ MATCH {self._rule(pattern)} }}"
