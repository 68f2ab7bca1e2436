"""Java. A class is known by its package: `com.acme.shop.Cart`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import Origin
from sluice.graph.extract.languages.rules import Imported, Rules, joined, line_of, placed_as_named, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MORE = """
(enum_declaration name: (identifier) @name) @definition.enum
(record_declaration name: (identifier) @name) @definition.class
(annotation_type_declaration name: (identifier) @name) @definition.interface
(annotation_type_element_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.constructor
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(enum_constant name: (identifier) @name) @definition.field
(superclass [
  (type_identifier) @name
  (generic_type (type_identifier) @name)
  (scoped_type_identifier (type_identifier) @name .)
]) @reference.inherits
(super_interfaces (type_list [(type_identifier) @name (generic_type (type_identifier) @name)])) @reference.inherits
(extends_interfaces (type_list [(type_identifier) @name (generic_type (type_identifier) @name)])) @reference.inherits
(type_identifier) @name @reference.type
(marker_annotation name: (identifier) @name) @reference.type
(annotation name: (identifier) @name) @reference.type
(method_reference . (identifier) @name) @reference.value
(field_access object: (identifier) @name) @reference.value
(method_invocation object: (identifier) @name) @reference.value
"""
_NAMES = """
    String Object Integer Long Double Float Boolean Character Byte Short Number Math System Thread Runnable
    Exception RuntimeException IllegalArgumentException IllegalStateException NullPointerException
    IndexOutOfBoundsException Error Throwable Iterable Comparable CharSequence StringBuilder StringBuffer
    Class Override Deprecated SuppressWarnings Void FunctionalInterface SafeVarargs AutoCloseable Cloneable
    Enum Record UnsupportedOperationException InterruptedException ArithmeticException ClassCastException
    NumberFormatException var
"""
_BUILTINS = frozenset(_NAMES.split())


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
    """A class of the same package, or one with its package written out."""
    if chain[0][:1].isupper():
        return joined(module, *chain), Origin.IMPORT
    is_class = len(chain) > 2 and any(part[:1].isupper() for part in chain[1:-1])
    return (joined(*chain), Origin.IMPORT) if is_class and all(part.islower() for part in chain[:2]) else None


JAVA = Rules(
    language="java",
    wheels=("java",),
    more=_MORE,
    module=_module,
    imports=_imports,
    place=placed_as_named,
    chains={"method_invocation": ("object", "name"), "field_access": ("object", "field")},
    wholes=frozenset(),
    own=frozenset({"this", "super"}),
    builtins=_BUILTINS,
    sees_members=True,
    qualify=_qualify,
)
