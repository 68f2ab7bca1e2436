"""Things of a tree, and what relates them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from bench.graph.truth import Definition

WHOLE = 1_000_000
"""The last line of what is meant as a whole."""

RelationKind = Literal["calls", "tests", "inherits", "names", "links"]


class Thing(NamedTuple):
    """A function, class, test or page: what it is called, where it stands, and what it says of itself."""

    name: str
    place: Definition
    told: str
    kind: Literal["function", "class", "test", "page"]


class Relation(NamedTuple):
    """That `source` calls, tests, is derived from, names or links to `target`; `told` is the sentence of a link."""

    kind: RelationKind
    source: Thing
    target: Thing
    told: str = ""


_ROLE = re.compile(r":[\w:]+:`[~!.]?([^`<]*)(?:<[^`>]*>)?`")


def first_sentence(text: str) -> str:
    """The first sentence of a text, on one line, without marks of markup."""
    line = _ROLE.sub(r"\1", " ".join(text.split("\n\n")[0].split()))
    for end in (". ", "! ", "? "):
        line = line.partition(end)[0]
    return " ".join(line.replace("`", " ").replace("*", " ").split()).rstrip(".:")[:200]
