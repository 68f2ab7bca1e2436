"""Pieces of prose: words, code, links. Reads plain lines, and the lines of comments and docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from sluice.text.restructured import read_role

MOST_CHARACTERS = 1_000_000
"""Characters of one text that are read: the longest takes some three seconds. A book has half of that."""

_BARE_URL = re.compile(r"https?://[^\s<>\"'`\[\]{}|\\^]{3,2000}")
_TRAILING = ".,:;!?'\"*_~"


class Kind(Enum):
    """Kinds of pieces."""

    WORDS = auto()
    CODE = auto()
    """Code within a line, without its marks."""
    BLOCK = auto()
    """A block of code; `address` is the language that it declares, or empty."""
    LINK = auto()
    """Words that link to `address`, as it is written."""
    LABEL = auto()
    """A reference to the label `address`, which some document has."""
    OWN_LABEL = auto()
    """A label of the document itself, `address`."""
    SYMBOL = auto()
    """The name of a symbol, marked by a role; `address` is its language."""


class Piece(NamedTuple):
    """A piece of prose. `line` is its first line, from 1."""

    kind: Kind
    text: str
    line: int
    address: str = ""


def bare_urls(words: str) -> list[str]:
    """Return the bare addresses in words, without the punctuation of the sentence around them."""
    if "://" not in words:
        return []
    return [_without_sentence(found) for found in _BARE_URL.findall(words)]


def _without_sentence(url: str) -> str:
    url = url.rstrip(_TRAILING)
    while url.endswith(")") and url.count("(") < url.count(")"):
        url = url[:-1].rstrip(_TRAILING)
    return url


def read_lines(text: str) -> Iterator[Piece]:
    """Yield a piece for each line that is not blank."""
    for number, line in enumerate(text[:MOST_CHARACTERS].split("\n"), 1):
        if line.strip():
            yield Piece(Kind.WORDS, line, number)


_ROLE = re.compile(r":(?:(?P<domain>[a-z]+):)?(?P<role>[a-z]+):`(?P<text>[^`]{1,500})`")
_LITERAL = re.compile(r"``(?P<code>.{1,300}?)``(?!`)")
_EMBEDDED = re.compile(r"`(?P<words>[^`<>]{0,200})<(?P<address>[^`<>]{1,2000})>`__?")
_REFERENCE = re.compile(r"`[^`<>]{1,200}`__?(?!\w)")
_PLAIN_CODE = re.compile(r"(?<![`:\w])`(?P<code>[^`\s][^`]{0,200})`(?![`_])")
_CODE_ROLES = frozenset({"file", "code", "literal", "samp"})


def read_inline(line: str, number: int) -> Iterator[Piece]:
    """Yield the pieces of one line. References to labels are left out, as no label is known."""
    for found in _LITERAL.finditer(line):
        yield Piece(Kind.CODE, found["code"], number)
    line = _LITERAL.sub(" ", line)
    for found in _ROLE.finditer(line):
        words, address = read_role(found["domain"] or "", found["role"], found["text"])
        if address:
            yield from read_links([(number, address, words)])
        elif found["role"] in _CODE_ROLES:
            yield Piece(Kind.CODE, found["text"], number)
    line = _ROLE.sub(" ", line)
    for found in _EMBEDDED.finditer(line):
        yield Piece(Kind.LINK, found["words"].strip(), number, found["address"].strip())
    line = _REFERENCE.sub(" ", _EMBEDDED.sub(" ", line))
    for found in _PLAIN_CODE.finditer(line):
        yield Piece(Kind.CODE, found["code"], number)
    line = _PLAIN_CODE.sub(" ", line)
    if line.strip():
        yield Piece(Kind.WORDS, line, number)


def read_links(links: Iterable[tuple[int, str, str]]) -> Iterator[Piece]:
    """Yield the piece of each link: its line, its address as text/restructured.py writes it, and its words."""
    for line, address, words in links:
        scheme, _, name = address.partition(":")
        if scheme == "label":
            yield Piece(Kind.LABEL, words, line, name)
        elif scheme == "target":
            yield Piece(Kind.OWN_LABEL, "", line, name)
        elif scheme == "symbol":
            yield Piece(Kind.SYMBOL, name.partition(":")[2], line, name.partition(":")[0])
        else:
            yield Piece(Kind.LINK, words, line, address)
