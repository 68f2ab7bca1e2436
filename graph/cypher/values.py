"""Writes the expressions of a query anew: comparisons, functions, lists, maps, properties."""

from __future__ import annotations

import re
from typing import Any

from sluice.graph.cypher.parse import SAID, WRITTEN_OUT, Dialect, refuse_at, shown
from sluice.graph.cypher.walk import Patterns, listed, one_of, only_child, rule_of
from sluice.graph.schema import PROPERTIES

MAX_RANGE = 10_000
MAX_REPEATED_CHARACTERS = 1_000
"""Limit of a value that is written twice, so that nesting does not double it over and over."""
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./:@ -]*\Z")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}\Z")


class Values(Patterns):
    """Values are written from functions on a list, loops over lists one deep, and properties of the schema."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._is_in_loop = False
        self._keys: set[str] = set()
        """Keys of maps that the query makes."""

    def _comparisonExpression(self, node: Any) -> str:  # noqa: N802
        """Write `1 < x < 9` as two comparisons, and `=~` as a function."""
        values = [self._rule(value) for value in node.addSubExpression()]
        signs = [sign.getText() for sign in node.comparisonSigns()]
        if len(signs) > 1:
            for value, whole in zip(values[1:-1], node.addSubExpression()[1:-1], strict=True):
                self._look_at_repeated(whole, value)
        told = [
            self._compared(node, left, sign, right)
            for left, sign, right in zip(values, signs, values[1:], strict=False)
        ]
        return f"({' AND '.join(told)})" if len(told) > 1 else (told[0] if told else values[0])

    def _compared(self, node: Any, left: str, sign: str, right: str) -> str:
        if sign != "=~":
            return f"{left} {sign} {right}"
        if not self._dialect.matches:
            refuse_at(node, "a regular expression is not put to a server", "use CONTAINS, STARTS WITH or ENDS WITH")
        return self._dialect.matches.format(left, right)

    # Functions.

    def _functionInvocation(self, node: Any) -> str:  # noqa: N802
        name = node.invocationName().getText().lower()
        known = self._dialect.functions.keys() | WRITTEN_OUT
        if name not in known:
            remedy = SAID.tables["instead_of_function"].get(name, f"one of {listed(known)}")
            refuse_at(node, f"the function {shown(node.invocationName().getText())} is not allowed", remedy)
        pattern = node.patternElem()
        if pattern is not None and pattern.functionInvocation() is None:
            if name not in ("exists", "size"):
                refuse_at(pattern, "a pattern as a value is not allowed", "use COUNT { … } or EXISTS { … }")
            return self._pattern_in("EXISTS" if name == "exists" else "COUNT", pattern)
        if name in WRITTEN_OUT:
            return self._own_function(node, name)
        function = self._dialect.functions[name]
        expressions = self._arguments(node)
        if not function.fewest <= len(expressions) <= function.most:
            most = "" if function.fewest == function.most else f" to {function.most}"
            refuse_at(node, f"{name} with {len(expressions)} values", f"it takes {function.fewest}{most}")
        if name == "range":
            self._look_at_range(node, expressions)
        arguments = [self._rule(expression) for expression in expressions]
        distinct = node.DISTINCT() is not None
        if distinct and not function.takes_distinct:
            refuse_at(node, f"DISTINCT inside of {name}", "it belongs into count, collect, sum, avg, min and max")
        written = function.written[min(len(arguments) - function.fewest, len(function.written) - 1)]
        for place, argument in enumerate(arguments):
            if written.count(f"{{{place}}}") > 1:
                self._look_at_repeated(node, argument)
        everything = ("DISTINCT " if distinct else "") + ", ".join(arguments)
        return _filled(written, arguments, everything)

    def _own_function(self, node: Any, name: str) -> str:
        expressions = self._arguments(node)
        if len(expressions) != 1:
            refuse_at(node, f"{name} with {len(expressions)} values", "it takes 1")
        [value] = expressions
        if name == "exists":
            return f"({self._rule(value)} IS NOT NULL)"
        if name == "isempty":
            return f"(size({self._rule(value)}) = 0)"
        if rule_of(only_child(value)) != "symbol":
            refuse_at(node, f"{name} of {shown(value.getText())}", "it takes a variable: id(n) is n.id")
        return f"{self._rule(value)}.id"

    def _arguments(self, node: Any) -> list[Any]:
        """Return the expressions in the brackets. The grammar takes a nested function call for a pattern."""
        if node.patternElem() is not None:
            return [node.patternElem().functionInvocation()]
        chain = node.expressionChain()
        return list(chain.expression()) if chain is not None else []

    def _look_at_range(self, node: Any, ends: list[Any]) -> None:
        if self._is_in_loop:
            refuse_at(node, "a range inside of a loop", "UNWIND the range")
        first, last = (self._whole(end, end.getText(), "the ends of a range are numbers") for end in ends)
        if last - first >= MAX_RANGE:
            refuse_at(node, f"a range of {last - first + 1:,} numbers", f"at most {MAX_RANGE:,}")

    def _look_at_repeated(self, node: Any, written: str) -> None:
        if len(written) > MAX_REPEATED_CHARACTERS:
            refuse_at(node, "this value is too long here", "name it in a WITH before")

    # Lists and maps.

    def _atomicExpression(self, node: Any) -> str:  # noqa: N802
        written = ""
        for child in node.getChildren():
            is_place = rule_of(child) == "listExpression" and child.IN() is None
            written = self._place(child, written) if is_place else " ".join(filter(None, (written, self._rule(child))))
        return written

    def _place(self, node: Any, value: str) -> str:
        """Write `list[2]`, `list[-1]`, or a slice: `list[0..3]`, `list[1..]`."""
        signs = [child.getText() for child in node.getChildren() if child.getText().strip()][1:-1]
        before, dots, after = "".join(signs).partition("..")
        if not dots:
            place = self._whole(node, before.removeprefix("-"), "a place in a list is a number, as in list[0]")
            self._look_at_repeated(node, value)
            if before[:1] == "-":
                return _filled(self._dialect.place_from_end, [value, str(place)])
            return _filled(self._dialect.place, [value, str(place), str(place + 1)])
        first, last = (
            self._whole(node, end, "the ends are numbers from 0") if end else None for end in (before, after)
        )
        last = 2**62 if last is None else last
        first = first or 0
        return _filled(self._dialect.part, [value, str(first), str(last), str(first + 1)])

    def _listComprehension(self, node: Any) -> str:  # noqa: N802
        name, values, condition = self._looped(node.filterExpression())
        if node.expression() is None and not condition:
            return values
        result = self._in_loop(node.expression()) if node.expression() is not None else ""
        shape = "both" if condition and result else "filter" if condition else "map"
        return _filled(self._dialect.loop[shape], [name, values, condition, result])

    def _filterWith(self, node: Any) -> str:  # noqa: N802
        name, values, condition = self._looped(node.filterExpression())
        if not condition:
            refuse_at(node, "no condition", "as in any(x IN list WHERE x > 1)")
        return f"{node.getChild(0).getText().lower()}({name} IN {values} WHERE {condition})"

    def _parameter(self, node: Any) -> str:
        if self._is_in_loop and self._dialect.loops_without_parameters:
            name = node.getText().removeprefix("$")
            refuse_at(node, "a parameter inside of a loop", f"name it before: WITH {node.getText()} AS {name}")
        return super()._parameter(node)

    def _stringLit(self, node: Any) -> str:  # noqa: N802
        written = super()._stringLit(node)
        if not (self._is_in_loop and self._dialect.loops_without_parameters):
            return written
        text = self.literals.pop(written.removeprefix("$"))
        if not _PLAIN_TEXT.match(text):
            refuse_at(node, "a text with such signs inside of a loop", "name it before: WITH 'it\\'s' AS text")
        return f"'{text}'"

    _charLit = _stringLit  # noqa: N815

    def _looped(self, node: Any) -> tuple[str, str, str]:
        """Return the variable, the list and the condition, which may be empty."""
        if self._is_in_loop:
            refuse_at(node, "a loop inside of a loop", "UNWIND one of the lists")
        values = self._rule(node.expression())
        condition = self._in_loop(node.where().expression()) if node.where() is not None else ""
        return self._rule(node.symbol()), values, condition

    def _in_loop(self, node: Any) -> str:
        self._is_in_loop = True
        try:
            return self._rule(node)
        finally:
            self._is_in_loop = False

    def _mapLit(self, node: Any) -> str:  # noqa: N802
        pairs = []
        for pair in node.mapPair():
            key = pair.name().getText()
            key = key[1:-1] if key[:1] == "`" else key
            if not _KEY.match(key):
                refuse_at(pair, f"{shown(key)} is no key of a map", "a letter first, then letters, digits, underscores")
            self._keys.add(key)
            pairs.append(f"`{key}`: {self._rule(pair.expression())}")
        if not pairs:
            refuse_at(node, "an empty map", "leave it out")
        return f"{{{', '.join(pairs)}}}"

    # Properties.

    def _propertyExpression(self, node: Any) -> str:  # noqa: N802
        names = node.name()
        if len(names) > 1:
            refuse_at(names[1], "a property of a property", "properties are texts, numbers and lists")
        if not names:
            return self._rule(node.atom())
        atom = self._rule(node.atom())
        return f"{atom}.{one_of(names[0], 'property', PROPERTIES | self._keys)}"

    def _propertyOrLabelExpression(self, node: Any) -> str:  # noqa: N802
        written = self._rule(node.propertyExpression())
        if node.nodeLabels() is None:
            return written
        if not re.fullmatch(r"`\w+`", written):
            refuse_at(node.nodeLabels(), "a label here is not allowed", "write WHERE n:Document")
        tests = [self._dialect.label_test.format(written, label) for label in self._labels(node.nodeLabels())]
        return f"({' OR '.join(tests)})" if len(tests) > 1 else tests[0]


def _filled(written: str, arguments: list[str], everything: str = "") -> str:
    # The arguments may hold braces; the parts of a dialect hold only placeholders.
    return re.sub(r"\{(\*|\d)\}", lambda at: everything if at[1] == "*" else arguments[int(at[1])], written)
