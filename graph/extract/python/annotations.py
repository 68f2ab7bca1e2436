"""What an expression of a file means, a symbol or an instance of a class, and how annotations say so.

Assignments, annotations, `self`, calls of classes and of functions with a known result are followed within the file.
The result of a call of something imported is named by what is called: `x = shop.Cart(); x.add` is `shop.Cart.add`,
which is right for a class, and for a function too, since its file states which type it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.graph.model import Origin
from sluice.graph.extract.python.scopes import Scope, Value, ValueKind, text

if TYPE_CHECKING:
    from tree_sitter import Node

_FIRST = frozenset(
    [
        "Optional",
        "Annotated",
        "Final",
        "ClassVar",
        "Required",
        "NotRequired",
        "ReadOnly",
        "Awaitable",
        "Mapped",
        "InitVar",
    ]
)
"""Generic types that are read as their first argument."""
_CONTAINERS = frozenset(
    [
        *("list", "set", "frozenset", "tuple", "deque", "List", "Set", "FrozenSet", "Tuple", "Deque", "Sequence"),
        *("MutableSequence", "Iterable", "Iterator", "Collection", "Container", "AbstractSet", "AsyncIterable"),
        *("AsyncIterator", "AsyncGenerator", "Generator", "KeysView", "ValuesView", "dict", "defaultdict", "Dict"),
        *("OrderedDict", "DefaultDict", "Mapping", "MutableMapping"),
    ]
)
"""Types whose members are built in; what they hold is not followed."""
_UNKNOWN = frozenset(
    [
        *("Any", "Callable", "TypeVar", "Literal", "ParamSpec", "TypeAlias", "object", "Never", "NoReturn"),
        "LiteralString",
    ]
)
_SELF = "Self"
_DEEPEST = 12
_QUOTED = re.compile(r"[A-Za-z_][\w.]*")


class Annotations:
    """Annotations of one file. `of` finds what an expression means."""

    def __init__(self, of: Callable[[Node, Scope, int], Meanings], of_name: Callable[[str, Scope, int], Meanings]):
        self._of = of
        self._of_name = of_name

    def read(self, node: Node, scope: Scope, depth: int = 0) -> Meanings:
        """What a value with this annotation is; none where the annotation does not tell."""
        if depth > _DEEPEST:
            return UNKNOWN
        depth += 1
        kind = node.type
        if kind in ("type", "parenthesized_expression"):
            return self.read(node.named_children[0], scope, depth) if node.named_children else UNKNOWN
        if kind == "none":
            return NOTHING
        if kind in ("identifier", "attribute"):
            return self._named(node, scope, depth)
        if kind == "string":
            return self._quoted(node, scope, depth)
        if kind in ("binary_operator", "union_type"):
            return one_of([self.read(side, scope, depth) for side in node.named_children])
        if kind in ("generic_type", "subscript"):
            return self._generic(node, scope, depth)
        return UNKNOWN

    def _named(self, node: Node, scope: Scope, depth: int) -> Meanings:
        written = text(node)
        last = written.rpartition(".")[2]
        if last in _UNKNOWN:
            return UNKNOWN
        if last == _SELF and (held := scope.enclosing_class) is not None:
            return (Meaning(Kind.INSTANCE, held.name),)
        if node.type == "identifier":
            holder = scope.holder(written)
            if holder is None:
                return builtin(written) if written in BUILTINS else UNKNOWN
            alias = holder.bindings[written][0]
            if isinstance(alias, Value):
                return self._variable(alias, depth)
        if last in _CONTAINERS:
            return builtin("list")
        return instances(self._of(node, scope, depth))

    def _variable(self, alias: Value, depth: int) -> Meanings:
        """A type by another name: `Row = dict[str, Cell]`. Type variables tell nothing."""
        node = alias.node
        if node is None or alias.kind is not ValueKind.IS or alias.position is not None:
            return UNKNOWN
        if node.type == "call":
            return UNKNOWN
        return self.read(node, alias.scope, depth)

    def _quoted(self, node: Node, scope: Scope, depth: int) -> Meanings:
        """`"Foo"`, `"Foo | None"`, `"Optional[Foo]"`; other annotations in quotes are not read."""
        content = "".join(text(child) for child in node.named_children if child.type == "string_content").strip()
        content = re.sub(r"^(?:\w+\.)?Optional\[(.*)\]$", r"\1", content)
        names = [part.strip() for part in content.split("|")]
        if not all(_QUOTED.fullmatch(name) for name in names):
            return UNKNOWN
        return one_of([self._quoted_name(name, scope, depth) for name in names])

    def _quoted_name(self, name: str, scope: Scope, depth: int) -> Meanings:
        if name == "None":
            return NOTHING
        if name == _SELF and (held := scope.enclosing_class) is not None:
            return (Meaning(Kind.INSTANCE, held.name),)
        first, _, rest = name.partition(".")
        found = self._of_name(first, scope, depth)
        if rest:
            found = tuple(meaning._replace(name=f"{meaning.name}.{rest}") for meaning in found)
        return instances(found) if name.rpartition(".")[2] not in _UNKNOWN else UNKNOWN

    def _generic(self, node: Node, scope: Scope, depth: int) -> Meanings:
        head = node.child_by_field_name("value") or next(iter(node.named_children), None)
        if head is None:
            return UNKNOWN
        arguments = [child for child in node.named_children if child != head]
        if len(arguments) == 1 and arguments[0].type in ("type_parameter", "tuple"):
            arguments = arguments[0].named_children
        if not arguments:
            return UNKNOWN
        name = text(head).rpartition(".")[2]
        if name in _FIRST:
            return self.read(arguments[0], scope, depth)
        if name == "Coroutine":
            return self.read(arguments[-1], scope, depth)
        if name == "Union":
            return one_of([self.read(argument, scope, depth) for argument in arguments])
        if name in ("type", "Type"):
            return tuple(
                meaning._replace(kind=Kind.SYMBOL) if meaning.kind is Kind.INSTANCE else meaning
                for meaning in self.read(arguments[0], scope, depth)
            )
        return self._named(head, scope, depth) if head.type in ("identifier", "attribute") else UNKNOWN


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
