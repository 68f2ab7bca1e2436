"""Texts within a text: letters set apart by spaces or dots, and base64 or hexadecimal of printable text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.text.disguises import decoded_runs
from sluice.trust.guard.normalise import Disguise, Reading

_SPACED = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/,;:!?'’\"]{1,6}){6,}[^\W_](?!\w)")


def texts_within(text: str, reading: Reading) -> Iterator[Reading]:
    """The readings of what stands encoded in `text`; spans of theirs are the whole encoded run."""
    for found in _SPACED.finditer(reading.text):
        yield from _letters_together(found, reading)
    for start, end, plain in decoded_runs(text):
        origins = [start] * (len(plain) - 1) + [end - 1]
        yield Reading(plain.lower(), origins, (Disguise("encoded", start, end),))


def _letters_together(found: re.Match[str], reading: Reading) -> Iterator[Reading]:
    letters: list[str] = []
    origins: list[int] = []
    for place in range(found.start(), found.end()):
        character = reading.text[place]
        is_gap = not character.isalnum()
        if character in ",;:.!?" and len(ahead := reading.text[place + 1 : place + 3]) == 2 and ahead.isspace():
            letters.append(character)
            origins.append(reading.span(place, place + 1)[0])
            continue
        if is_gap and not (letters and letters[-1] != " " and reading.text[place : place + 2].isspace()):
            continue
        if is_gap and place + 1 >= found.end():
            continue
        letters.append(" " if is_gap else character)
        origins.append(reading.span(place, place + 1)[0])
    start, end = reading.span(found.start(), found.end())
    spaced = Reading("".join(letters), origins, (Disguise("spaced-letters", start, end),))
    yield spaced
