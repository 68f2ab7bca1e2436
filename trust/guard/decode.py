"""Texts within a text: letters set apart by spaces or dots, and base64 or hexadecimal of printable text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from sluice.trust.guard.normalise import Disguise, Reading

_SPACED = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/,;:!?'’\"]{1,6}){6,}[^\W_](?!\w)")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/=])")
_HEXADECIMAL = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[ :]?){20,}(?![0-9A-Fa-f])|(?:\\x[0-9A-Fa-f]{2}){20,}")
_PROSE = re.compile(r"[A-Za-z]{2,} [A-Za-z]+")
_LONGEST_DECODED = 20_000


def texts_within(text: str, reading: Reading) -> Iterator[Reading]:
    """The readings of what stands encoded in `text`; spans of theirs are the whole encoded run."""
    for found in _SPACED.finditer(reading.text):
        yield from _letters_together(found, reading)
    for pattern, decode in ((_BASE64, _from_base64), (_HEXADECIMAL, _from_hexadecimal)):
        for found in pattern.finditer(text):
            run = found[0].rstrip(" :")
            plain = decode(run[:_LONGEST_DECODED])
            if plain is not None:
                start, end = found.start(), found.start() + len(run)
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


def _from_base64(run: str) -> str | None:
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _prose(base64.b64decode(run[: len(run) // 4 * 4] + _tail(run)))
    except (binascii.Error, ValueError):
        return None


def _tail(run: str) -> str:
    """The last, incomplete group of four, filled up; nothing where one character is left, which holds no byte."""
    rest = run[len(run) // 4 * 4 :]
    return rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""


def _from_hexadecimal(run: str) -> str | None:
    return _prose(bytes.fromhex(run.replace("\\x", "").replace(":", "")))


def _prose(data: bytes) -> str | None:
    """`data` as text where it is words, and not an image or a key."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    printable = sum(character.isprintable() or character in "\n\t" for character in text)
    return text if printable == len(text) and _PROSE.search(text) else None
