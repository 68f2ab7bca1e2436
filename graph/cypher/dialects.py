"""The differences between the engines that answer Cypher, and the words of a query, from `cypher.toml`.

A query is written in the openCypher that Neo4j speaks; a dialect has an engine's words for its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sluice.text.pattern_file import PatternFile

LADYBUG, NEO4J = "ladybug", "neo4j"
SAID = PatternFile(Path(__file__).with_name("cypher.toml"))
WRITTEN_OUT = frozenset({"exists", "id", "elementid", "isempty"})
"""Functions that are never sent to an engine: the query is written by other means."""


class Function(NamedTuple):
    """Fewest and most arguments of a function, and its text by their number; the last text serves for more."""

    fewest: int
    most: int
    written: tuple[str, ...]
    takes_distinct: bool = False


class Dialect(NamedTuple):
    """The words of one engine. `{0}`, `{1}` are placeholders."""

    functions: Mapping[str, Function]
    """By lower-case name."""
    variable_length: str
    """`{0}` is the least and `{1}` the greatest number of edges. No engine walks an edge twice."""
    label_test: str
    """`{0}` is a variable, `{1}` a label."""
    either_label: str
    """Separates alternative labels of a node."""
    shortest: Mapping[str, tuple[str, str]]
    """By lower-case function name: the length, as `variable_length`, and the text around the path."""
    matches: str
    """Tests the whole text `{0}` against the regular expression `{1}`. Empty: not supported."""
    place: str
    """The item of list `{0}` at position `{1}` from 0, which is `{2}` from 1; null beyond its end."""
    place_from_end: str
    """The item at position `{1}` from the end, whose last is 1."""
    part: str
    """The slice from position `{1}` from 0, which is `{3}` from 1, up to the one before `{2}` from 0."""
    loop: Mapping[str, str]
    """Loops by name (`filter`, `map` or `both`), filled with variable, list, condition and result."""
    order_alone: str
    """Added after the ORDER BY of a WITH without SKIP and LIMIT."""
    loops_without_parameters: bool
    """Whether the engine fails on a parameter inside a loop."""


@cache
def dialect_named(name: str) -> Dialect:
    """Return the dialect of an engine, `LADYBUG` or `NEO4J`. Memgraph understands Neo4j's but for shortest paths."""
    words = dict(SAID.tables[name])
    shared = SAID.tables["functions"]
    written = {**shared["written"], **words.pop("written")}
    aggregates = shared["aggregates"].split()
    arguments = dict.fromkeys((*aggregates, *shared["of_one_value"].split()), (1, 1)) | shared["arguments"]
    functions = {
        one.lower(): Function(fewest, most, tuple(written.get(one, [f"{one}({{*}})"])), one in aggregates)
        for one, (fewest, most) in arguments.items()
    }
    return Dialect(functions, **words)
