"""Reads the tree of a Python file in one pass, without recursion: nothing in it is too deep."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tree_sitter import Node

from graph.extract.python.module_names import imported_name
from graph.extract.python.reading import MOST_USES, Reading, Store, Use, last_line, line, text
from graph.extract.python.scopes import (
    DEEPEST,
    Binding,
    Defined,
    Imported,
    Receiver,
    Scope,
    ScopeKind,
    Value,
    ValueKind,
)

_STATIC = frozenset({"staticmethod"})
_OF_CLASS = frozenset({"classmethod", "__new__", "__init_subclass__", "__class_getitem__"})
_MOST_TARGETS = 8
"""In one statement, as `a = b = value`, that are followed to the value."""
_PATTERNS = frozenset({"pattern_list", "tuple_pattern", "list_pattern", "tuple", "list", "expression_list"})


class Reader:
    """One reading of one file; use `read`."""

    def __init__(self, root: Node, module: str, package: str) -> None:
        self._package = package
        top = Scope(ScopeKind.MODULE, module, None, root)
        self.reading = Reading(top, [top], [], [], [], [], [], [])
        self._stack: list[tuple[Node, Scope]] = []
        self._handlers: dict[str, Callable[[Node, Scope], None]] = {
            "identifier": self._use,
            "attribute": self._attribute,
            "call": self._call,
            "keyword_argument": self._keyword_argument,
            "function_definition": self._function,
            "class_definition": self._class,
            "decorated_definition": self._decorated,
            "lambda": self._lambda,
            "assignment": self._assignment,
            "augmented_assignment": self._augmented_assignment,
            "named_expression": self._named_expression,
            "for_statement": self._for,
            "as_pattern": self._as_pattern,
            "delete_statement": self._delete,
            "import_statement": self._import,
            "import_from_statement": self._import_from,
            "future_import_statement": _skip,
            "global_statement": self._global,
            "nonlocal_statement": self._nonlocal,
            "return_statement": self._return,
            "yield": self._yield,
            "case_pattern": self._case_pattern,
            "type_alias_statement": self._type_alias,
            "list_comprehension": self._comprehension,
            "set_comprehension": self._comprehension,
            "dictionary_comprehension": self._comprehension,
            "generator_expression": self._comprehension,
        }

    def read(self) -> Reading:
        """The whole file."""
        stack, handlers = self._stack, self._handlers
        self._push(self.reading.module.node.named_children, self.reading.module)
        while stack:
            node, scope = stack.pop()
            handler = handlers.get(node.type)
            if handler is not None:
                handler(node, scope)
            elif node.child_count:
                stack.extend([(child, scope) for child in reversed(node.named_children)])
        return self.reading

    def _push(self, nodes: Iterable[Node | None], scope: Scope) -> None:
        self._stack.extend([(node, scope) for node in reversed(list(nodes)) if node is not None])

    # Uses

    def _use(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        if len(self.reading.uses) < MOST_USES:
            self.reading.uses.append(Use(scope, node, is_called))

    def _attribute(self, node: Node, scope: Scope, is_called: bool = False) -> None:
        self._use(node, scope, is_called)
        base: Node | None = node
        while base is not None and base.type == "attribute":
            base = base.child_by_field_name("object")
        if base is not None and base.type != "identifier":
            self._stack.append((base, scope))

    def _call(self, node: Node, scope: Scope) -> None:
        function = node.child_by_field_name("function")
        self._push([node.child_by_field_name("arguments")], scope)
        if function is None:
            return
        if function.type == "identifier":
            self._use(function, scope, True)
            if text(function) == "Tool":
                self.reading.calls.append((scope, node))
        elif function.type == "attribute":
            self._attribute(function, scope, True)
            if text(function.child_by_field_name("attribute")) in ("Tool", "add_tool"):
                self.reading.calls.append((scope, node))
        else:
            self._stack.append((function, scope))

    def _keyword_argument(self, node: Node, scope: Scope) -> None:
        self._push([node.child_by_field_name("value")], scope)

    # Definitions

    def _decorated(self, node: Node, scope: Scope) -> None:
        decorators = [child for child in node.named_children if child.type == "decorator"]
        definition = node.child_by_field_name("definition")
        if definition is not None and definition.type == "function_definition":
            self._function(definition, scope, node, decorators)
        elif definition is not None and definition.type == "class_definition":
            self._class(definition, scope, node)
        else:
            self._push([definition], scope)
        self._push(decorators, scope)

    def _function(self, node: Node, scope: Scope, whole: Node | None = None, decorators: Iterable[Node] = ()) -> None:
        whole = whole or node
        name_node = node.child_by_field_name("name")
        name = text(name_node)
        outside = self._type_parameters(node, scope)
        inner = self._inner(ScopeKind.FUNCTION, name, scope, outside, node)
        if inner is scope:
            self._push(node.named_children, scope)
            return
        inner.decorators = tuple(_last_name(decorator) for decorator in decorators)
        if name_node is not None:
            self._bind(scope, name_node, Defined(inner, line(whole), last_line(whole)))
        self.reading.decorated.extend((scope, decorator, inner) for decorator in decorators)
        self._push([node.child_by_field_name("body")], inner)
        self._push([node.child_by_field_name("return_type")], outside)
        self._parameters(node.child_by_field_name("parameters"), inner, outside, scope)

    def _lambda(self, node: Node, scope: Scope) -> None:
        inner = self._inner(ScopeKind.FUNCTION, "", scope, scope, node)
        self._push([node.child_by_field_name("body")], inner)
        self._parameters(node.child_by_field_name("parameters"), inner, scope, scope)

    def _parameters(self, node: Node | None, inner: Scope, outside: Scope, holder: Scope) -> None:
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
            self._push([annotation, default], outside)
            if target is None or target.type in ("comment", "keyword_separator", "positional_separator", "ERROR"):
                continue
            is_many = target.type in ("list_splat_pattern", "dictionary_splat_pattern")
            if is_first and target.type == "identifier" and not _STATIC.intersection(inner.decorators):
                named = {*inner.decorators, inner.name.rpartition(".")[2]}
                self._bind(inner, target, Receiver(holder, bool(_OF_CLASS & named)))
            else:
                how = ValueKind.INSTANCE if annotation is not None and not is_many else ValueKind.UNKNOWN
                value = Value(how, annotation, outside, line(target), last_line(target))
                if annotation is None and default is not None and default.type == "call":
                    value = Value(ValueKind.IS, default, outside, line(target), last_line(target))
                self._target(target, inner, value)
            is_first = False

    def _class(self, node: Node, scope: Scope, whole: Node | None = None) -> None:
        whole = whole or node
        name_node = node.child_by_field_name("name")
        outside = self._type_parameters(node, scope)
        inner = self._inner(ScopeKind.CLASS, text(name_node), scope, outside, node)
        if inner is scope:
            self._push(node.named_children, scope)
            return
        if name_node is not None:
            self._bind(scope, name_node, Defined(inner, line(whole), last_line(whole)))
        self._push([node.child_by_field_name("body")], inner)
        self._push([node.child_by_field_name("superclasses")], outside)

    def _type_parameters(self, node: Node, scope: Scope) -> Scope:
        parameters = node.child_by_field_name("type_parameters")
        if parameters is None:
            return scope
        outside = self._inner(ScopeKind.TYPE_PARAMETERS, "", scope, scope, node)
        for parameter in parameters.named_children:
            names = parameter.named_children
            while names and names[0].type in ("type", "constrained_type", "splat_type", "generic_type"):
                self._push(names[1:], outside)
                names = names[0].named_children
            if names and names[0].type == "identifier":
                self._bind(outside, names[0], Value(ValueKind.UNKNOWN, None, outside, line(node), line(node)))
        return outside

    def _inner(self, kind: ScopeKind, name: str, named_in: Scope, parent: Scope, node: Node) -> Scope:
        if parent.depth >= DEEPEST:
            return parent
        qualified = f"{named_in.name}.{name}" if name else named_in.name
        inner = Scope(kind, qualified, parent, node, parent.depth + 1)
        self.reading.scopes.append(inner)
        return inner

    # Bindings

    def _bind(self, scope: Scope, node: Node, binding: Binding) -> None:
        scope.bind(text(node), binding)

    def _target(self, node: Node, scope: Scope, value: Value) -> None:
        """Bind what stands left of `=`, in `for`, in `with`, or as a parameter."""
        targets = [(node, value)]
        while targets:
            node, value = targets.pop()
            kind = node.type
            if kind == "identifier":
                self._bind(scope, node, value)
            elif kind in _PATTERNS:
                targets.extend(_unpacked(node, value))
            elif kind in ("list_splat_pattern", "dictionary_splat_pattern", "list_splat"):
                rest = Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node), value.is_definition)
                targets.extend((child, rest) for child in node.named_children)
            elif kind in ("as_pattern_target", "parenthesized_expression"):
                targets.extend((child, value) for child in node.named_children)
            elif kind == "attribute":
                self._store(node, scope, value)
            else:
                self._stack.append((node, scope))

    def _store(self, node: Node, scope: Scope, value: Value) -> None:
        holder, attribute = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if holder is not None and holder.type == "identifier" and attribute is not None:
            self.reading.stores.append(Store(scope, node, text(holder), text(attribute), value))
        else:
            self._attribute(node, scope)

    def _assignment(self, node: Node, scope: Scope) -> None:
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
        self._target(left, scope, value)
        self._push([annotation, right], scope)

    def _augmented_assignment(self, node: Node, scope: Scope) -> None:
        left = node.child_by_field_name("left")
        if left is not None and left.type == "identifier":
            holder = scope.target(text(left))
            if text(left) not in holder.bindings:
                self._bind(scope, left, Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node)))
        self._push([left, node.child_by_field_name("right")], scope)

    def _named_expression(self, node: Node, scope: Scope) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None:
            holder = scope.definer
            self._target(name, holder, Value(ValueKind.IS, value, scope, line(node), last_line(node), True))
        self._push([value], scope)

    def _for(self, node: Node, scope: Scope) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is not None:
            self._target(left, scope, Value(ValueKind.ELEMENT, right, scope, line(left), last_line(left)))
        self._push([child for child in node.named_children if child != left], scope)

    def _comprehension(self, node: Node, scope: Scope) -> None:
        inner = self._inner(ScopeKind.COMPREHENSION, "", scope, scope, node)
        is_outermost = True
        for child in reversed(node.named_children):
            if child.type != "for_in_clause":
                self._stack.append((child, inner))
        for child in node.named_children:
            if child.type != "for_in_clause":
                continue
            left, right = child.child_by_field_name("left"), child.child_by_field_name("right")
            around = scope if is_outermost else inner
            if left is not None:
                self._target(left, inner, Value(ValueKind.ELEMENT, right, around, line(left), last_line(left)))
            self._push([entry for entry in child.named_children if entry != left], around)
            is_outermost = False

    def _as_pattern(self, node: Node, scope: Scope) -> None:
        alias = node.child_by_field_name("alias")
        source = next(iter(node.named_children), None)
        if alias is None:
            self._push(node.named_children, scope)
            return
        parent = node.parent
        kind = ValueKind.CONTEXT
        if parent is not None and parent.type.startswith("except"):
            kind = ValueKind.INSTANCE
        self._target(alias, scope, Value(kind, source, scope, line(node), last_line(node)))
        self._push([source], scope)

    def _delete(self, node: Node, scope: Scope) -> None:
        for child in node.named_children:
            targets = child.named_children if child.type == "expression_list" else [child]
            for target in targets:
                if target.type == "identifier" and not scope.target(text(target)).bindings.get(text(target)):
                    self._bind(scope, target, Value(ValueKind.UNKNOWN, None, scope, line(node), line(node)))
            self._push(targets, scope)

    def _global(self, node: Node, scope: Scope) -> None:
        names = {text(child) for child in node.named_children}
        if scope.kind is not ScopeKind.MODULE:
            scope.global_names |= names

    def _nonlocal(self, node: Node, scope: Scope) -> None:
        if scope.kind is not ScopeKind.MODULE:
            scope.nonlocal_names |= {text(child) for child in node.named_children}

    def _return(self, node: Node, scope: Scope) -> None:
        if scope.kind is ScopeKind.FUNCTION:
            scope.returned.extend(node.named_children[:1] or [node])
        self._push(node.named_children, scope)

    def _yield(self, node: Node, scope: Scope) -> None:
        scope.definer.is_generator = True
        self._push(node.named_children, scope)

    def _type_alias(self, node: Node, scope: Scope) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        name = left
        while name is not None and name.type in ("type", "generic_type"):
            name = next(iter(name.named_children), None)
        if name is not None and name.type == "identifier":
            self._bind(scope, name, Value(ValueKind.UNKNOWN, None, scope, line(node), last_line(node), True))
        self._push([right], scope)

    # Patterns of `match`

    def _case_pattern(self, node: Node, scope: Scope) -> None:
        patterns = [(child, True) for child in node.named_children]
        while patterns:
            child, is_capture = patterns.pop()
            kind = child.type
            if kind == "dotted_name":
                self._captured(child, scope, is_capture)
            elif kind == "class_pattern":
                patterns.extend((entry, index > 0) for index, entry in enumerate(child.named_children))
            elif kind == "keyword_pattern":
                patterns.extend((entry, True) for entry in child.named_children[1:])
            elif kind == "identifier":
                self._captured(child, scope, True)
            elif kind in ("string", "concatenated_string", "ERROR", "attribute", "call"):
                self._stack.append((child, scope))
            else:
                patterns.extend((entry, True) for entry in child.named_children)

    def _captured(self, node: Node, scope: Scope, is_capture: bool) -> None:
        names = node.named_children or [node]
        if len(names) == 1 and is_capture:
            self._bind(scope, names[0], Value(ValueKind.UNKNOWN, None, scope, line(node), line(node)))
        else:
            self._use(node if node.type == "dotted_name" else names[0], scope)

    # Imports

    def _import(self, node: Node, scope: Scope) -> None:
        for child in node.named_children:
            name_node, alias = child, None
            if child.type == "aliased_import":
                name_node = child.child_by_field_name("name") or child
                alias = child.child_by_field_name("alias")
            name = _dotted(name_node)
            if not name:
                continue
            self.reading.imports.append((name, line(child)))
            if alias is not None:
                self._bind(scope, alias, Imported(name))
            elif name_node.named_children:
                first = name_node.named_children[0]
                self._bind(scope, first, Imported(text(first)))

    def _import_from(self, node: Node, scope: Scope) -> None:
        module_node = node.child_by_field_name("module_name")
        written = "".join(text(module_node).split())
        module = imported_name(self._package, written)
        if module:
            self.reading.imports.append((module, line(node)))
        for child in node.named_children:
            if child == module_node:
                continue
            if child.type == "wildcard_import":
                self.reading.stars.append((module, line(child)))
                continue
            name_node, bound = child, child
            if child.type == "aliased_import":
                name_node = child.child_by_field_name("name") or child
                bound = child.child_by_field_name("alias") or name_node
            if name_node.type != "dotted_name":
                continue
            name = _dotted(name_node)
            target = f"{module}.{name}" if module else name
            self.reading.imports.append((target, line(child)))
            self._bind(scope, bound.named_children[0] if bound.named_children else bound, Imported(target))


def _skip(node: Node, scope: Scope) -> None:
    """What it names is no symbol."""


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


def _dotted(node: Node) -> str:
    return ".".join(text(child) for child in node.named_children) if node.named_children else text(node)


def _last_name(decorator: Node) -> str:
    """`tool` of `@server.tool(name="x")`."""
    node = next(iter(decorator.named_children), None)
    if node is not None and node.type == "call":
        node = node.child_by_field_name("function")
    if node is not None and node.type == "attribute":
        node = node.child_by_field_name("attribute")
    return text(node)
