"""The shape of what is particular to a language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import Origin

if TYPE_CHECKING:
    from tree_sitter import Node


class Imported(NamedTuple):
    """A name of the file that means something elsewhere: `local` stands for `meaning`.

    `local` is empty where the import brings no name of its own. `is_module`: what is meant is a file or a package.
    `exported`: by this name the module hands it on.
    """

    local: str
    meaning: str
    line: int
    is_module: bool = False
    exported: str = ""


class Placed(NamedTuple):
    """Where a definition belongs: its name with what holds it, and whether that counts from the module."""

    name: str
    is_absolute: bool = False
    owner: str = ""
    """The class that a method written outside of it belongs to."""
    receiver: str = ""
    """The name that the method gives to the object that it belongs to."""
    is_private: bool = False
    """Not to be seen from other files."""


@dataclass(frozen=True)
class Rules:
    """How one language is read. `wheels` are the grammars whose `queries/tags.scm` hold for it.

    `queries` names the files beside this one that add to them (`go.scm`). Their captures are those of tags (`@name`,
    `@definition.…`, `@reference.…`), and `@scope` around what holds names without being defined there.
    `@reference.value` counts only where the name is bound; `@reference.inherits` names a base of the class that it
    stands in.
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
    """Words for the object that a method belongs to."""
    sees_members: bool = False
    """Whether a bare name may be a member of the class around it."""
    sees_package: bool = False
    """Whether a bare name that the file lacks is one of its package."""
    paths: frozenset[str] = frozenset()
    """Types of nodes like `a::b`, a path of names and no member of a value."""
    qualify: Callable[[tuple[str, ...], bool, str, str | None], tuple[str, Origin] | None] = (
        lambda chain, is_path, module, path: None
    )
    """The qualified name that a chain (and whether it is a path) stands for in a module and a file, and how that is
    known; None where it is not plain."""
    is_global: bool = False
    """Whether a bare name that the file lacks is one that all files share."""


def text_of(node: Node | None) -> str:
    """The text of a node; empty for none."""
    return node.text.decode("utf-8", "replace") if node is not None and node.text else ""


def line_of(node: Node) -> int:
    """The line on which a node begins, from 1."""
    return node.start_point.row + 1


def placed_as_named(name: Node, whole: Node) -> Placed:
    """A definition whose name says all."""
    return Placed(text_of(name))


def joined(*parts: str) -> str:
    """Dotted, without those that are empty."""
    return ".".join(part for part in parts if part)


def stem_of(path: str | None) -> str:
    """A path without its suffix, with dots for slashes: `main/shop/cart.test.js` is `main.shop.cart.test`."""
    if not path:
        return ""
    folder, _, name = path.replace("\\", "/").strip("/").rpartition("/")
    stem = name.rpartition(".")[0] or name
    return joined(*folder.split("/"), stem)
