"""Cuts a text into sentences: up to a stop before a blank, or a line."""

from __future__ import annotations

import re

_END = re.compile(r"(?<=[.!?])[\"')\]»”]*\s+(?=[^a-z])|(?<=[。！？])|\n+")


def cut_sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without the blanks around them; a stop before a lower-case letter ends none."""
    return [sentence for piece in _END.split(text) if (sentence := piece.strip())]
