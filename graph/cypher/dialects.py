"""A table of the differences between the engines that answer Cypher.

A question is written in the openCypher that Neo4j speaks. Functions are called by these names whatever their case; a
dialect says how an engine calls them. `{0}`, `{1}` stand for the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
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
    either_label: str
    """Between the labels of which a node has one."""
    shortest: dict[str, tuple[str, str]]
    """By the name of the function in lower case: the length, as `variable_length`, and what stands around the path."""
    matches: str | None
    """Whether the regular expression `{1}` describes all of the text `{0}`. None: the engine's may run for ever."""
    place: str
    """In the list `{0}` the place `{1}` from 0, which is `{2}` from 1; null beyond its end."""
    place_from_end: str
    """The place `{1}` from the end, whose last is 1."""
    part: str
    """From the place `{1}` from 0, which is `{3}` from 1, up to the one before `{2}` from 0."""
    loop: Callable[[str, str, str, str], str]
    """Variable, list, condition and result, of which one of the last two may be empty."""
    order_alone: str
    """After the ORDER BY of a WITH that cuts nothing."""
    loops_without_parameters: bool
    """Whether the engine fails where a parameter stands inside of a loop."""


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
    "sqrt": _same("sqrt"),
    "sign": _same("sign"),
    "log10": _same("log10"),
    "properties": _same("properties"),
}

_NEO4J = {
    **_COMMON,
    **{name: _same(name) for name in ("type", "labels", "head", "last")},
    **{name.lower(): _same(name) for name in ("toString", "toInteger", "toFloat")},
    "toboolean": _same("toBoolean"),
    "round": _same("round", 1, 2),
    "log": _same("log"),
    "split": _same("split", 2, 2),
    "substring": _same("substring", 2, 3),
    "tail": _same("tail"),
}

_LADYBUG = {
    **_COMMON,
    "type": Function(1, 1, {1: "label({0})"}),
    "labels": Function(1, 1, {1: "[label({0})]"}),
    # A place beyond the end of a list is an error to it, whatever stands in a CASE around.
    "head": Function(1, 1, {1: "list_extract(CASE WHEN size({0}) > 0 THEN {0} END, 1)"}),
    "last": Function(1, 1, {1: "list_extract(CASE WHEN size({0}) > 0 THEN {0} END, -1)"}),
    "tail": Function(1, 1, {1: f"list_slice({{0}}, 2, {2**62})"}),
    "tostring": Function(1, 1, {1: "CAST({0} AS STRING)"}),
    "tointeger": Function(1, 1, {1: "CAST({0} AS INT64)"}),
    "tofloat": Function(1, 1, {1: "CAST({0} AS DOUBLE)"}),
    "toboolean": Function(1, 1, {1: "CAST({0} AS BOOL)"}),
    "round": Function(1, 2, {1: "round({0}, 0)", 2: "round({0}, {1})"}),
    "log": Function(1, 1, {1: "ln({0})"}),
    "split": Function(2, 2, {2: "string_split({0}, {1})"}),
    # Its first character is number 1.
    "substring": Function(
        2, 3, {2: "substring({0}, ({1}) + 1, size({0}))", 3: "substring({0}, ({1}) + 1, {2})"}
    ),
}  # fmt: skip


def _ladybug_loop(name: str, values: str, condition: str, result: str) -> str:
    filtered = f"list_filter({values}, {name} -> {condition})" if condition else values
    return f"list_transform({filtered}, {name} -> {result})" if result else filtered


def _neo4j_loop(name: str, values: str, condition: str, result: str) -> str:
    where = f" WHERE {condition}" if condition else ""
    return f"[{name} IN {values}{where}{' | ' + result if result else ''}]"


LADYBUG = Dialect(
    "ladybug", _LADYBUG,
    variable_length="* TRAIL {0}..{1}",
    label_test="label({0}) = '{1}'",
    either_label=":",
    shortest={"shortestpath": ("* SHORTEST {0}..{1}", "{0}"), "allshortestpaths": ("* ALL SHORTEST {0}..{1}", "{0}")},
    matches="regexp_full_match({0}, {1})",  # RE2: it takes time by the length of the text, whatever the expression
    place="list_extract(CASE WHEN size({0}) > {1} THEN {0} END, {2})",
    place_from_end="list_extract(CASE WHEN size({0}) >= {1} THEN {0} END, -{1})",
    part="list_slice({0}, {3}, {2})",
    loop=_ladybug_loop,
    order_alone="SKIP 0",
    loops_without_parameters=True,
)  # fmt: skip
NEO4J = Dialect(
    "neo4j", _NEO4J,
    variable_length="*{0}..{1}",
    label_test="{0}:{1}",
    either_label="|",
    shortest={
        "shortestpath": ("*{0}..{1}", "shortestPath({0})"), "allshortestpaths": ("*{0}..{1}", "allShortestPaths({0})"),
    },
    matches=None,
    place="{0}[{1}]",
    place_from_end="{0}[-{1}]",
    part="{0}[{1}..{2}]",
    loop=_neo4j_loop,
    order_alone="",
    loops_without_parameters=False,
)  # fmt: skip
"""Memgraph understands it as well, but for shortest paths."""

WRITTEN_OUT = frozenset({"exists", "id", "elementid", "isempty"})
"""Functions that no engine is asked for: they are written by other means."""
FUNCTIONS = frozenset(_NEO4J) | WRITTEN_OUT
