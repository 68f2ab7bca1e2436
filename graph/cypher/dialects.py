"""The differences between the engines that answer Cypher, and the words of a question, from `cypher.toml`.

A question is written in the openCypher that Neo4j speaks; a dialect says how an engine calls what is in it.
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
"""Functions that no engine is asked for: they are written by other means."""


class Function(NamedTuple):
    """How many arguments a function takes, and how it is written by their number; the last way counts for more."""

    fewest: int
    most: int
    written: tuple[str, ...]
    takes_distinct: bool = False


class Dialect(NamedTuple):
    """The words of one engine. `{0}`, `{1}` stand for what is filled in."""

    functions: Mapping[str, Function]
    """By their names in lower case."""
    variable_length: str
    """`{0}` is the least and `{1}` the greatest number of edges. No edge is walked twice, whatever the engine."""
    label_test: str
    """`{0}` is a variable, `{1}` a label."""
    either_label: str
    """Between the labels of which a node has one."""
    shortest: Mapping[str, tuple[str, str]]
    """By the name of the function in lower case: the length, as `variable_length`, and what stands around the path."""
    matches: str
    """Whether the regular expression `{1}` describes all of the text `{0}`. Empty: it cannot be asked."""
    place: str
    """In the list `{0}` the place `{1}` from 0, which is `{2}` from 1; null beyond its end."""
    place_from_end: str
    """The place `{1}` from the end, whose last is 1."""
    part: str
    """From the place `{1}` from 0, which is `{3}` from 1, up to the one before `{2}` from 0."""
    loop: Mapping[str, str]
    """To `filter`, to `map`, or `both`: by variable, list, condition and result."""
    order_alone: str
    """After the ORDER BY of a WITH that cuts nothing."""
    loops_without_parameters: bool
    """Whether the engine fails where a parameter stands inside of a loop."""


@cache
def dialect_named(name: str) -> Dialect:
    """The dialect of an engine, `LADYBUG` or `NEO4J`. Memgraph understands Neo4j's as well, but for shortest paths."""
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
