"""The rules that differ from language to language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import Origin
from sluice.text.pattern_file import PatternFile

if TYPE_CHECKING:
    from tree_sitter import Node

known = PatternFile(Path(__file__).parents[1] / "known_names.toml").words
"""Returns words of one entry of `known_names.toml`: builtin names of a language, types of Python."""


class Imported(NamedTuple):
    """An imported name: `local` in the file stands for `meaning` elsewhere.

    `local` is empty where the import binds no name. `is_module`: the import means a file or a package.
    `exported`: the name under which the module re-exports it.
    """

    local: str
    meaning: str
    line: int
    is_module: bool = False
    exported: str = ""


class Placed(NamedTuple):
    """The name of a definition with that of its holder, and whether it counts from the module."""

    name: str
    is_absolute: bool = False
    owner: str = ""
    """The class of a method that is written outside of it."""
    receiver: str = ""
    """The method's name for its own object."""
    is_private: bool = False
    """Invisible from other files."""


@dataclass(frozen=True)
class Rules:
    """The rules for reading one language. `wheels` are the grammars whose `queries/tags.scm` apply to it.

    `queries` names the files beside this one that add to them (`go.scm`). Their captures are those of tags (`@name`,
    `@definition.…`, `@reference.…`), and `@scope` around a holder of names that is not defined there.
    `@reference.value` counts only where the name is bound; `@reference.inherits` names a base of the enclosing
    class.
    """

    language: str
    wheels: tuple[str, ...]
    queries: tuple[str, ...]
    module: Callable[[str | None, Node], str]
    imports: Callable[[Node, str, str | None], Iterator[Imported]]
    place: Callable[[Node, Node], Placed]
    chains: dict[str, tuple[str, str]]
    """Types of nodes like `a.b`, and the fields that hold `a` and `b`."""
    wholes: frozenset[str]
    """Types of nodes that belong to the definition in them: `export`, a declaration around a declarator."""
    own: frozenset[str] = frozenset()
    """Words for the object of a method."""
    sees_members: bool = False
    """Whether a bare name may be a member of the class around it."""
    sees_package: bool = False
    """Whether a bare name without a definition in the file is one of its package."""
    paths: frozenset[str] = frozenset()
    """Types of nodes like `a::b`, a path of names and no member of a value."""
    qualify: Callable[[tuple[str, ...], bool, str, str | None], tuple[str, Origin] | None] = (
        lambda chain, is_path, module, path: None
    )
    """Returns the qualified name of a chain (and whether it is a path) in a module and a file, with its origin; None
    where it is ambiguous."""
    is_global: bool = False
    """Whether all files share a bare name that the file does not define."""


def text_of(node: Node | None) -> str:
    """Return the text of a node; empty for None."""
    return node.text.decode("utf-8", "replace") if node is not None and node.text else ""


def line_of(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return node.start_point.row + 1


def last_line_of(node: Node) -> int:
    """Return the line on which a node ends, from 1."""
    row, column = node.end_point.row, node.end_point.column
    return row if column == 0 and row > node.start_point.row else row + 1


def placed_as_named(name: Node, whole: Node) -> Placed:
    """Place a definition by its name alone."""
    return Placed(text_of(name))


def joined(*parts: str) -> str:
    """Join the non-empty parts by dots."""
    return ".".join(part for part in parts if part)


def stem_of(path: str | None) -> str:
    """Return a path without its suffix, with dots for slashes: `main/shop/cart.test.js` is `main.shop.cart.test`."""
    if not path:
        return ""
    folder, _, name = path.replace("\\", "/").strip("/").rpartition("/")
    stem = name.rpartition(".")[0] or name
    return joined(*folder.split("/"), stem)
