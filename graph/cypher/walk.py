"""Walks the tree of a question: what each rule of the grammar becomes, and the refusal of those without a place here.

Each rule that may occur has a method in `Walk` or a class derived from it, or a place in a table here; any other is
refused where it stands. So a part of the language that nobody thought of is refused, not let through. Texts and numbers
of a question are values: they go to the engine as parameters, or are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from math import isfinite
from typing import Any

from sluice.graph.cypher.dialects import Dialect
from sluice.graph.cypher.parse import refuse_at, shown

_ESCAPES = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_ESCAPE = re.compile(r"\\(u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})\Z")
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
_DECIMAL = re.compile(r"-?([0-9]{1,30}\.[0-9]{1,30}|\.[0-9]{1,30}|[0-9]{1,30})([eE][+-]?[0-9]{1,3})?\Z")
_LARGEST = 2**63 - 1


def decode_text(literal: str) -> str:
    """The text that a quoted literal stands for. Raises ValueError for an escape that no engine agrees on."""
    decoded = _ESCAPE.sub(_decode_escape, literal[1:-1])
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16")


def decode_number(written: str) -> int | float:
    """The number that is written. Raises ValueError where it is none, or larger than 64 bits."""
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
    if code:
        return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else _unknown_escape(found[0])
    return _ESCAPES.get(found[4] or "") or _unknown_escape(found[0])


def _unknown_escape(escape: str) -> str:
    raise ValueError(f"the escape {escape!r} is not known")


_PASSED_ON = frozenset(
    {
        "script", "query", "regularQuery", "singleQuery", "singlePartQ", "multiPartQ", "readingStatement", "matchSt",
        "patternWhere", "where", "pattern", "patternPart", "patternElemChain",
        "withSt", "projectionItems", "orderSt", "orderItem", "expression", "xorExpression",
        "andExpression", "notExpression", "addSubExpression",
        "multDivExpression", "powerExpression", "unaryAddSubExpression", "stringExpression",
        "stringExpPrefix", "nullExpression", "atom", "relationshipsChainPattern", "parenthesizedExpression",
        "countAll", "expressionChain", "caseExpression", "literal", "boolLit",
        "listLit",
    }
)  # fmt: skip
"""Rules whose parts are written one after the other."""

_WORDS = frozenset(
    (  # noqa: SIM905
        "AND AS ASC ASCENDING BY CASE CONTAINS COUNT DESC DESCENDING DISTINCT ELSE END ENDS FALSE IN IS MATCH "
        "NOT NULL OPTIONAL OR ORDER RETURN STARTS THEN TRUE WHEN WHERE WITH XOR "
        "= <= >= > < <> . , ( ) [ ] - + / % ^ * | .. :"
    ).split()
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_MAX_NAME_CHARACTERS = 100

_REFUSED = {
    "updatingStatement": ("changes the graph", "a question only reads: MATCH … RETURN …"),
    "standaloneCall": ("CALL is not allowed", "a question only reads: MATCH … RETURN …"),
    "queryCallSt": ("CALL is not allowed", "a question only reads: MATCH … RETURN …"),
    "patternComprehension": ("a pattern inside of a list is not allowed", "use OPTIONAL MATCH and collect()"),
}


class Walk:
    """One question in the words of one dialect: names, texts and numbers, and what passes as it is."""

    def __init__(self, dialect: Dialect) -> None:
        self.literals: dict[str, str] = {}
        """Texts of the question, by the name of the parameter that carries them."""
        self.parameters: set[str] = set()
        """The caller's parameters that are used, by their own names."""
        self._dialect = dialect

    def _rule(self, node: Any) -> str:
        if not hasattr(node, "getRuleIndex"):
            return self._word(node)
        rule = rule_of(node)
        if rule in _REFUSED:
            refuse_at(node, *_REFUSED[rule])
        method = getattr(self, "_" + rule, None)
        if method is not None:
            return str(method(node))
        if rule not in _PASSED_ON:
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
        if not text.isascii() or word not in _WORDS:
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
        """A variable. What is no plain name gets one that no plain name equals."""
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
    """The name of the grammar's rule that a node of the tree is of; empty for a word or sign."""
    return str(node.parser.ruleNames[node.getRuleIndex()]) if hasattr(node, "getRuleIndex") else ""


def only_child(node: Any) -> Any:
    """What an expression consists of, where it is a single thing; else the first node that has several parts."""
    while node.getChildCount() == 1 and hasattr(node.getChild(0), "getRuleIndex"):
        node = node.getChild(0)
    return node


def one_of(node: Any, kind: str, allowed: frozenset[Any]) -> str:
    """The name that a node holds. Raises InvalidInput where it is not among those allowed."""
    text = node.getText()
    name = text[1:-1] if text[:1] == "`" else text
    if name not in {str(one) for one in allowed}:
        refuse_at(node, f"the {kind} {shown(text)} is not known", f"one of {listed(allowed)}")
    return str(name)


def listed(names: Iterable[Any]) -> str:
    """The names for people, in the order of the alphabet."""
    return ", ".join(sorted(str(name) for name in names))
