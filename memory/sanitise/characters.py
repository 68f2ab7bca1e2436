"""Invisible characters: they hide a text from a person, or turn it around, while a model reads them."""

from __future__ import annotations

import re
from collections import Counter

from sluice.text.hidden import (
    BLACK_FLAG,
    CONTROL,
    DIRECTION,
    FLAG_TAGS,
    JOINERS,
    LINE_ENDS,
    NO_WIDTH,
    SELECTORS_IN_A_ROW,
    SURROGATES,
    TAGS,
)

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Colours and other commands to a terminal (ECMA-48)."""
_CONTROLS = re.compile(f"[{CONTROL}\x0c\r]")
_TAGS = re.compile(f"[{TAGS}]+")
_FLAG = re.compile(BLACK_FLAG + FLAG_TAGS)
_BIDI = re.compile(f"[{DIRECTION}]")
_OVERRIDES = re.compile("[\u202d\u202e]")
_INVISIBLE = re.compile(f"[{NO_WIDTH}]")
_JOINERS = re.compile(f"[{JOINERS}]+")
_SURROGATES = re.compile(f"[{SURROGATES}]")


def make_visible(text: str, cut: Counter[str]) -> str:
    """Return `text` with line feeds alone as line ends, without control, direction and invisible characters.

    `cut` counts removals: `mark.control`, `mark.invisible`, `mark.direction`; and `hidden.characters`, for those that
    have no use but to hide a text or to turn it around.
    """
    if text.isascii() and not _CONTROLS.search(text):
        return text
    text = _count(_ESCAPES, text, cut, "mark.control")
    text = LINE_ENDS.sub("\n", text)
    text = _count(_CONTROLS, text, cut, "mark.control")
    if text.isascii():
        return text
    flags = {found.start() + 1 for found in _FLAG.finditer(text)}
    text = _TAGS.sub(lambda found: found[0] if found.start() in flags else _counted(cut, "hidden.characters"), text)
    text = _count(SELECTORS_IN_A_ROW, text, cut, "hidden.characters")
    if _OVERRIDES.search(text):
        cut["hidden.characters"] += 1
    text = _count(_BIDI, text, cut, "mark.direction")
    text = _count(_INVISIBLE, text, cut, "mark.invisible")
    text = _JOINERS.sub(lambda found: _joiner(text, found, cut), text)
    return _SURROGATES.sub("\ufffd", text)


def _joiner(text: str, found: re.Match[str], cut: Counter[str]) -> str:
    """Keep a joiner in Persian, Indic scripts and emoji, which need it; remove it from a Latin word."""
    around = text[max(found.start() - 1, 0) : found.start()] + text[found.end() : found.end() + 1]
    return found[0] if len(found[0]) == 1 and around and not around.isascii() else _counted(cut, "mark.invisible")


def _count(pattern: re.Pattern[str], text: str, cut: Counter[str], rule: str) -> str:
    text, found = pattern.subn("", text)
    if found:
        cut[rule] += found
    return text


def _counted(cut: Counter[str], rule: str) -> str:
    cut[rule] += 1
    return ""
