"""Parses source code into trees: the languages with a grammar, and their parsers, with bounds on their work.

A grammar is loaded at its first use. Grammars come with the extra `graph`: without it no language has one.
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
"""First bytes of a source that are parsed. Handwritten sources are seldom longer; generated ones need no more."""
_STEPS = {"python": (200, 0.05)}
_OTHER_STEPS = 60, 0.03
"""Most calls of `is_too_much` (one in 100 steps): a base, and more for each byte. Sources take .001 to .007 for a byte,
minified ones up to .02, `x = 1` on every line .034. Python has few readings at a time, so more do no harm."""
_READINGS = 20
"""Most readings of each byte. Sources are read 1 to 2 times, the worst of 1,700 files 6 times."""
_FREE_BYTES = 200_000
_MOST_UNCLOSED = 300
_PIECE_BYTES = 512
"""Bytes that one call of `piece` returns, to the parser or to a reader of a node's text, which is short."""
_own = threading.local()


def has_grammar(language: str | None) -> TypeGuard[str]:
    """Return whether there is a parser for sources in `language`."""
    return language in _MODULES and _is_installed(language)


@cache
def _is_installed(language: str) -> bool:
    return all(find_spec(module) is not None for module in ("tree_sitter", _MODULES[language][0]))


@cache
def grammar_of(language: str) -> Language:
    """Return the grammar of a language, for queries on its parser's trees. Raises KeyError if it has no grammar."""
    from tree_sitter import Language

    module, function = _MODULES[language]
    return Language(getattr(import_module(module), function)())


def parse(language: str, source: bytes) -> Tree | None:
    """Return the tree of the first `MOST_SOURCE_BYTES` of a source; None where the parser exceeds its bounds.

    Every text parses: text that is no code of the language becomes an ERROR node of the tree. But a grammar follows
    every reading that is possible so far, and some texts have ever more: 40 kB of `a<` in Java take gigabytes. Such a
    text is given up by its content and by the parser's work, never by the time: the same text always has the same tree.
    Raises KeyError for a language without a grammar.
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
    except ValueError:  # "Parsing failed": `is_too_much` stopped it
        parser.reset()
        return None
    if read > most_read:
        return None
    most_read = math.inf  # reading the text of a node calls `piece` too
    return tree


def _parser_for(language: str) -> Parser:
    """Return this thread's parser for the language."""
    from tree_sitter import Parser

    parsers: dict[str, Parser] | None = getattr(_own, "parsers", None)
    if parsers is None:
        parsers = _own.parsers = {}
    if language not in parsers:
        parsers[language] = Parser(grammar_of(language))
    return parsers[language]


def _unclosed(source: bytes) -> int:
    """Estimate how many `<` stay open. Shifts do not count; a `>` takes off ten, as `<` also compares."""
    return source.count(b"<") - 2 * source.count(b"<<") - 10 * source.count(b">")
