"""C and C++. There are no modules: what is not `static` has one name in all files, with its namespaces and classes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.graph.extract.languages.rules import Imported, Placed, Rules, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_MORE = """
(union_specifier name: (type_identifier) @name body: (_)) @definition.class
(enum_specifier name: (type_identifier) @name body: (_)) @definition.enum
(type_definition declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (type_identifier) @name)))) @definition.type
(preproc_def name: (identifier) @name) @definition.macro
(preproc_function_def name: (identifier) @name) @definition.macro
(translation_unit (declaration declarator: (init_declarator declarator: [
  (identifier) @name
  (pointer_declarator declarator: (identifier) @name)
  (array_declarator declarator: (identifier) @name)
]) @definition.variable))
(translation_unit (declaration declarator: (identifier) @name) @definition.variable)
(translation_unit (declaration declarator: (array_declarator declarator: (identifier) @name)) @definition.variable)
(call_expression function: (identifier) @name) @reference.call
(call_expression function: (field_expression field: (field_identifier) @name)) @reference.call
(type_identifier) @name @reference.type
(argument_list (identifier) @name) @reference.value
(init_declarator value: (identifier) @name) @reference.value
(initializer_list (identifier) @name) @reference.value
(initializer_pair value: (identifier) @name) @reference.value
(binary_expression (identifier) @name) @reference.value
(return_statement (identifier) @name) @reference.value
(pointer_expression argument: (identifier) @name) @reference.value
"""
_MORE_CPP = """
(class_specifier name: (template_type name: (type_identifier) @name) body: (_)) @definition.class
(class_specifier name: (type_identifier) @name body: (_)) @definition.class
(struct_specifier name: (template_type name: (type_identifier) @name) body: (_)) @definition.class
(namespace_definition name: (namespace_identifier) @name) @scope
(namespace_definition name: (nested_namespace_specifier) @name) @scope
(alias_declaration name: (type_identifier) @name) @definition.type
(concept_definition name: (identifier) @name) @definition.type
(function_declarator declarator: (qualified_identifier) @name) @definition.method
(function_declarator declarator: (destructor_name) @name) @definition.method
(call_expression function: (qualified_identifier name: (identifier) @name)) @reference.call
(call_expression function: (template_function name: (identifier) @name)) @reference.call
(base_class_clause [
  (type_identifier) @name
  (template_type name: (type_identifier) @name)
  (qualified_identifier name: (type_identifier) @name)
]) @reference.inherits
"""
_NAMES = """
    size_t ssize_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t
    uintptr_t bool FILE NULL va_list wchar_t off_t time_t printf fprintf snprintf sprintf malloc calloc
    realloc free memcpy memset memmove memcmp strlen strcmp strncmp strcpy strncpy strchr strstr abort exit
    assert sizeof std move forward string vector unique_ptr shared_ptr make_unique make_shared
"""
_BUILTINS = frozenset(_NAMES.split())
_DECLARATOR = re.compile(r"(?:::|\s)*([A-Za-z_~][\w~]*(?:\s*<[^<>]*>)?(?:\s*::\s*~?[A-Za-z_]\w*(?:\s*<[^<>]*>)?)*)")
_ARGUMENTS = re.compile(r"<[^<>]*>")


def _module(path: str | None, root: Node) -> str:
    return ""


def _imports(root: Node, module: str, path: str | None) -> Iterator[Imported]:
    return iter(())


def _place(name: Node, whole: Node) -> Placed:
    while name.parent is not None and name.parent.type == "qualified_identifier":
        name = name.parent
    is_private = "static" in (text_of(child) for child in whole.children if child.type == "storage_class_specifier")
    if name.type not in ("qualified_identifier", "nested_namespace_specifier"):
        return Placed(text_of(name), is_private=is_private and _is_outermost(whole))
    written = _DECLARATOR.match(_ARGUMENTS.sub("", text_of(name)))
    parts = [part.strip() for part in written[1].split("::")] if written else []
    if not parts or parts[-1].startswith("operator"):
        return Placed("")
    return Placed(".".join(parts), owner="" if name.type != "qualified_identifier" else ".".join(parts[:-1]))


def _is_outermost(whole: Node) -> bool:
    return whole.parent is not None and whole.parent.type in ("translation_unit", "preproc_ifdef", "preproc_if")


def included(root: Node, path: str | None) -> Iterator[tuple[str, bool, int]]:
    """The files that a source includes by `#include "x.h"` or `<x.h>`: as written, whether in quotes, the line."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for child in node.named_children:
            if child.type == "preproc_include":
                file = text_of(child.child_by_field_name("path"))
                written = posixpath.normpath(file.strip('"<>').strip()) if len(file) > 2 else ""
                if written and not written.startswith(".."):
                    yield written, file.startswith('"'), child.start_point.row + 1
                elif written:
                    yield (
                        posixpath.normpath(posixpath.join(posixpath.dirname(path or ""), written)),
                        True,
                        child.start_point.row + 1,
                    )
            elif child.type.startswith("preproc_") or child.type == "linkage_specification":
                waiting.append(child)


C = Rules(
    language="c",
    wheels=("c",),
    more=_MORE,
    module=_module,
    imports=_imports,
    place=_place,
    chains={"field_expression": ("argument", "field"), "qualified_identifier": ("scope", "name")},
    wholes=frozenset(
        {"function_definition", "declaration", "pointer_declarator", "reference_declarator", "template_declaration"}
        | {"field_declaration", "init_declarator"}
    ),
    own=frozenset({"this"}),
    builtins=_BUILTINS,
    is_global=True,
)
CPP = replace(
    C, wheels=("c", "cpp"), more=_MORE + _MORE_CPP, sees_members=True, paths=frozenset({"qualified_identifier"})
)
