"""Characters that a person does not see and a model reads: the one list of them, by their effect, and their removal.

The names are bodies of character classes for `re`. Code that needs another selection joins the groups it needs.
"""

from __future__ import annotations

import re

CONTROL = "\x00-\x08\x0b\x0e-\x1f\x7f-\x9f"
"""C0 and C1 without tab, line feed, form feed and carriage return, which lay a text out."""
NO_WIDTH = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a"
)
"""Soft hyphens, spaces of no width, fillers, operators and annotations that show nothing."""
EMBEDDINGS = "\u202a-\u202e\u2066-\u2069"
"""Set the direction of the text after them; the overrides U+202D and U+202E reverse letters."""
DIRECTION = "\u061c\u200e\u200f" + EMBEDDINGS
JOINERS = "\u200c\u200d"
"""Part of the spelling between Arabic and Indic letters, and of emoji; of no use in a Latin word."""
SEPARATORS = "\u2028\u2029"
TAGS = "\U000e0000-\U000e007f"
"""Invisible twins of ASCII. They are legitimate only in the flags of regions, after a black flag (`BLACK_FLAG`)."""
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Variation selectors. A character takes one; several in a row can hold bytes (`SELECTORS_IN_A_ROW`)."""
SURROGATES = "\ud800-\udfff"

BLACK_FLAG = "\U0001f3f4"
FLAG_TAGS = "[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
SELECTORS_IN_A_ROW = re.compile(f"[{SELECTORS}]{{2,}}")
LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")

_JOINED_SCRIPTS = "\u0600-\u08ff\u0900-\u0dff"
_ALWAYS = f"{CONTROL}{NO_WIDTH}{DIRECTION}{SEPARATORS}{SURROGATES}\ufe00-\ufe0f\U000e0000-\U000e0fff"
_SUSPECT = re.compile(f"[{_ALWAYS}\r{JOINERS}]")
"""One class, whose search costs a tenth of the alternatives below."""
_INVISIBLE = re.compile(f"[{_ALWAYS}]|(?<![{_JOINED_SCRIPTS}])[{JOINERS}]|[{JOINERS}](?![{_JOINED_SCRIPTS}])")
_SMUGGLED = re.compile(f"[{EMBEDDINGS}\U000e0000-\U000e0fff]")
_WITHIN_A_LINE = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


def characters_of(ranges: str) -> frozenset[str]:
    """Return the characters of the body of a class, such as `NO_WIDTH`."""
    found = re.findall("(.)(?:-(.))?", ranges, re.DOTALL)
    return frozenset(chr(code) for first, last in found for code in range(ord(first), ord(last or first) + 1))


def visible(text: str) -> str:
    """Return `text` without invisible characters, its line ends `\\n`. Joiners stay in Arabic and Indic words."""
    if not _SUSPECT.search(text):
        return text
    return _INVISIBLE.sub("", LINE_ENDS.sub("\n", text))


def visible_in_its_lines(text: str) -> str:
    """Return the visible text of a text whose lines end with line feeds: other line breaks become spaces.

    So its lines have the numbers that editors and version control give them.
    """
    return visible(_WITHIN_A_LINE.sub(" ", text) if "\n" in text and _SUSPECT.search(text) else text)


def without_smuggled(code: str) -> str:
    """Return source code without tag characters and bidirectional controls, which show another program than runs.

    Drops only U+E0000-E0FFF and `EMBEDDINGS`; lines stay those of the file (Boucher, Anderson: "Trojan Source", 2021).
    """
    return code if code.isascii() else _SMUGGLED.sub("", code)
