"""Java. A class is named with its package: `com.acme.shop.Cart`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import Origin
from sluice.graph.extract.languages.rules import Imported, Rules, joined, line_of, placed_as_named, text_of

if TYPE_CHECKING:
    from tree_sitter import Node


def _module(path: str | None, root: Node) -> str:
    for node in root.named_children:
        if node.type == "package_declaration" and node.named_children:
            return text_of(node.named_children[-1]).replace(" ", "")
    return ""


def _imports(root: Node, module: str, path: str | None) -> Iterator[Imported]:
    for node in root.named_children:
        if node.type != "import_declaration" or not node.named_children:
            continue
        meaning = text_of(node.named_children[0]).replace(" ", "")
        if node.named_children[-1].type == "asterisk":
            yield Imported("", meaning, line_of(node), is_module=True)
        elif meaning:
            yield Imported(meaning.rpartition(".")[2], meaning, line_of(node))


def _qualify(chain: tuple[str, ...], is_path: bool, module: str, path: str | None) -> tuple[str, Origin] | None:
    """Qualify a class of the same package, or one with its package written out."""
    if chain[0][:1].isupper():
        return joined(module, *chain), Origin.IMPORT
    is_class = len(chain) > 2 and any(part[:1].isupper() for part in chain[1:-1])
    return (joined(*chain), Origin.IMPORT) if is_class and all(part.islower() for part in chain[:2]) else None


JAVA = Rules(
    language="java",
    wheels=("java",),
    queries=("java",),
    module=_module,
    imports=_imports,
    place=placed_as_named,
    chains={"method_invocation": ("object", "name"), "field_access": ("object", "field")},
    wholes=frozenset(),
    own=frozenset({"this", "super"}),
    sees_members=True,
    qualify=_qualify,
)
