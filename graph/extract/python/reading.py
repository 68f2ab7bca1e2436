"""What is read from the tree of a Python file in one pass: its scopes, what is bound in them, and what is used."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from tree_sitter import Node

from sluice.graph.extract.python.scopes import Scope, Value

MOST_USES = 200_000
"""Of one file, the first: what uses more names is generated."""


class Use(NamedTuple):
    """A name or a chain of attributes that is used: `node` is an identifier or the outermost attribute.

    Of what is called it can be any expression: `handlers[name]` of `handlers[name](event)`.
    """

    scope: Scope
    node: Node
    is_called: bool


class Store(NamedTuple):
    """An assignment to an attribute of a name: `self.x = value`."""

    scope: Scope
    node: Node
    holder: str
    attribute: str
    value: Value


class Reading(NamedTuple):
    """A file as it is read."""

    module: Scope
    scopes: list[Scope]
    """All, the module first, outer before inner."""
    uses: list[Use]
    stores: list[Store]
    imports: list[tuple[str, int]]
    """Absolute names that the file imports, and the line."""
    stars: list[tuple[str, int]]
    """Modules of which everything is imported."""
    calls: list[tuple[Scope, Node]]
    """Calls by which tools may be registered."""
    decorated: list[tuple[Scope, Node, Scope]]
    """Decorators of functions: where each stands, and the function."""


def text(node: Node | None) -> str:
    """The source of a node, a name in the form that Python compares (NFKC); empty for none."""
    if node is None:
        return ""
    source = str(node.text or b"", "utf-8", "replace")
    if not source.isascii() and node.type == "identifier":
        return unicodedata.normalize("NFKC", source)
    return source


def string_content(node: Node) -> str:
    """What stands between the quotes of a string, without what it interpolates."""
    return "".join(text(child) for child in node.named_children if child.type == "string_content")


def line(node: Node) -> int:
    """The line on which a node begins, from 1."""
    return node.start_point.row + 1


def last_line(node: Node) -> int:
    """The line on which a node ends, from 1."""
    row, column = node.end_point.row, node.end_point.column
    return row + 1 if column or row == node.start_point.row else row
