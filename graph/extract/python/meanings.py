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


Meanings = tuple[Meaning, ...]
"""All that an expression can mean; none: it is not known."""

UNKNOWN: Meanings = ()
NOTHING: Meanings = (Meaning(Kind.NONE, "None"),)
SCALARS = frozenset({"str", "int", "float", "bool", "bytes"})
MOST = 4
"""An expression that can mean more is not known: the types of a union are few."""


def builtin(name: str) -> Meanings:
    """A value of a builtin type, or what is built in itself: what it holds is not followed."""
    return (Meaning(Kind.BUILTIN, name),)


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


_EXCEPTIONS = """
ArithmeticError AssertionError AttributeError BaseException BaseExceptionGroup BlockingIOError BrokenPipeError
BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError
ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError Exception ExceptionGroup
FileExistsError FileNotFoundError FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning
IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError
ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError OverflowError PendingDeprecationWarning
PermissionError ProcessLookupError PythonFinalizationError RecursionError ReferenceError ResourceWarning RuntimeError
RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning SystemError SystemExit TabError TimeoutError
TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning
UserWarning ValueError Warning WindowsError ZeroDivisionError
"""
_FUNCTIONS = """
abs aiter all anext any ascii bin breakpoint callable chr compile copyright credits delattr dir divmod eval exec exit
format getattr globals hasattr hash help hex id input isinstance issubclass iter len license locals max min next oct
open ord pow print quit repr round setattr sorted sum vars __build_class__ __import__
"""
_TYPES = """
bool bytearray bytes classmethod complex dict enumerate filter float frozenset int list map memoryview object property
range reversed set slice staticmethod str super tuple type zip Ellipsis False None NotImplemented True
"""
_MODULE_NAMES = """
__annotations__ __builtins__ __cached__ __debug__ __dict__ __doc__ __file__ __loader__ __name__ __package__ __path__
__spec__ __class__ __module__ __qualname__
"""
_PYTHON_2 = "basestring cmp execfile file long raw_input reduce reload unichr unicode xrange"

EXCEPTIONS = frozenset(_EXCEPTIONS.split())
TYPES = frozenset(_TYPES.split())
BUILTINS = frozenset([*_EXCEPTIONS.split(), *_FUNCTIONS.split(), *_TYPES.split(), *_MODULE_NAMES.split()]) | frozenset(
    _PYTHON_2.split()
)
"""Names that mean a builtin where a file binds them nowhere."""

OF_EVERY_OBJECT = frozenset(
    [
        *("__class__", "__dict__", "__doc__", "__module__", "__name__", "__qualname__", "__annotations__", "__file__"),
        *("__code__", "__slots__", "__bases__", "__mro__", "__wrapped__", "__func__", "__self__", "__traceback__"),
        *("__cause__", "__context__"),
    ]
)
"""Attributes that objects have without a definition in any file."""
