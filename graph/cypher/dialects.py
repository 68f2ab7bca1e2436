"""What differs between the engines that answer Cypher: each word of it is here and nowhere else.

A question is written in the openCypher that Neo4j speaks. Functions are called by these names whatever their case; a
dialect says how an engine calls them. `{0}`, `{1}` stand for the arguments.
"""

from __future__ import annotations

from typing import NamedTuple


class Function(NamedTuple):
    """How many arguments a function takes, and how it is written: by their number, or `*` for any."""

    fewest: int
    most: int
    written: dict[int | str, str]
    takes_distinct: bool = False


class Dialect(NamedTuple):
    """The words of one engine."""

    name: str
    functions: dict[str, Function]
    variable_length: str
    """`{0}` is the least and `{1}` the greatest number of edges. No edge is walked twice, whatever the engine."""
    label_test: str
    """`{0}` is a variable, `{1}` a label."""


def _same(name: str, fewest: int = 1, most: int = 1, distinct: bool = False) -> Function:
    return Function(fewest, most, {"*": name + "({*})"}, distinct)


_COMMON = {
    **{name: _same(name, distinct=True) for name in ("count", "collect", "sum", "avg", "min", "max")},
    **{name: _same(name) for name in ("size", "length", "nodes", "relationships")},
    **{name: _same(name) for name in ("abs", "floor", "ceil", "trim", "ltrim", "rtrim", "reverse")},
    **{name.lower(): _same(name) for name in ("toLower", "toUpper")},
    "lower": _same("toLower"),
    "upper": _same("toUpper"),
    "coalesce": _same("coalesce", 1, 8),
    "replace": _same("replace", 3, 3),
    "left": _same("left", 2, 2),
    "right": _same("right", 2, 2),
    "range": _same("range", 2, 2),
}

_NEO4J = {
    **_COMMON,
    **{name: _same(name) for name in ("type", "labels", "head", "last")},
    **{name.lower(): _same(name) for name in ("toString", "toInteger", "toFloat")},
    "round": _same("round"),
    "split": _same("split", 2, 2),
    "substring": _same("substring", 2, 3),
}

_LADYBUG = {
    **_COMMON,
    "type": Function(1, 1, {1: "label({0})"}),
    "labels": Function(1, 1, {1: "[label({0})]"}),
    "head": Function(1, 1, {1: "list_extract({0}, 1)"}),
    "last": Function(1, 1, {1: "list_extract({0}, -1)"}),
    "tostring": Function(1, 1, {1: "CAST({0} AS STRING)"}),
    "tointeger": Function(1, 1, {1: "CAST({0} AS INT64)"}),
    "tofloat": Function(1, 1, {1: "CAST({0} AS DOUBLE)"}),
    "round": Function(1, 1, {1: "round({0}, 0)"}),
    "split": Function(2, 2, {2: "string_split({0}, {1})"}),
    # Its first character is number 1.
    "substring": Function(
        2, 3, {2: "substring({0}, ({1}) + 1, size({0}))", 3: "substring({0}, ({1}) + 1, {2})"}
    ),
}  # fmt: skip

LADYBUG = Dialect("ladybug", _LADYBUG, "* TRAIL {0}..{1}", "label({0}) = '{1}'")
NEO4J = Dialect("neo4j", _NEO4J, "*{0}..{1}", "{0}:{1}")
"""Memgraph understands it as well."""

FUNCTIONS = frozenset(_NEO4J)
