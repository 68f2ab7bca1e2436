"""Go. A package is its folder: the definitions of `main/shop/cart/add.go` are in `main.shop.cart`.

An import keeps the part of its path that lies within a repository: `github.com/acme/shop/cart` is `cart` in a folder
of any name, so it is written `shop.cart`, and a longer name that ends so matches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.graph.extract.languages.rules import Imported, Placed, Rules, joined, line_of, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_VERSION = re.compile(r"v\d+\Z")
_RECEIVER = re.compile(r"\(\s*(?:(?P<name>\w+)\s+)?\*?\s*(?P<type>[A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*,?\s*\)\Z")
_HOSTS_WITH_OWNERS = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})


def _module(path: str | None, root: Node) -> str:
    folder = (path or "").replace("\\", "/").strip("/").rpartition("/")[0]
    return joined(*folder.split("/"))


def _place(name: Node, whole: Node) -> Placed:
    plain = text_of(name)
    if whole.type != "method_declaration":
        return Placed(plain)
    written = text_of(whole.child_by_field_name("receiver"))
    receiver = _RECEIVER.search(written)
    if receiver is None:
        return Placed(plain)
    return Placed(f"{receiver['type']}.{plain}", True, receiver["type"], receiver=receiver["name"] or "")


def _imports(root: Node, module: str, path: str | None) -> Iterator[Imported]:
    for node in root.named_children:
        if node.type == "import_declaration":
            for part in node.named_children:
                for spec in part.named_children if part.type == "import_spec_list" else (part,):
                    if spec.type == "import_spec":
                        yield from _import(spec)


def _import(spec: Node) -> Iterator[Imported]:
    written = text_of(spec.child_by_field_name("path")).strip('"`')
    parts = [part for part in written.split("/") if part and part not in (".", "..")]
    if not parts:
        return
    local = text_of(spec.child_by_field_name("name"))
    versioned = parts[:-1] if len(parts) > 1 and _VERSION.match(parts[-1]) else parts
    if not local:
        local = versioned[-1].removeprefix("go-").removesuffix("-go").rpartition(".")[2]
    yield Imported("" if local in ("_", ".") else local, joined(*_within(versioned)), line_of(spec), is_module=True)


def _within(parts: list[str]) -> list[str]:
    """Return the parts of an import path that a checkout has in its own paths, the repository's folder first."""
    if parts[0] in _HOSTS_WITH_OWNERS and len(parts) > 2:
        parts = parts[2:]
    elif "." in parts[0] and len(parts) > 1:
        parts = parts[1:]
    return [part for part in parts if not _VERSION.match(part)] or parts


GO = Rules(
    language="go",
    wheels=("go",),
    queries=("go",),
    module=_module,
    imports=_imports,
    place=_place,
    chains={"selector_expression": ("operand", "field"), "qualified_type": ("package", "name")},
    wholes=frozenset({"type_declaration", "var_declaration", "const_declaration"}),
    own=frozenset({"this"}),
    sees_package=True,
)
