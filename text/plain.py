"""Reads a text as a person or a program reads it: without invisible characters, wide forms, entities and percent signs.

Each function returns a `Reading`, which says where in the original its characters stand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from html import unescape
from urllib.parse import unquote

from sluice.text.hidden import DIRECTION, JOINERS, NO_WIDTH, SELECTORS, TAGS
from sluice.text.readings import Piece, Reading, replaced

_UNSEEN = re.compile(f"[{NO_WIDTH}{JOINERS}{DIRECTION}{SELECTORS}{TAGS}]+")
_WRITTEN_OTHERWISE = re.compile(
    _UNSEEN.pattern + r"|&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31});|(?:%[2-7][0-9a-fA-F])+"
    "|[\u00a0\u2000-\u200a\u202f\u3000\u2010-\u2015\u2024\u2070-\u208e\u2460-\u24ff\ufe30-\ufe6f\uff01-\uff5e"
    "\U0001d400-\U0001d7ff]"
)
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-"))
_WRAPPED = re.compile(r"(?<=[A-Za-z0-9+/_=-]{6})\\?\r?\n[ \t>|#*]{0,20}(?=[A-Za-z0-9+/_=-]{4})")


def plain(text: str) -> Reading | None:
    """Return `text` in plain characters; None where it has no others."""
    if text.isascii() and "&" not in text and "%" not in text:
        return None
    return _replaced(text, _WRITTEN_OTHERWISE, _plain_of)


def unwrapped(text: str) -> Reading | None:
    """Return `text` with its lines joined where a break may part a token; None where there is no such break."""
    return _replaced(text, _WRAPPED, lambda _: "")


def _replaced(text: str, pattern: re.Pattern[str], instead_of: Callable[[str], str]) -> Reading | None:
    pieces = [Piece(*found.span(), instead_of(found[0]), "plain") for found in pattern.finditer(text)]
    return replaced(Reading(text), pieces) if pieces else None


def _plain_of(written: str) -> str:
    if written[0] == "%":
        return unquote(written)
    seen = _UNSEEN.sub("", unescape(written))
    read = unicodedata.normalize("NFKC", seen).translate(_DASHES)
    return read if read.isascii() else seen
