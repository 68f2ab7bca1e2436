"""Characters that a reader cannot see but a model reads: they are taken out of prose.

Tag characters, zero-width characters, bidirectional controls, variation selectors, soft hyphens,
C0 and C1 controls and lone surrogates. The joiners U+200C and U+200D stay between letters of the
Arabic and Indic scripts, where they are part of the spelling.
"""

from __future__ import annotations

import re

_JOINED_SCRIPTS = "\u0600-\u08ff\u0900-\u0dff"
_ALWAYS = (
    "\x00-\x08\x0b\x0e-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SUSPECT = re.compile(f"[{_ALWAYS}\r\u200c\u200d]")
"""One class, which is searched for a tenth of what the alternatives below cost."""
_INVISIBLE = re.compile(f"[{_ALWAYS}]|(?<![{_JOINED_SCRIPTS}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED_SCRIPTS}])")
_SMUGGLED = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e0fff]")
_LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")
_WITHIN_A_LINE = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


def visible(text: str) -> str:
    """`text` without invisible characters, its line ends all `\\n`."""
    if not _SUSPECT.search(text):
        return text
    return _INVISIBLE.sub("", _LINE_ENDS.sub("\n", text))


def visible_in_its_lines(text: str) -> str:
    """As `visible`, of a text whose lines end with line feeds: what else parts lines is a space within one.

    So its lines have the numbers that editors and version control give them.
    """
    return visible(_WITHIN_A_LINE.sub(" ", text) if "\n" in text and _SUSPECT.search(text) else text)


def without_smuggled(code: str) -> str:
    """Source code without tag characters and bidirectional controls, which show one program and give another to read.

    Nothing else is touched, so that every line is that of the file (Boucher and Anderson, "Trojan Source", 2021).
    """
    return code if code.isascii() else _SMUGGLED.sub("", code)
