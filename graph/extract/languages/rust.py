"""Rust. A module is its path without `src`: `main/shop/src/cart/mod.rs` is `main.shop.cart`, `-` written as `_`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import Origin
from sluice.graph.extract.languages.rules import Imported, Rules, joined, line_of, placed_as_named, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_ROOTS = frozenset({"lib", "main", "mod"})


def _module(path: str | None, root: Node) -> str:
    parts = (path or "").replace("\\", "/").removesuffix(".rs").replace("-", "_").strip("/").split("/")
    if parts and parts[-1] in _ROOTS:
        parts = parts[:-1]
    return joined(*(part for part in parts if part != "src"))


def _crate_of(path: str | None) -> str:
    folders = (path or "").replace("\\", "/").replace("-", "_").strip("/").split("/")[:-1]
    return joined(*folders[: folders.index("src")]) if "src" in folders else ""


def _imports(root: Node, module: str, path: str | None) -> Iterator[Imported]:
    crate = _crate_of(path)
    for node in root.named_children:
        if node.type == "use_declaration":
            argument = node.child_by_field_name("argument")
            is_public = any(child.type == "visibility_modifier" for child in node.named_children)
            for one in _used(argument, (), 0) if argument is not None else ():
                local, parts = one
                meaning = _absolute(parts, module, crate)
                if meaning and not local and is_public:
                    yield Imported("", f"{meaning}.*", line_of(node), exported="*")
                elif meaning:
                    yield Imported(local, meaning, line_of(node), exported=local if is_public else "")


def _used(node: Node, before: tuple[str, ...], depth: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each name that a `use` binds, with its path: `use a::{b, c as d}` binds `b` and `d`."""
    if depth > 12:
        return
    match node.type:
        case "use_list":
            for child in node.named_children:
                yield from _used(child, before, depth + 1)
        case "scoped_use_list":
            inner = node.child_by_field_name("list")
            if inner is not None:
                yield from _used(inner, before + _parts(node.child_by_field_name("path")), depth + 1)
        case "use_as_clause":
            parts = before + _parts(node.child_by_field_name("path"))
            yield text_of(node.child_by_field_name("alias")), parts
        case "use_wildcard":
            yield "", before + _parts(node.named_children[0] if node.named_children else None)
        case _:
            parts = before + _parts(node)
            parts = parts[:-1] if len(parts) > 1 and parts[-1] == "self" else parts
            if parts:
                yield parts[-1], parts


def _parts(node: Node | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text_of(node).split("::") if part.strip())


def _absolute(parts: tuple[str, ...], module: str, crate: str) -> str:
    head, *rest = parts or ("",)
    if head == "crate":
        return joined(crate, *rest)
    if head in ("self", "super"):
        inside = module.split(".")
        while rest and head == "super":
            inside = inside[:-1]
            if rest[0] != "super":
                break
            head, *rest = rest
        return joined(*inside, *rest)
    return joined(*parts)


def _qualify(chain: tuple[str, ...], is_path: bool, module: str, path: str | None) -> tuple[str, Origin] | None:
    """Qualify a path from the crate, the module or another crate. A path from an unimported type says little."""
    if not is_path or chain[0][:1].isupper():
        return None
    return _absolute(chain, module, _crate_of(path)), Origin.IMPORT


RUST = Rules(
    language="rust",
    wheels=("rust",),
    queries=("rust",),
    module=_module,
    imports=_imports,
    place=placed_as_named,
    chains={
        "field_expression": ("value", "field"),
        "scoped_identifier": ("path", "name"),
        "scoped_type_identifier": ("path", "name"),
    },
    wholes=frozenset(),
    own=frozenset({"self", "Self"}),
    paths=frozenset({"scoped_identifier", "scoped_type_identifier"}),
    qualify=_qualify,
)
