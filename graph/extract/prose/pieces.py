"""What prose consists of, whatever it is written in."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

MOST_CHARACTERS = 1_000_000
"""Of one text, the first: the longest takes some three seconds. A book has half of that."""

_BARE_URL = re.compile(r"https?://[^\s<>\"'`\[\]{}|\\^]{3,2000}")
_TRAILING = ".,:;!?'\"*_~"


class Kind(Enum):
    """What a piece is."""

    WORDS = auto()
    CODE = auto()
    """Code within a line, without its marks."""
    BLOCK = auto()
    """A block of code; `address` is the language that it declares, or empty."""
    LINK = auto()
    """Words that lead to `address`, as it is written."""
    LABEL = auto()
    """A reference to the label `address`, which some document has."""
    OWN_LABEL = auto()
    """The document has the label `address` here."""
    SYMBOL = auto()
    """The name of a symbol, by a role that says so; `address` is its language."""


class Piece(NamedTuple):
    """`line` is where it begins, from 1."""

    kind: Kind
    text: str
    line: int
    address: str = ""


def bare_urls(words: str) -> list[str]:
    """Addresses that stand in words as they are, without what belongs to the sentence around them."""
    if "://" not in words:
        return []
    return [_without_sentence(found) for found in _BARE_URL.findall(words)]


def _without_sentence(url: str) -> str:
    url = url.rstrip(_TRAILING)
    while url.endswith(")") and url.count("(") < url.count(")"):
        url = url[:-1].rstrip(_TRAILING)
    return url
