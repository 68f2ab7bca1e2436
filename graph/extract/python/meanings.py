"""What an expression of a file means: a symbol, or an instance of a class, as far as the file alone tells.

Assignments, annotations, `self`, calls of classes and of functions with a known result are followed within the file.
The result of a call of something imported is named by what is called: `x = shop.Cart(); x.add` is `shop.Cart.add`,
which is right for a class, and for a function too, since its file states which type it returns.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from sluice.contracts.graph.model import Origin


class Kind(Enum):
    """What sort of thing an expression means."""

    SYMBOL = auto()
    """What the name stands for itself: a module, a class, a function, a variable."""
    INSTANCE = auto()
    """An instance of the class, or the result of the function."""
    BUILTIN = auto()
    """A value of a type that Python has built in; `name` is the type's."""
    NONE = auto()


class Meaning(NamedTuple):
    """One thing that an expression can mean."""

    kind: Kind
    name: str
    origin: Origin = Origin.SCOPE
    element: Meanings = ()
    """Of a builtin container: what it holds; of a mapping its values."""


Meanings = tuple[Meaning, ...]
"""All that an expression can mean; none: it is not known."""

UNKNOWN: Meanings = ()
NOTHING: Meanings = (Meaning(Kind.NONE, "None"),)
MOST = 4
"""An expression that can mean more is not known: the types of a union are few."""


def builtin(name: str, element: Meanings = ()) -> Meanings:
    """A value of a builtin type."""
    return (Meaning(Kind.BUILTIN, name, Origin.SCOPE, element),)


def instances(symbols: Meanings) -> Meanings:
    """Instances of classes."""
    return tuple(
        meaning._replace(kind=Kind.INSTANCE) if meaning.kind is Kind.SYMBOL else meaning for meaning in symbols
    )


def one_of(choices: list[Meanings]) -> Meanings:
    """What can be any of the choices: unknown as soon as one of them is. None is left out beside others."""
    found: dict[Meaning, None] = {}
    for choice in choices:
        if not choice:
            return UNKNOWN
        found.update(dict.fromkeys(choice))
    known = tuple(meaning for meaning in found if meaning.kind is not Kind.NONE)
    if len(known) > MOST:
        return UNKNOWN
    return known or (NOTHING if found else UNKNOWN)
