"""The parsers of the languages whose references are read. A grammar is loaded when it is first asked for."""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module

from tree_sitter import Language, Parser

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
_own = threading.local()


def has_grammar(language: str | None) -> bool:
    """Whether there is a parser for sources in `language`."""
    return language in _MODULES


@cache
def grammar_of(language: str) -> Language:
    """The grammar of a language, for queries on what its parser gave. Raises KeyError for one without a grammar."""
    module, function = _MODULES[language]
    return Language(getattr(import_module(module), function)())


def parser_for(language: str) -> Parser:
    """The parser of a language, one for each thread. Raises KeyError for a language without a grammar.

    Every text parses: what is no code of the language becomes an ERROR node of the tree.
    """
    parsers: dict[str, Parser] | None = getattr(_own, "parsers", None)
    if parsers is None:
        parsers = _own.parsers = {}
    if language not in parsers:
        parsers[language] = Parser(grammar_of(language))
    return parsers[language]
