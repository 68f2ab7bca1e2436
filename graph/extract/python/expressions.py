"""Evaluates the expressions of a Python file to symbols, by the kind of their syntax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.contracts.graph.model import ANY, Origin
from sluice.graph.extract.python.annotations import NOTHING, UNKNOWN, Kind, Meaning, Meanings, builtin, one_of
from sluice.graph.extract.python.inference import Inference
from sluice.graph.extract.python.scopes import Scope, ScopeKind, string_content, text

if TYPE_CHECKING:
    from tree_sitter import Node

_LITERALS = {
    **dict.fromkeys(("string", "concatenated_string"), "str"),
    **dict.fromkeys(("true", "false", "comparison_operator", "not_operator"), "bool"),
    **dict.fromkeys(
        ("list", "tuple", "set", "list_comprehension", "set_comprehension", "generator_expression"), "list"
    ),
    **dict.fromkeys(("dictionary", "dictionary_comprehension"), "dict"),
    "integer": "int",
    "float": "float",
}
_GIVE_THE_FIRST = frozenset({"functools.partial", "functools.partialmethod", "functools.update_wrapper"})
"""Calls of what they give are calls of their first argument."""
_MOST = 8
"""Expressions that one can come to, that are looked at."""


class Expressions(Inference):
    """What expressions of one file mean."""

    def expression(self, node: Node, scope: Scope, depth: int) -> Meanings:
        """What the expression means; none where that is not known."""
        match node.type:
            case "identifier":
                return self.of_name(text(node), scope, depth)
            case "none":
                return NOTHING
            case "attribute":
                return self._attribute(node, scope, depth)
            case "call":
                return self._call(node, scope, depth)
            case "subscript":
                return self._subscript(node, scope, depth)
            case "boolean_operator":
                return self._either(node.child_by_field_name("left"), node.child_by_field_name("right"), scope, depth)
            case "conditional_expression" if node.named_children:
                return self._either(node.named_children[0], node.named_children[-1], scope, depth)
            case "binary_operator":
                return self._binary(node, scope, depth)
            case "parenthesized_expression" | "await" if node.named_children:
                return self.of(node.named_children[0], scope, depth)
            case "named_expression":
                value = node.child_by_field_name("value")
                return self.of(value, scope, depth) if value is not None else UNKNOWN
        literal = _LITERALS.get(node.type)
        return builtin(literal) if literal is not None else UNKNOWN

    def _attribute(self, node: Node, scope: Scope, depth: int) -> Meanings:
        base, name = node.child_by_field_name("object"), node.child_by_field_name("attribute")
        if base is None or name is None:
            return UNKNOWN
        return self._members(self.of(base, scope, depth), text(name), depth)

    def _members(self, of: Meanings, name: str, depth: int) -> Meanings:
        return one_of([self.member(meaning, name, depth) for meaning in of]) if of else UNKNOWN

    def _subscript(self, node: Node, scope: Scope, depth: int) -> Meanings:
        """`Cart[int]` is the class; what a table holds is not followed."""
        base = node.child_by_field_name("value")
        found = self.of(base, scope, depth) if base is not None else UNKNOWN
        return found if found and all(self._is_class(meaning) for meaning in found) else UNKNOWN

    def _is_class(self, of: Meaning) -> bool:
        own = self.own(of)
        is_class = own.kind is ScopeKind.CLASS if own is not None else of.name.rpartition(".")[2][:1].isupper()
        return of.kind is Kind.SYMBOL and is_class

    def _either(self, one: Node | None, other: Node | None, scope: Scope, depth: int) -> Meanings:
        return one_of([self.of(side, scope, depth) for side in (one, other) if side is not None])

    def _binary(self, node: Node, scope: Scope, depth: int) -> Meanings:
        left = node.child_by_field_name("left")
        found = self.of(left, scope, depth) if left is not None else UNKNOWN
        return found if found and all(meaning.kind is Kind.BUILTIN for meaning in found) else UNKNOWN

    def _call(self, node: Node, scope: Scope, depth: int) -> Meanings:
        function, arguments = node.child_by_field_name("function"), _arguments(node)
        if function is None:
            return UNKNOWN
        name = text(function.child_by_field_name("attribute") or function)
        if function.type == "identifier" and scope.holder(name) is None:
            known = self._of_builtin(name, node, scope, depth)
            if known is not None:
                return known
        meant = self.of(function, scope, depth)
        if arguments and any(meaning.name in _GIVE_THE_FIRST for meaning in meant):
            return self.of(arguments[0], scope, depth)
        if arguments and name == "cast":
            return self.annotations.read(arguments[0], scope, depth)
        return one_of([self.called(meaning, depth) for meaning in meant]) if meant else UNKNOWN

    def _of_builtin(self, name: str, node: Node, scope: Scope, depth: int) -> Meanings | None:
        """What a call of a builtin that hands on what it is given gives; None: of one that does not."""
        arguments = _arguments(node)
        if name == "super":
            held = scope.enclosing_class
            return self._super(held, depth) if held is not None else UNKNOWN
        if not arguments or name not in ("staticmethod", "classmethod", "getattr", "type"):
            return None
        first = self.of(arguments[0], scope, depth)
        if name == "getattr":
            return self._read_attribute(node, first, depth)
        if name != "type":
            return first
        return tuple(meaning._replace(kind=Kind.SYMBOL) for meaning in first if meaning.kind is Kind.INSTANCE)

    def _read_attribute(self, node: Node, of: Meanings, depth: int) -> Meanings:
        """What `getattr` gives: of a name that is made, as `"visit_" + kind`, all that begins so."""
        if name := read_attribute(node):
            return self._members(of, name, depth)
        beginning = _read_beginning(node)
        known = [meaning for meaning in of if meaning.kind in (Kind.SYMBOL, Kind.INSTANCE)] if beginning else []
        return tuple(Meaning(Kind.SYMBOL, f"{one.name}.{beginning}{ANY}", one.origin) for one in known)

    def _super(self, of: Scope, depth: int) -> Meanings:
        bases = self.bases(of, depth)
        if not bases:
            return builtin("object")
        return tuple(Meaning(Kind.INSTANCE, meaning.name, Origin.SELF) for meanings in bases for meaning in meanings)


def _arguments(node: Node) -> list[Node]:
    arguments = node.child_by_field_name("arguments")
    if arguments is None or arguments.type != "argument_list":
        return []
    return [child for child in arguments.named_children if child.type not in ("keyword_argument", "comment")]


def choices(node: Node) -> Iterator[Node]:
    """The expressions that it can come to, itself where it is no choice; the first few."""
    work = [node]
    for _ in range(_MOST):
        if not work:
            return
        node = work.pop()
        if node.type == "conditional_expression" and node.named_children:
            work += [node.named_children[-1], node.named_children[0]]
        elif node.type in ("boolean_operator", "parenthesized_expression"):
            work += reversed(node.named_children)
        else:
            yield node


def last_name(node: Node) -> str:
    """The attribute that is read: `save` of `item.save` and of `getattr(item, "save")`; empty where it is none."""
    if node.type == "attribute":
        return text(node.child_by_field_name("attribute"))
    if node.type != "call" or text(node.child_by_field_name("function")) != "getattr":
        return ""
    return read_attribute(node)


def read_attribute(call: Node) -> str:
    """The attribute that a call of `getattr` reads; empty where its name is not written out."""
    arguments = call.child_by_field_name("arguments")
    written = arguments.named_children if arguments is not None else []
    if len(written) < 2 or written[1].type != "string":
        return ""
    name = string_content(written[1])
    is_whole = not any(child.type == "interpolation" for child in written[1].named_children)
    return name if is_whole and name.isidentifier() else ""


def _read_beginning(call: Node) -> str:
    """How the attribute that a call of `getattr` reads begins: `visit_` of `"visit_" + name` and `f"visit_{name}"`."""
    arguments = call.child_by_field_name("arguments")
    written = arguments.named_children if arguments is not None else []
    node: Node | None = written[1] if len(written) > 1 else None
    if node is not None and node.type == "binary_operator":
        node = node.child_by_field_name("left")
    if node is None or node.type != "string":
        return ""
    first = next((child for child in node.named_children if child.type in ("string_content", "interpolation")), None)
    beginning = text(first).partition("%")[0] if first is not None and first.type == "string_content" else ""
    return beginning if len(beginning) > 1 and beginning.isidentifier() else ""
