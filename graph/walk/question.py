"""Reads from a question the symbols that it names and its direction along the edges."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sluice.graph.walk.nodes import Kind
from sluice.text.pattern_file import PatternFile

MOST_NAMES = 16
"""Most names of one question, the first ones."""

_URL = re.compile(r"https?://[^\s<>\"'`)\]]+")
_PATH = re.compile(r"(?<![\w/.-])(?:[\w.-]+/)+[\w.-]*\w|(?<![\w/.-])[\w-]+\.[a-z]{1,4}\b(?!\()")
_DOTTED = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#)[^\W\d]\w*)+")
_ABBREVIATION = re.compile(r"\w(?:\.\w)+")
_QUOTED = re.compile(r"`([^`\n]{1,120})`")
_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
_SUFFIXES = re.compile(
    r"\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|c|h|cc|cpp|hpp|md|rst|txt|toml|yaml|yml|json|html|cfg|ini|sh|sql|lua)$"
)


class Named(NamedTuple):
    """A name in a question: `Session.get`, `workers/handlers.py`, `https://example.com/`."""

    text: str
    kind: str
    """`symbol`, `path` or `url`."""


def names_in(question: str) -> list[Named]:
    """Return names in the order of the question, each once."""
    found: dict[Named, int] = {}

    def add(text: str, kind: str, position: int) -> None:
        named = Named(text, kind)
        found[named] = min(position, found.get(named, position))

    rest = question
    for match in _URL.finditer(rest):
        add(match[0].rstrip(".,;:!?"), "url", match.start())
    rest = _URL.sub(_blank, rest)
    for match in _PATH.finditer(rest):
        if "/" in match[0] or _SUFFIXES.search(match[0]):
            add(match[0].removeprefix("./"), "path", match.start())
            rest = rest[: match.start()] + " " * len(match[0]) + rest[match.end() :]
    for match in _QUOTED.finditer(rest):
        for inner in _DOTTED.finditer(match[1]):
            add(_dots(inner[0]), "symbol", match.start(1) + inner.start())
        for inner in _WORD.finditer(match[1]):
            add(inner[0], "symbol", match.start(1) + inner.start())
    for match in _DOTTED.finditer(rest):
        if not _ABBREVIATION.fullmatch(match[0]):
            add(_dots(match[0]), "symbol", match.start())
    rest = _DOTTED.sub(_blank, rest)
    for match in _WORD.finditer(rest):
        if _is_identifier(match[0], rest[match.end() : match.end() + 1]):
            add(match[0], "symbol", match.start())
    return sorted(found, key=lambda named: (found[named], named))[:MOST_NAMES]


def plain_name(question: str) -> Named | None:
    """Return the word that a request like `callers of style` is about: all others say what it asks for."""
    words = [word for word in _WORD.findall(question) if not _ASKS["relation"].fullmatch(word.lower())]
    return Named(words[0], "symbol") if len(words) == 1 else None


def _is_identifier(word: str, following: str) -> bool:
    """Return whether a word of prose is written as names in code are: `snake_case`, `CamelCase`, `called(`."""
    inner = word.strip("_")
    has_hump = any(one.islower() and other.isupper() for one, other in pairwise(inner))
    return "_" in word or has_hump or following == "("


def _dots(name: str) -> str:
    return name.replace("::", ".").replace("#", ".")


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


class Wanted(NamedTuple):
    """The direction and the kind of document that a question asks for; None: the question leaves it open."""

    is_back: bool | None = None
    kind: Kind | None = None
    is_base: bool = False
    """Whether the question asks for classes derived from one another."""
    is_far: bool = False
    """Whether the question goes two steps: to the code called by code that a test exercises."""


_ASKS = PatternFile(Path(__file__).with_name("question.toml"))
_CLAUSES = re.compile(r"[:;]\s|\s[-–—]\s|[?!]\s|\.\s")
_LONGEST_CLAUSE = 300
"""Characters: longer clauses are not searched for a relation, as that takes time by the square of the length."""
_QUOTATION = re.compile(r"[\"“][^\"“”]*[\"”]")


@lru_cache(maxsize=1_000)
def wanted_by(question: str) -> Wanted:
    """Return the direction and kind that a question asks for."""
    clause = asking_clause(question)
    if not clause:
        return Wanted()
    is_back = _is_back(clause)
    is_base = bool(_ASKS["base"].search(clause))
    return Wanted(
        is_back, None if is_base else _kind(clause, is_back=bool(is_back)), is_base, bool(_ASKS["far"].search(clause))
    )


@lru_cache(maxsize=1_000)
def asking_clause(question: str) -> str:
    """Return the shortest clause that has a relation, in lower case; empty where none has."""
    clauses = _CLAUSES.split(_QUOTATION.sub(" it ", question.lower()))
    short = sorted((clause for clause in clauses if len(clause) <= _LONGEST_CLAUSE), key=len)
    return next((clause for clause in short if _is_back(clause) is not None), "")


def _is_back(clause: str) -> bool | None:
    if _ASKS["back_first"].search(clause):
        return True
    if _ASKS["forward"].search(clause):
        return False
    return True if _ASKS["back"].search(clause) else None


def _kind(clause: str, *, is_back: bool) -> Kind | None:
    """Return the kind of the results: back from code, tests or pages if the clause names these; from a test, code."""
    if _ASKS["pages"].search(clause):
        return Kind.PAGE
    if _ASKS["tests"].search(clause):
        return Kind.TEST if is_back else Kind.CODE
    return None
