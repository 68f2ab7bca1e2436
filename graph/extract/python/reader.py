"""Reads names, targets, imports and patterns of a Python file. `Reader` is what all handlers of its syntax share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sluice.contracts.graph.model import GraphDocument
from sluice.graph.extract.python.scopes import (
    DEEPEST,
    MOST_USES,
    Binding,
    Imported,
    Reading,
    Scope,
    ScopeKind,
    Store,
    Use,
    Value,
    ValueKind,
    last_line,
    line,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_SUFFIXES = (".py", ".pyi", ".pyw")
_PACKAGE = "__init__"


def module_name(document: GraphDocument) -> str:
    """`main.workers.handlers` for `main/workers/handlers.py`; a package is named by its folder.

    A page without a path is named by its address, and else by its id, so that no two modules are one by mistake.
    """
    parts = _parts(document)
    if len(parts) > 1 and parts[-1] == _PACKAGE:
        parts = parts[:-1]
    return ".".join(parts) or document.document_id


def package_name(document: GraphDocument) -> str:
    """The package that relative imports of the file begin at; empty for a file in no folder."""
    return ".".join(_parts(document)[:-1])


def imported_name(package: str, written: str) -> str:
    """The absolute name of `written`, as `..models.User`, in a module of `package`.

    What leads out of the outermost folder is named from there: the folders above are not known.
    """
    name = written.lstrip(".")
    dots = len(written) - len(name)
    if not dots:
        return name
    parts = package.split(".") if package else []
    kept = parts[: max(0, len(parts) - dots + 1)]
    return ".".join([*kept, *([name] if name else [])])


def _parts(document: GraphDocument) -> list[str]:
    path = document.path
    if not path and document.url:
        try:
            path = urlsplit(document.url).path
        except ValueError:
            path = None
    path = (path or "").replace("\\", "/")
    for suffix in _SUFFIXES:
        if path.endswith(suffix):
            path = path.removesuffix(suffix)
            break
    return [part for part in path.split("/") if part not in ("", ".")]


class Reader:
    """One reading of one file. Nodes are read in the order of the text, without recursion: nothing is too deep."""

    def __init__(self, root: Node, module: str, package: str) -> None:
        """`package` is what relative imports begin at."""
        self.package = package
        top = Scope(ScopeKind.MODULE, module, None, root)
        self.reading = Reading(top, [top], [], [], [], [], [], [])
        self.stack: list[tuple[Node, Scope]] = []
        """Nodes that are still to be read, each in its scope; the next is the last."""

    def push(self, nodes: Iterable[Node | None], scope: Scope) -> None:
        """Read these next, the first first."""
        self.stack.extend([(node, scope) for node in reversed(list(nodes)) if node is not None])

    def use(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        """A name or a chain of attributes is used, or an expression is called."""
        if len(self.reading.uses) < MOST_USES:
            self.reading.uses.append(Use(scope, node, is_called))

    def attribute(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        """A chain of attributes is used; what it begins with is read too, unless it is a name."""
        self.use(node, scope, is_called)
        base: Node | None = node
        while base is not None and base.type == "attribute":
            base = base.child_by_field_name("object")
        if base is not None and base.type != "identifier":
            self.stack.append((base, scope))

    def bind(self, scope: Scope, node: Node, binding: Binding) -> None:
        """The name at the node is bound in the scope."""
        scope.bind(text(node), binding)

    def store(self, node: Node, scope: Scope, value: Value) -> None:
        """The attribute at the node is assigned."""
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if holder is not None and holder.type == "identifier" and attribute is not None:
            self.reading.stores.append(Store(scope, node, text(holder), text(attribute), value))
        else:
            self.attribute(node, scope)

    def inner(self, kind: ScopeKind, name: str, named_in: Scope, parent: Scope, node: Node) -> Scope:
        """A scope that the node opens within `parent`; `parent` itself where there are too many around it."""
        if parent.depth >= DEEPEST:
            return parent
        qualified = f"{named_in.name}.{name}" if name else named_in.name
        inner = Scope(kind, qualified, parent, node, parent.depth + 1)
        self.reading.scopes.append(inner)
        return inner


Handler = Callable[[Reader, "Node", Scope], None]
"""Reads one node in its scope, and pushes what of it is to be read further."""


_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"})


def bind_target(reader: Reader, node: Node, scope: Scope, value: Value) -> None:
    """Bind what stands left of `=`, in `for`, in `with`, or as a parameter."""
    targets = [(node, value)]
    while targets:
        node, value = targets.pop()
        kind = node.type
        if kind == "identifier":
            reader.bind(scope, node, value)
        elif kind in _PATTERNS:
            targets.extend(_unpacked(node, value))
        elif kind in ("list_splat_pattern", "dictionary_splat_pattern", "list_splat"):
            rest = Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node), value.is_definition)
            targets.extend((child, rest) for child in node.named_children)
        elif kind in ("as_pattern_target", "parenthesized_expression"):
            targets.extend((child, value) for child in node.named_children)
        elif kind == "attribute":
            reader.store(node, scope, value)
        else:
            reader.stack.append((node, scope))


def _unpacked(node: Node, value: Value) -> list[tuple[Node, Value]]:
    """The targets in a pattern, each with its own value where both sides are written out."""
    source = value.node
    children = [child for child in node.named_children if child.type != "comment"]
    values: list[Node] = []
    if value.kind is ValueKind.IS and source is not None and source.type in ("tuple", "list", "expression_list"):
        values = [child for child in source.named_children if child.type != "comment"]
    is_even = len(values) == len(children) and not any("splat" in child.type for child in (*values, *children))
    parts: list[tuple[Node, Value]] = []
    for position, child in enumerate(children):
        part = Value(value.kind, source, value.scope, line(child), last_line(child), value.is_definition, position)
        if value.position is not None:
            part.kind = ValueKind.UNKNOWN
        elif is_even:
            part.node, part.position = values[position], None
        parts.append((child, part))
    return parts


def _name(reader: Reader, node: Node, scope: Scope) -> None:
    reader.use(node, scope)


def _attribute(reader: Reader, node: Node, scope: Scope) -> None:
    reader.attribute(node, scope)


def _call(reader: Reader, node: Node, scope: Scope) -> None:
    function = node.child_by_field_name("function")
    reader.push([node.child_by_field_name("arguments")], scope)
    if function is None:
        return
    if function.type == "identifier":
        reader.use(function, scope, True)
        if text(function) == "Tool":
            reader.reading.calls.append((scope, node))
    elif function.type == "attribute":
        reader.attribute(function, scope, True)
        if text(function.child_by_field_name("attribute")) in ("Tool", "add_tool"):
            reader.reading.calls.append((scope, node))
    else:
        reader.use(function, scope, True)
        reader.stack.append((function, scope))


def _keyword_argument(reader: Reader, node: Node, scope: Scope) -> None:
    reader.push([node.child_by_field_name("value")], scope)


USES: dict[str, Handler] = {
    "identifier": _name,
    "attribute": _attribute,
    "call": _call,
    "keyword_argument": _keyword_argument,
}


def _case_pattern(reader: Reader, node: Node, scope: Scope) -> None:
    patterns = [(child, True) for child in node.named_children]
    while patterns:
        child, is_capture = patterns.pop()
        kind = child.type
        if kind == "dotted_name":
            _captured(reader, child, scope, is_capture)
        elif kind == "class_pattern":
            patterns.extend((entry, index > 0) for index, entry in enumerate(child.named_children))
        elif kind == "keyword_pattern":
            patterns.extend((entry, True) for entry in child.named_children[1:])
        elif kind == "identifier":
            _captured(reader, child, scope, True)
        elif kind in ("string", "concatenated_string", "ERROR", "attribute", "call"):
            reader.stack.append((child, scope))
        else:
            patterns.extend((entry, True) for entry in child.named_children)


def _captured(reader: Reader, node: Node, scope: Scope, is_capture: bool) -> None:
    names = node.named_children or [node]
    if len(names) == 1 and is_capture:
        reader.bind(scope, names[0], Value(ValueKind.UNKNOWN, None, scope, line(node), line(node)))
    else:
        reader.use(node if node.type == "dotted_name" else names[0], scope)


PATTERN_HANDLERS: dict[str, Handler] = {"case_pattern": _case_pattern}


def _import(reader: Reader, node: Node, scope: Scope) -> None:
    for child in node.named_children:
        name_node, alias = child, None
        if child.type == "aliased_import":
            name_node = child.child_by_field_name("name") or child
            alias = child.child_by_field_name("alias")
        name = _dotted(name_node)
        if not name:
            continue
        reader.reading.imports.append((name, line(child)))
        if alias is not None:
            reader.bind(scope, alias, Imported(name))
        elif name_node.named_children:
            first = name_node.named_children[0]
            reader.bind(scope, first, Imported(text(first)))


def _import_from(reader: Reader, node: Node, scope: Scope) -> None:
    module_node = node.child_by_field_name("module_name")
    written = "".join(text(module_node).split())
    module = imported_name(reader.package, written)
    if module:
        reader.reading.imports.append((module, line(node)))
    for child in node.named_children:
        if child == module_node:
            continue
        if child.type == "wildcard_import":
            reader.reading.stars.append((module, line(child)))
            continue
        name_node, bound = child, child
        if child.type == "aliased_import":
            name_node = child.child_by_field_name("name") or child
            bound = child.child_by_field_name("alias") or name_node
        if name_node.type != "dotted_name":
            continue
        name = _dotted(name_node)
        target = f"{module}.{name}" if module else name
        reader.reading.imports.append((target, line(child)))
        reader.bind(scope, bound.named_children[0] if bound.named_children else bound, Imported(target))


def _skip(reader: Reader, node: Node, scope: Scope) -> None:
    """What it names is no symbol."""


def _dotted(node: Node) -> str:
    return ".".join(text(child) for child in node.named_children) if node.named_children else text(node)


IMPORTS: dict[str, Handler] = {
    "import_statement": _import,
    "import_from_statement": _import_from,
    "future_import_statement": _skip,
}
