"""Write a parsed question anew, from allowed parts only.

Each rule of the grammar that may occur has a method or a place in a table here; any other is refused where it stands.
So a part of the language that nobody thought of is refused, not let through. Names are checked against the schema,
texts become parameters, and what is written holds no word of the question but plain names and numbers.
"""

from __future__ import annotations

import re
from typing import Any

from contracts.graph.model import EdgeType, NodeLabel
from graph.cypher.dialects import FUNCTIONS, Dialect
from graph.cypher.literals import decode_number, decode_text
from graph.cypher.parse import refuse_at, shown
from graph.cypher.schema import EDGE_PROPERTIES, PROPERTIES

MAX_HOPS = 5
MAX_RANGE = 10_000
MAX_NODES = 16
"""Node patterns in one question."""
MAX_COLUMN_CHARACTERS = 100

_PASSED_ON = frozenset(
    {
        "script", "query", "regularQuery", "singleQuery", "singlePartQ", "multiPartQ", "readingStatement", "matchSt",
        "patternWhere", "where", "pattern", "patternPart", "patternElemChain",
        "returnSt", "withSt", "projectionItems", "orderSt", "orderItem", "expression", "xorExpression",
        "andExpression", "notExpression", "comparisonExpression", "comparisonSigns", "addSubExpression",
        "multDivExpression", "powerExpression", "unaryAddSubExpression", "atomicExpression", "stringExpression",
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

_REFUSED = {
    "updatingStatement": ("changes the graph", "a question only reads: MATCH … RETURN …"),
    "standaloneCall": ("CALL is not allowed", "a question only reads: MATCH … RETURN …"),
    "queryCallSt": ("CALL is not allowed", "a question only reads: MATCH … RETURN …"),
    "unionSt": ("UNION is not allowed", "ask two questions"),
    "subqueryExist": ("EXISTS { … } is not allowed", "write the pattern itself, as in WHERE (d)-[:LINKS_TO]->()"),
    "patternComprehension": ("a pattern inside of a list is not allowed", "use OPTIONAL MATCH and collect()"),
    "listComprehension": ("a list made by a loop is not allowed", "use UNWIND of a parameter, or collect()"),
    "filterWith": ("all, any, none and single are not allowed", "test with IN, or UNWIND a parameter"),
    "mapLit": ("a map is not allowed here", "return its values as columns"),
}


class Writer:
    """One question in the words of one dialect. Use once: `write(tree)`, then read the other members."""

    def __init__(self, dialect: Dialect) -> None:
        self.literals: dict[str, str] = {}
        """Texts of the question, by the name of the parameter that carries them."""
        self.parameters: set[str] = set()
        """The caller's parameters that are used, by their own names."""
        self.columns: tuple[str, ...] | None = None
        """None where all variables are returned: then the engine names them."""
        self.skip: int | str = 0
        self.limit: int | str | None = None
        """A number, or the name of a parameter of the caller."""
        from antlr4_cypher import CypherLexer

        self._dialect = dialect
        self._blanks = (CypherLexer.SP, CypherLexer.WHITESPACE, CypherLexer.Comment)
        self._nodes = 0
        self._unwinds = 0

    def write(self, tree: Any) -> str:
        """The statement without its last SKIP and LIMIT. Raises InvalidInput of `query`."""
        return self._rule(tree).strip()

    def _rule(self, node: Any) -> str:
        if not hasattr(node, "getRuleIndex"):
            return self._word(node)
        rule = node.parser.ruleNames[node.getRuleIndex()]
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
        text = terminal.symbol.text
        if terminal.symbol.type in self._blanks or text in (";", "<EOF>"):
            return ""
        word = text.upper()
        if not text.isascii() or word not in _WORDS:
            refuse_at(terminal, f"{shown(text)} is not allowed", "see docs/graph-cypher.md for what is")
        return str(word)

    # Patterns.

    def _nodePattern(self, node: Any) -> str:  # noqa: N802
        self._nodes += 1
        if self._nodes > MAX_NODES:
            refuse_at(node, f"more than {MAX_NODES} nodes in the patterns", "take the question apart")
        label = ""
        if node.nodeLabels() is not None:
            names = node.nodeLabels().name()
            if len(names) > 1:
                refuse_at(names[1], "more than one label on a node", "a node has one; test labels(n) in WHERE")
            label = ":" + self._label(names[0])
        variable = self._rule(node.symbol()) if node.symbol() is not None else ""
        pairs = self._properties_of(node, PROPERTIES - {"corpus"})
        return f"({variable}{label} {{{', '.join(['corpus: $corpus', *pairs])}}})"

    def _patternElem(self, node: Any) -> str:  # noqa: N802
        if node.functionInvocation() is not None or node.patternElem() is not None:
            refuse_at(node, f"{shown(node.getText())} is no pattern", "a pattern is like (d:Document)-[:LINKS_TO]->(u)")
        return self._parts(node)

    def _relationshipPattern(self, node: Any) -> str:  # noqa: N802
        return "".join(map(self._rule, node.getChildren()))

    def _relationDetail(self, node: Any) -> str:  # noqa: N802
        variable = self._rule(node.symbol()) if node.symbol() is not None else ""
        types = node.relationshipTypes()
        names = [self._edge_type(name) for name in types.name()] if types is not None else []
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
        least = self._whole(node, before) if before else 1
        if (dots and not after) or not (before or after):
            refuse_at(node, "a path without a greatest length", f"write *1..{MAX_HOPS} or less")
        most = self._whole(node, after) if dots else least
        if most > MAX_HOPS:
            refuse_at(node, f"a path of up to {most} edges", f"at most {MAX_HOPS}")
        if least > most:
            refuse_at(node, f"a path of at least {least} and at most {most} edges", "the first is the smaller one")
        return self._dialect.variable_length.format(least, most)

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
                remedy = "the corpus is that of the request" if name == "corpus" else f"one of {_list(allowed)}"
                refuse_at(pair, f"the property {shown(name)} is not allowed here", remedy)
            pairs.append(f"{name}: {self._rule(pair.expression())}")
        return pairs

    def _label(self, node: Any) -> str:
        return _one_of(node, "label", frozenset(NodeLabel))

    def _edge_type(self, node: Any) -> str:
        return _one_of(node, "edge", frozenset(EdgeType))

    # What is read one by one, returned, ordered and cut.

    def _unwindSt(self, node: Any) -> str:  # noqa: N802
        self._unwinds += 1
        if self._unwinds > 1:
            refuse_at(node, "a second UNWIND", "one is allowed")
        source = _only_child(node.expression())
        rule = source.parser.ruleNames[source.getRuleIndex()]
        is_range = rule == "functionInvocation" and source.invocationName().getText().lower() == "range"
        if rule != "parameter" and rule != "listLit" and not is_range:
            refuse_at(node.expression(), "UNWIND of what is computed", "hand the list in as a parameter: UNWIND $ids")
        return f"UNWIND {self._rule(node.expression())} AS {self._rule(node.symbol())}"

    def _projectionBody(self, node: Any) -> str:  # noqa: N802
        is_last = node.parser.ruleNames[node.parentCtx.getRuleIndex()] == "returnSt"
        parts = ["DISTINCT"] if node.DISTINCT() is not None else []
        parts.append(self._rule(node.projectionItems()))
        if node.orderSt() is not None:
            parts.append(self._rule(node.orderSt()))
        skip = self._count(node.skipSt(), is_last) if node.skipSt() is not None else None
        limit = self._count(node.limitSt(), is_last) if node.limitSt() is not None else None
        if is_last:
            self.skip, self.limit = skip or 0, limit
            self.columns = _columns(node.projectionItems())
        else:
            parts += [f"SKIP {skip}"] if skip is not None else []
            parts += [f"LIMIT {limit}"] if limit is not None else []
        return " ".join(parts)

    def _count(self, node: Any, may_be_parameter: bool) -> int | str:
        found = _only_child(node.expression())
        text = found.getText()
        if may_be_parameter and text.startswith("$"):
            return self._parameter(found).removeprefix("$p_")
        remedy = "a number, or in the last clause a parameter" if may_be_parameter else "a number"
        return self._whole(node, text, remedy)

    def _projectionItem(self, node: Any) -> str:  # noqa: N802
        written = self._rule(node.expression())
        return f"{written} AS {self._rule(node.symbol())}" if node.symbol() is not None else written

    # Values.

    def _functionInvocation(self, node: Any) -> str:  # noqa: N802
        name = node.invocationName().getText().lower()
        if name not in FUNCTIONS:
            remedy = "use n.id" if name in ("id", "elementid") else f"one of {_list(FUNCTIONS)}"
            refuse_at(node, f"the function {shown(node.invocationName().getText())} is not allowed", remedy)
        function = self._dialect.functions[name]
        expressions = self._arguments(node)
        if not function.fewest <= len(expressions) <= function.most:
            refuse_at(
                node, f"{name} with {len(expressions)} values", f"it takes {_span(function.fewest, function.most)}"
            )
        if name == "range":
            self._look_at_range(node, expressions)
        arguments = [self._rule(expression) for expression in expressions]
        distinct = node.DISTINCT() is not None
        if distinct and not function.takes_distinct:
            refuse_at(node, f"DISTINCT inside of {name}", "it belongs into count, collect, sum, avg, min and max")
        written = function.written.get(len(arguments)) or function.written["*"]
        everything = ("DISTINCT " if distinct else "") + ", ".join(arguments)
        # The arguments may hold braces; the parts of a dialect hold none but the places.
        return re.sub(r"\{(\*|\d)\}", lambda at: everything if at[1] == "*" else arguments[int(at[1])], written)

    def _arguments(self, node: Any) -> list[Any]:
        """The expressions in the brackets; the grammar takes a function of a function for a pattern."""
        pattern = node.patternElem()
        if pattern is not None:
            if pattern.functionInvocation() is None:
                refuse_at(pattern, "a pattern as a value is not allowed", "use OPTIONAL MATCH and count()")
            return [pattern.functionInvocation()]
        chain = node.expressionChain()
        return list(chain.expression()) if chain is not None else []

    def _look_at_range(self, node: Any, ends: list[Any]) -> None:
        first, last = (self._whole(end, end.getText(), "the ends of a range are numbers") for end in ends)
        if last - first >= MAX_RANGE:
            refuse_at(node, f"a range of {last - first + 1:,} numbers", f"at most {MAX_RANGE:,}")

    def _propertyExpression(self, node: Any) -> str:  # noqa: N802
        names = node.name()
        if len(names) > 1:
            refuse_at(names[1], "a property of a property", "properties are texts, numbers and lists")
        if not names:
            return self._rule(node.atom())
        return f"{self._rule(node.atom())}.{_one_of(names[0], 'property', PROPERTIES)}"

    def _propertyOrLabelExpression(self, node: Any) -> str:  # noqa: N802
        written = self._rule(node.propertyExpression())
        if node.nodeLabels() is None:
            return written
        names = node.nodeLabels().name()
        if len(names) > 1 or not re.fullmatch(r"`\w+`", written):
            refuse_at(node.nodeLabels(), "a label here is not allowed", "write WHERE n:Document, with one label")
        return self._dialect.label_test.format(written, self._label(names[0]))

    def _listExpression(self, node: Any) -> str:  # noqa: N802
        if node.IN() is None:
            refuse_at(node, "a place in a list by its number", "use head(list) or last(list)")
        return self._parts(node)

    def _parameter(self, node: Any) -> str:
        name = node.symbol().getText() if node.symbol() is not None else ""
        if not _PLAIN_NAME.match(name):
            refuse_at(node, f"{shown(node.getText())} is no name of a parameter", "letters, digits and underscores")
        self.parameters.add(name)
        return f"$p_{name}"

    def _symbol(self, node: Any) -> str:
        text = node.getText()
        if text[:1].isdigit():
            return self._number(node, text)
        name = text[1:-1] if text[:1] == "`" else text
        if not _PLAIN_NAME.match(name):
            refuse_at(node, f"{shown(text)} is no name for a variable",
                      "ASCII letters, digits and underscores, at most 63")  # fmt: skip
        return f"`{name}`"

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


def _only_child(node: Any) -> Any:
    """What an expression consists of, where it is a single thing; else the first node that has several parts."""
    while node.getChildCount() == 1 and hasattr(node.getChild(0), "getRuleIndex"):
        node = node.getChild(0)
    return node


def _columns(items: Any) -> tuple[str, ...] | None:
    if items.MULT() is not None:
        return None
    return tuple(_column(item) for item in items.projectionItem())


def _column(item: Any) -> str:
    if item.symbol() is not None:
        return str(item.symbol().getText().strip("`"))
    written = item.start.getInputStream().getText(item.start.start, item.stop.stop)
    return " ".join(written.split())[:MAX_COLUMN_CHARACTERS]


def _one_of(node: Any, kind: str, allowed: frozenset[Any]) -> str:
    text = node.getText()
    name = text[1:-1] if text[:1] == "`" else text
    if name not in {str(one) for one in allowed}:
        refuse_at(node, f"the {kind} {shown(text)} is not known", f"one of {_list(allowed)}")
    return str(name)


def _list(names: frozenset[Any]) -> str:
    return ", ".join(sorted(str(name) for name in names))


def _span(fewest: int, most: int) -> str:
    return str(fewest) if fewest == most else f"{fewest} to {most}"
