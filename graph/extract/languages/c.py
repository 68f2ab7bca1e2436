"""C and C++. There are no modules: a non-`static` definition has one name in all files, with namespaces and classes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.graph.extract.languages.rules import Imported, Placed, Rules, line_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

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
    """Yield the files that `#include "x.h"` or `<x.h>` names: the name as written, whether in quotes, the line."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for child in node.named_children:
            if child.type == "preproc_include":
                file = text_of(child.child_by_field_name("path"))
                written = posixpath.normpath(file.strip('"<>').strip()) if len(file) > 2 else ""
                is_above = written.startswith("..")
                if is_above:
                    written = posixpath.normpath(posixpath.join(posixpath.dirname(path or ""), written))
                if written:
                    yield written, is_above or file.startswith('"'), line_of(child)
            elif child.type.startswith("preproc_") or child.type == "linkage_specification":
                waiting.append(child)


C = Rules(
    language="c",
    wheels=("c",),
    queries=("c",),
    module=_module,
    imports=_imports,
    place=_place,
    chains={"field_expression": ("argument", "field"), "qualified_identifier": ("scope", "name")},
    wholes=frozenset(
        {"function_definition", "declaration", "pointer_declarator", "reference_declarator", "template_declaration"}
        | {"field_declaration", "init_declarator"}
    ),
    own=frozenset({"this"}),
    is_global=True,
)
CPP = replace(
    C, wheels=("c", "cpp"), queries=("c", "cpp"), sees_members=True, paths=frozenset({"qualified_identifier"})
)
