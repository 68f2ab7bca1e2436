"""Source code as trees: the languages that have a grammar, and their parsers, which keep within bounds.

A grammar is loaded when it is first asked for. They come with the extra `graph`: without it no language has one.
"""

from __future__ import annotations

import math
import threading
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree


_MODULES = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
}
MOST_SOURCE_BYTES = 500_000
"""Of one source, the first. What people write is seldom longer; of what is generated the beginning tells enough."""
_STEPS = {"python": (200, 0.05)}
_OTHER_STEPS = 60, 0.03
"""In hundreds: so many steps a parser may take, and so many more for each byte. Sources take .001 to .007 for a byte,
minified ones up to .02, `x = 1` on every line .034. In Python, which has few readings at a time, they do no harm."""
_READINGS = 20
"""How often each byte may be read. Sources are read 1 to 2 times, the worst of 1,700 files 6 times."""
_FREE_BYTES = 200_000
_MOST_UNCLOSED = 300
_PIECE_BYTES = 512
"""That the parser is given at a time; and so is who asks for the text of a node, which is short."""
_own = threading.local()


def has_grammar(language: str | None) -> TypeGuard[str]:
    """Whether there is a parser for sources in `language`."""
    return language in _MODULES and _is_installed(language)


@cache
def _is_installed(language: str) -> bool:
    return all(find_spec(module) is not None for module in ("tree_sitter", _MODULES[language][0]))


@cache
def grammar_of(language: str) -> Language:
    """The grammar of a language, for queries on what its parser gave. Raises KeyError for one without a grammar."""
    from tree_sitter import Language

    module, function = _MODULES[language]
    return Language(getattr(import_module(module), function)())


def parse(language: str, source: bytes) -> Tree | None:
    """The tree of the first `MOST_SOURCE_BYTES` of a source; None where the grammar cannot make out what it is.

    Every text parses: what is no code of the language becomes an ERROR node of the tree. But a grammar follows every
    reading that is possible so far, and of some texts there are ever more: 40 kB of `a<` in Java take gigabytes. Such a
    text is given up by what it holds and by what it takes of the parser, never by the time: the same text has always
    the same tree. Raises KeyError for a language without a grammar.
    """
    parser, source = _parser_for(language), source[:MOST_SOURCE_BYTES]
    if language == "java" and _unclosed(source) > _MOST_UNCLOSED:
        return None
    most_read: float = _FREE_BYTES + _READINGS * len(source)
    free_steps, steps_per_byte = _STEPS.get(language, _OTHER_STEPS)
    asked = read = 0

    def is_too_much(offset: int, has_error: bool) -> bool:
        nonlocal asked
        asked += 1
        return asked > free_steps + steps_per_byte * offset or read > most_read

    def piece(offset: int, _: object) -> bytes:
        nonlocal read
        read += _PIECE_BYTES
        return source[offset : offset + _PIECE_BYTES] if read <= most_read else b""

    try:
        tree = parser.parse(piece, progress_callback=is_too_much)
    except ValueError:  # "Parsing failed": it was told to stop
        parser.reset()
        return None
    if read > most_read:
        return None
    most_read = math.inf  # the text of a node is read by `piece` too
    return tree


def _parser_for(language: str) -> Parser:
    """One for each thread."""
    from tree_sitter import Parser

    parsers: dict[str, Parser] | None = getattr(_own, "parsers", None)
    if parsers is None:
        parsers = _own.parsers = {}
    if language not in parsers:
        parsers[language] = Parser(grammar_of(language))
    return parsers[language]


def _unclosed(source: bytes) -> int:
    """By how many a text has more `<` than can be comparisons beside its `>`."""
    return source.count(b"<") - 2 * source.count(b"<<") - 10 * source.count(b">")
