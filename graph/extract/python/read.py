"""Reads the tree of a Python file in one pass: its scopes, the bindings in them, and the uses of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sluice.graph.extract.python.scopes import (
    DEEPEST,
    MOST_USES,
    Binding,
    Defined,
    Imported,
    Reading,
    Receiver,
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


class Reader:
    """One reading of one file. Nodes are read in the order of the text, without recursion, at any depth."""

    def __init__(self, root: Node, module: str, package: str) -> None:
        """Relative imports begin at `package`."""
        self.package = package
        top = Scope(ScopeKind.MODULE, module, None, root)
        self.reading = Reading(top, [top], [], [], [], [], [], [])
        self.stack: list[tuple[Node, Scope]] = []
        """Nodes that are still to be read, each with its scope; the last is read next."""

    def read(self) -> Reading:
        """Read the whole file. Nodes without a handler are read child by child."""
        self.push(self.reading.module.node.named_children, self.reading.module)
        while self.stack:
            node, scope = self.stack.pop()
            handler = _HANDLERS.get(node.type)
            if handler is not None:
                handler(self, node, scope)
            elif node.child_count:
                self.push(node.named_children, scope)
        return self.reading

    def push(self, nodes: Iterable[Node | None], scope: Scope) -> None:
        """Put nodes on the stack, so that the first of them is read next."""
        self.stack.extend([(node, scope) for node in reversed(list(nodes)) if node is not None])

    def use(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        """Record the use of a name or a chain of attributes, or the call of an expression."""
        if len(self.reading.uses) < MOST_USES:
            self.reading.uses.append(Use(scope, node, is_called))

    def attribute(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        """Record the use of a chain of attributes, and read its base unless that is a name."""
        self.use(node, scope, is_called)
        base: Node | None = node
        while base is not None and base.type == "attribute":
            base = base.child_by_field_name("object")
        if base is not None and base.type != "identifier":
            self.stack.append((base, scope))

    def bind(self, scope: Scope, node: Node, binding: Binding) -> None:
        """Bind the name at the node in the scope."""
        scope.bind(text(node), binding)

    def store(self, node: Node, scope: Scope, value: Value) -> None:
        """Record an assignment to the attribute at the node."""
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if holder is not None and holder.type == "identifier" and attribute is not None:
            self.reading.stores.append(Store(scope, node, text(holder), text(attribute), value))
        else:
            self.attribute(node, scope)

    def inner(self, kind: ScopeKind, name: str, named_in: Scope, parent: Scope, node: Node) -> Scope:
        """Return a new scope that the node opens within `parent`; `parent` itself at the depth limit."""
        if parent.depth >= DEEPEST:
            return parent
        qualified = f"{named_in.name}.{name}" if name else named_in.name
        inner = Scope(kind, qualified, parent, node, parent.depth + 1)
        self.reading.scopes.append(inner)
        return inner


Handler = Callable[[Reader, "Node", Scope], None]
"""Reads one node in its scope, and pushes the parts that are still to be read."""


_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"})


def _unknown(node: Node, scope: Scope) -> Value:
    return Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node))


def bind_target(reader: Reader, node: Node, scope: Scope, value: Value) -> None:
    """Bind the targets of an assignment, a `for`, a `with`, or a parameter."""
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
    """Return the targets in a pattern, each with its own value where both sides are written out."""
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
        reader.bind(scope, names[0], _unknown(node, scope))
    else:
        reader.use(node if node.type == "dotted_name" else names[0], scope)


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


def _dotted(node: Node) -> str:
    return ".".join(text(child) for child in node.named_children) if node.named_children else text(node)


def imported_name(package: str, written: str) -> str:
    """Return the absolute name of `written`, as `..models.User`, in a module of `package`.

    A name that leads out of the outermost folder counts from there: the folders above are not known.
    """
    name = written.lstrip(".")
    dots = len(written) - len(name)
    if not dots:
        return name
    parts = package.split(".") if package else []
    kept = parts[: max(0, len(parts) - dots + 1)]
    return ".".join([*kept, *([name] if name else [])])


_MOST_TARGETS = 8
"""Targets in one statement, as `a = b = value`, that are followed to the value."""


def _assignment(reader: Reader, node: Node, scope: Scope) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    annotation = node.child_by_field_name("type")
    if left is None:
        return
    kind, source = (ValueKind.INSTANCE, annotation) if annotation is not None else (ValueKind.IS, right)
    for _ in range(_MOST_TARGETS):
        if source is None or source.type != "assignment":
            break
        source = source.child_by_field_name("right")
    value = Value(kind, source, scope, line(node), last_line(node), is_definition=True)
    bind_target(reader, left, scope, value)
    reader.push([annotation, right], scope)


def _augmented_assignment(reader: Reader, node: Node, scope: Scope) -> None:
    left = node.child_by_field_name("left")
    if left is not None and left.type == "identifier":
        holder = scope.target(text(left))
        if text(left) not in holder.bindings:
            reader.bind(scope, left, _unknown(node, scope))
    reader.push([left, node.child_by_field_name("right")], scope)


def _named_expression(reader: Reader, node: Node, scope: Scope) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is not None:
        holder = scope.definer
        bind_target(reader, name, holder, Value(ValueKind.IS, value, scope, line(node), last_line(node), True))
    reader.push([value], scope)


def _for(reader: Reader, node: Node, scope: Scope) -> None:
    left = node.child_by_field_name("left")
    if left is not None:
        bind_target(reader, left, scope, _unknown(left, scope))
    reader.push([child for child in node.named_children if child != left], scope)


def _comprehension(reader: Reader, node: Node, scope: Scope) -> None:
    inner = reader.inner(ScopeKind.COMPREHENSION, "", scope, scope, node)
    is_outermost = True
    for child in reversed(node.named_children):
        if child.type != "for_in_clause":
            reader.stack.append((child, inner))
    for child in node.named_children:
        if child.type != "for_in_clause":
            continue
        left = child.child_by_field_name("left")
        around = scope if is_outermost else inner
        if left is not None:
            bind_target(reader, left, inner, _unknown(left, around))
        reader.push([entry for entry in child.named_children if entry != left], around)
        is_outermost = False


def _as_pattern(reader: Reader, node: Node, scope: Scope) -> None:
    alias = node.child_by_field_name("alias")
    source = next(iter(node.named_children), None)
    if alias is None:
        reader.push(node.named_children, scope)
        return
    parent = node.parent
    is_error = parent is not None and parent.type.startswith("except")
    kind = ValueKind.INSTANCE if is_error else ValueKind.IS  # `with` binds the manager itself, mostly
    bind_target(reader, alias, scope, Value(kind, source, scope, line(node), last_line(node)))
    reader.push([source], scope)


def _delete(reader: Reader, node: Node, scope: Scope) -> None:
    for child in node.named_children:
        targets = child.named_children if child.type == "expression_list" else [child]
        for target in targets:
            if target.type == "identifier" and not scope.target(text(target)).bindings.get(text(target)):
                reader.bind(scope, target, _unknown(node, scope))
        reader.push(targets, scope)


def _global(reader: Reader, node: Node, scope: Scope) -> None:
    names = {text(child) for child in node.named_children}
    if scope.kind is not ScopeKind.MODULE:
        scope.global_names |= names


def _nonlocal(reader: Reader, node: Node, scope: Scope) -> None:
    if scope.kind is not ScopeKind.MODULE:
        scope.nonlocal_names |= {text(child) for child in node.named_children}


def _type_alias(reader: Reader, node: Node, scope: Scope) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    name = left
    while name is not None and name.type in ("type", "generic_type"):
        name = next(iter(name.named_children), None)
    if name is not None and name.type == "identifier":
        reader.bind(scope, name, Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node), True))
    reader.push([right], scope)


_STATIC = frozenset({"staticmethod"})
_OF_CLASS = frozenset({"classmethod", "__new__", "__init_subclass__", "__class_getitem__"})


def _decorated(reader: Reader, node: Node, scope: Scope) -> None:
    decorators = [child for child in node.named_children if child.type == "decorator"]
    definition = node.child_by_field_name("definition")
    if definition is not None and definition.type == "function_definition":
        _function(reader, definition, scope, node, decorators)
    elif definition is not None and definition.type == "class_definition":
        _class(reader, definition, scope, node)
    else:
        reader.push([definition], scope)
    reader.push(decorators, scope)


def _function(
    reader: Reader, node: Node, scope: Scope, whole: Node | None = None, decorators: Iterable[Node] = ()
) -> None:
    whole = whole or node
    name_node = node.child_by_field_name("name")
    name = text(name_node)
    outside = _type_parameters(reader, node, scope)
    inner = reader.inner(ScopeKind.FUNCTION, name, scope, outside, node)
    if inner is scope:
        reader.push(node.named_children, scope)
        return
    inner.decorators = tuple(_last_name(decorator) for decorator in decorators)
    if name_node is not None:
        reader.bind(scope, name_node, Defined(inner, line(whole), last_line(whole)))
    reader.reading.decorated.extend((scope, decorator, inner) for decorator in decorators)
    reader.push([node.child_by_field_name("body")], inner)
    reader.push([node.child_by_field_name("return_type")], outside)
    _parameters(reader, node.child_by_field_name("parameters"), inner, outside, scope)


def _lambda(reader: Reader, node: Node, scope: Scope) -> None:
    inner = reader.inner(ScopeKind.FUNCTION, "", scope, scope, node)
    reader.push([node.child_by_field_name("body")], inner)
    _parameters(reader, node.child_by_field_name("parameters"), inner, scope, scope)


def _parameters(reader: Reader, node: Node | None, inner: Scope, outside: Scope, holder: Scope) -> None:
    is_first = holder.kind is ScopeKind.CLASS and inner.node.type != "lambda"
    for parameter in node.named_children if node is not None else ():
        kind = parameter.type
        default: Node | None = None
        annotation: Node | None = None
        target: Node | None = parameter
        if kind in ("default_parameter", "typed_default_parameter"):
            target = parameter.child_by_field_name("name")
            default = parameter.child_by_field_name("value")
        if kind in ("typed_parameter", "typed_default_parameter"):
            annotation = parameter.child_by_field_name("type")
            target = target if kind == "typed_default_parameter" else next(iter(parameter.named_children), None)
        reader.push([annotation, default], outside)
        if target is None or target.type in ("comment", "keyword_separator", "positional_separator", "ERROR"):
            continue
        is_many = target.type in ("list_splat_pattern", "dictionary_splat_pattern")
        if is_first and target.type == "identifier" and not _STATIC.intersection(inner.decorators):
            named = {*inner.decorators, inner.name.rpartition(".")[2]}
            reader.bind(inner, target, Receiver(holder, bool(_OF_CLASS & named)))
        else:
            how = ValueKind.INSTANCE if annotation is not None and not is_many else ValueKind.UNKNOWN
            value = Value(how, annotation, outside, line(target), last_line(target))
            if annotation is None and default is not None and default.type == "call":
                value = Value(ValueKind.IS, default, outside, line(target), last_line(target))
            elif annotation is None and not is_many:
                value.node = default
            bind_target(reader, target, inner, value)
        is_first = False


def _class(reader: Reader, node: Node, scope: Scope, whole: Node | None = None) -> None:
    whole = whole or node
    name_node = node.child_by_field_name("name")
    outside = _type_parameters(reader, node, scope)
    inner = reader.inner(ScopeKind.CLASS, text(name_node), scope, outside, node)
    if inner is scope:
        reader.push(node.named_children, scope)
        return
    if name_node is not None:
        reader.bind(scope, name_node, Defined(inner, line(whole), last_line(whole)))
    reader.push([node.child_by_field_name("body")], inner)
    reader.push([node.child_by_field_name("superclasses")], outside)


def _type_parameters(reader: Reader, node: Node, scope: Scope) -> Scope:
    parameters = node.child_by_field_name("type_parameters")
    if parameters is None:
        return scope
    outside = reader.inner(ScopeKind.TYPE_PARAMETERS, "", scope, scope, node)
    for parameter in parameters.named_children:
        names = parameter.named_children
        while names and names[0].type in ("type", "constrained_type", "splat_type", "generic_type"):
            reader.push(names[1:], outside)
            names = names[0].named_children
        if names and names[0].type == "identifier":
            reader.bind(outside, names[0], _unknown(node, outside))
    return outside


def _return(reader: Reader, node: Node, scope: Scope) -> None:
    if scope.kind is ScopeKind.FUNCTION:
        scope.returned.extend(node.named_children[:1] or [node])
    reader.push(node.named_children, scope)


def _yield(reader: Reader, node: Node, scope: Scope) -> None:
    scope.definer.is_generator = True
    reader.push(node.named_children, scope)


def _last_name(decorator: Node) -> str:
    """Return the decorator's last name: `tool` of `@server.tool(name="x")`."""
    node = next(iter(decorator.named_children), None)
    if node is not None and node.type == "call":
        node = node.child_by_field_name("function")
    if node is not None and node.type == "attribute":
        node = node.child_by_field_name("attribute")
    return text(node)


_HANDLERS: dict[str, Handler] = {
    "identifier": lambda reader, node, scope: reader.use(node, scope),
    "attribute": lambda reader, node, scope: reader.attribute(node, scope),
    "call": _call,
    "keyword_argument": _keyword_argument,
    "case_pattern": _case_pattern,
    "import_statement": _import,
    "import_from_statement": _import_from,
    "future_import_statement": lambda reader, node, scope: None,  # its names are no symbols
    "assignment": _assignment,
    "augmented_assignment": _augmented_assignment,
    "named_expression": _named_expression,
    "for_statement": _for,
    "as_pattern": _as_pattern,
    "delete_statement": _delete,
    "global_statement": _global,
    "nonlocal_statement": _nonlocal,
    "type_alias_statement": _type_alias,
    "list_comprehension": _comprehension,
    "set_comprehension": _comprehension,
    "dictionary_comprehension": _comprehension,
    "generator_expression": _comprehension,
    "function_definition": _function,
    "class_definition": _class,
    "decorated_definition": _decorated,
    "lambda": _lambda,
    "return_statement": _return,
    "yield": _yield,
}
