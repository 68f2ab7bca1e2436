"""What values of a file give where they are called, subscripted, looped over or entered with `with`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.graph.model import ANY
from sluice.graph.extract.python.meanings import NOTHING, UNKNOWN, Kind, Meaning, Meanings, builtin, one_of
from sluice.graph.extract.python.scopes import ScopeKind

if TYPE_CHECKING:
    from sluice.graph.extract.python.inference import Inference

SCALARS = frozenset({"str", "int", "float", "bool", "bytes"})


def called(inference: Inference, of: Meaning, depth: int) -> Meanings:
    """What a call of it gives: of a class an instance, of a function its result."""
    if of.kind is Kind.NONE:
        return NOTHING
    if of.kind is Kind.BUILTIN:
        return builtin(of.name) if of.name in SCALARS else UNKNOWN
    own = inference.own(of)
    if of.name.endswith(ANY):
        return UNKNOWN
    if of.kind is Kind.INSTANCE:
        call = inference.class_member(own, "__call__", of.origin, depth) if own else UNKNOWN
        return one_of([called(inference, meaning, depth) for meaning in call]) if call else UNKNOWN
    if own is None or own.kind is ScopeKind.CLASS:
        return (of._replace(kind=Kind.INSTANCE),)
    return inference.result(own, depth)


def item(inference: Inference, of: Meaning, depth: int) -> Meanings:
    """What `of[…]` gives."""
    if of.kind is Kind.BUILTIN:
        return builtin(of.name) if of.name in SCALARS else of.element
    own = inference.own(of)
    if of.kind is Kind.SYMBOL:
        is_class = own.kind is ScopeKind.CLASS if own is not None else of.name.rpartition(".")[2][:1].isupper()
        return (of,) if is_class else UNKNOWN
    held = inference.class_member(own, "__getitem__", of.origin, depth) if own is not None else UNKNOWN
    return one_of([called(inference, meaning, depth) for meaning in held]) if held else UNKNOWN


def element(inference: Inference, of: Meaning, depth: int) -> Meanings:
    """What a loop over it goes through."""
    if of.kind is Kind.BUILTIN:
        return builtin("str") if of.name == "str" else (UNKNOWN if of.name == "dict" else of.element)
    own = inference.own(of) if of.kind is Kind.INSTANCE else None
    held = inference.class_member(own, "__iter__", of.origin, depth) if own is not None else UNKNOWN
    given = one_of([called(inference, meaning, depth) for meaning in held]) if held else UNKNOWN
    return one_of([meaning.element for meaning in given]) if given else UNKNOWN


def entered(inference: Inference, of: Meaning, depth: int) -> Meanings:
    """What `with` binds of it: itself, where it does not say."""
    own = inference.own(of) if of.kind is Kind.INSTANCE else None
    if own is None or own.kind is not ScopeKind.CLASS:
        return (of,)
    for name in ("__enter__", "__aenter__"):
        held = inference.class_member(own, name, of.origin, depth)
        given = one_of([called(inference, meaning, depth) for meaning in held]) if held else UNKNOWN
        if given:
            return given
    return (of,)
