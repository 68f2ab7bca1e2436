"""What calls of builtin functions, and of methods of builtin types, give."""

from __future__ import annotations

from sluice.graph.extract.python.builtin_names import EXCEPTIONS
from sluice.graph.extract.python.meanings import UNKNOWN, Kind, Meaning, Meanings, builtin

_RESULTS = {
    **dict.fromkeys(("str", "repr", "ascii", "bin", "chr", "format", "hex", "input", "oct"), "str"),
    **dict.fromkeys(("int", "len", "hash", "id", "ord", "sum"), "int"),
    **dict.fromkeys(("bool", "all", "any", "callable", "hasattr", "isinstance", "issubclass"), "bool"),
    **dict.fromkeys(("dict", "globals", "locals", "vars"), "dict"),
    **dict.fromkeys(("range", "enumerate", "zip", "map", "object", "open", "memoryview", "slice", "complex"), "other"),
    "float": "float",
    "bytes": "bytes",
    "bytearray": "bytes",
}
_HOLDERS = frozenset({"list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "filter"})
_ELEMENTS = frozenset({"next", "min", "max", "anext"})
_OF_VALUES = frozenset({"get", "pop", "setdefault", "popleft"})
_SAME = frozenset({"copy", "union", "values"})
_SCALARS = frozenset({"str", "int", "float", "bool", "bytes"})
_SPLIT = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition"})


def builtin_call(name: str, elements: Meanings) -> Meanings:
    """What `name(…)` gives; `elements` is what the first argument holds."""
    if name in _RESULTS:
        return builtin(_RESULTS[name])
    if name in _HOLDERS:
        return builtin("list", elements)
    if name in EXCEPTIONS:
        return builtin(name)
    return elements if name in _ELEMENTS else UNKNOWN


def builtin_method(of: Meaning, name: str) -> Meanings:
    """What a call of a method of a builtin type gives."""
    if of.kind is not Kind.BUILTIN:
        return UNKNOWN
    if of.name in _SCALARS:
        return builtin("list", builtin("str")) if name in _SPLIT else builtin(of.name)
    if name in _OF_VALUES:
        return of.element
    return builtin("list", of.element) if name in _SAME else UNKNOWN
