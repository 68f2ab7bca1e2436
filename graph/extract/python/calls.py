"""What calls give, as they are written: of functions and classes of the file, of builtins, of `super` and `cast`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import Node

from sluice.contracts.graph.model import ANY, Origin
from sluice.graph.extract.python.builtin_calls import builtin_call, builtin_method
from sluice.graph.extract.python.choices import read_attribute, read_beginning
from sluice.graph.extract.python.meanings import UNKNOWN, Kind, Meaning, Meanings, builtin, one_of
from sluice.graph.extract.python.protocols import called, element
from sluice.graph.extract.python.reading import text
from sluice.graph.extract.python.scopes import Scope

if TYPE_CHECKING:
    from sluice.graph.extract.python.inference import Inference

_GIVE_THE_FIRST = frozenset({"functools.partial", "functools.partialmethod", "functools.update_wrapper"})
"""Calls of what they give are calls of their first argument."""


def call(inference: Inference, node: Node, scope: Scope, depth: int) -> Meanings:
    """What the call gives."""
    function = node.child_by_field_name("function")
    if function is None:
        return UNKNOWN
    if function.type == "identifier" and scope.holder(text(function)) is None:
        return _of_builtin(inference, text(function), node, scope, depth)
    name = function
    if function.type == "attribute":
        base, name = function.child_by_field_name("object"), function.child_by_field_name("attribute") or function
        held = inference.of(base, scope, depth) if base is not None else UNKNOWN
        if held and all(meaning.kind is Kind.BUILTIN for meaning in held):
            return one_of([builtin_method(meaning, text(name)) for meaning in held])
        meant = one_of([inference.member(meaning, text(name), depth) for meaning in held]) if held else UNKNOWN
    else:
        meant = inference.of(function, scope, depth)
    if any(meaning.name in _GIVE_THE_FIRST for meaning in meant) and (arguments := _arguments(node)):
        return inference.of(arguments[0], scope, depth)
    if name.type == "identifier" and text(name) == "cast" and (arguments := _arguments(node)):
        return inference.annotations.read(arguments[0], scope, depth)
    return one_of([called(inference, meaning, depth) for meaning in meant]) if meant else UNKNOWN


def _of_builtin(inference: Inference, name: str, node: Node, scope: Scope, depth: int) -> Meanings:
    arguments = _arguments(node)
    if name == "super":
        held = scope.enclosing_class
        return _super(inference, held, depth) if held is not None else UNKNOWN
    first = inference.of(arguments[0], scope, depth) if arguments else UNKNOWN
    if name in ("staticmethod", "classmethod"):
        return first
    if name == "getattr":
        return _read_attribute(inference, node, first, depth)
    if name == "type" and len(arguments) == 1:
        return tuple(meaning._replace(kind=Kind.SYMBOL) for meaning in first if meaning.kind is Kind.INSTANCE)
    elements = one_of([element(inference, meaning, depth) for meaning in first]) if first else UNKNOWN
    return builtin_call(name, elements)


def _read_attribute(inference: Inference, node: Node, of: Meanings, depth: int) -> Meanings:
    """What `getattr` gives: of a name that is made, as `"visit_" + kind`, all that begins so."""
    if name := read_attribute(node):
        return one_of([inference.member(meaning, name, depth) for meaning in of]) if of else UNKNOWN
    beginning = read_beginning(node)
    known = [meaning for meaning in of if meaning.kind in (Kind.SYMBOL, Kind.INSTANCE)] if beginning else []
    return tuple(Meaning(Kind.SYMBOL, f"{one.name}.{beginning}{ANY}", one.origin) for one in known)


def _super(inference: Inference, of: Scope, depth: int) -> Meanings:
    bases = inference.bases(of, depth)
    if not bases:
        return builtin("object")
    return tuple(Meaning(Kind.INSTANCE, meaning.name, Origin.SELF) for meanings in bases for meaning in meanings)


def _arguments(node: Node) -> list[Node]:
    arguments = node.child_by_field_name("arguments")
    if arguments is None or arguments.type != "argument_list":
        return []
    return [child for child in arguments.named_children if child.type not in ("keyword_argument", "comment")]
