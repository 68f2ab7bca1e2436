"""Reads a text as a language model would, and records the original offset of each character.

Compatibility forms, look-alike letters, accents, invisible and tag characters are resolved before rules and vectors see
the text; letters separated by spaces and base64 are read as texts of their own. Spans always name the original text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sluice.text.disguises import LATIN_OF, decoded_runs
from sluice.text.hidden import (
    BLACK_FLAG,
    DIRECTION,
    EMBEDDINGS,
    FLAG_TAGS,
    JOINERS,
    NO_WIDTH,
    SELECTORS_IN_A_ROW,
    characters_of,
)

BIDI = characters_of(EMBEDDINGS)
ZERO_WIDTH = characters_of(NO_WIDTH + JOINERS + DIRECTION) - BIDI
_TAGS_OF_FLAG = re.compile(FLAG_TAGS)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Reading:
    """A text in its normalised form: lower case, Latin without accents.

    `origins[i]` is the offset in the original text of the character that `text[i]` came from; None where both texts
    have the same offsets. `disguises` are the disguised spans of the original text, with their kind.
    """

    text: str
    origins: Sequence[int] | None
    disguises: tuple[Disguise, ...] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the original text that `text[start:end]` was read from."""
        if self.origins is None or start >= end:
            return start, end
        return self.origins[start], self.origins[end - 1] + 1

    def disguise_within(self, start: int, end: int) -> str | None:
        """Return the kind of disguise in a span of the original text; None where there is none."""
        return next((one.kind for one in self.disguises if one.start < end and start < one.end), None)


@dataclass(frozen=True, slots=True)
class Disguise:
    """Characters of the original text (`text[start:end]`) that people see differently from how a model reads them."""

    kind: str
    start: int
    end: int


def normalise(text: str) -> Reading:
    """Return `text` in lower case, disguises removed. An ASCII text costs one call of `str.lower`."""
    if text.isascii():
        return Reading(text.lower(), None)
    read: list[str] = []
    origins: list[int] = []
    disguises: list[Disguise] = []
    at = 0
    after_ascii = False
    for offset, character in enumerate(text):
        if offset < at:
            continue
        if character.isascii():
            read.append(character)
            origins.append(offset)
            after_ascii = True
            continue
        if hidden := _hidden_run(text, offset):
            letters, end, kind = hidden
            read.extend(letters)
            origins.extend([offset] * len(letters))
            if kind:
                disguises.append(Disguise(kind, offset, end))
            at = end
            continue
        plain, is_mark = _plain(character)
        if is_mark and (after_ascii or _is_vowel_sign(character)):
            continue
        read.extend(plain)
        origins.extend([offset] * len(plain))
        after_ascii = plain.isascii()
    _unmask_look_alikes(read, origins, disguises)
    lowered = [character.lower() if len(character.lower()) == 1 else character for character in read]
    return Reading("".join(lowered), origins, tuple(disguises))


def _hidden_run(text: str, offset: int) -> tuple[str, int, str | None] | None:
    """Return the letters that invisible characters from `offset` on encode, their end, and the kind of disguise."""
    character = text[offset]
    if character in ZERO_WIDTH:
        end = _end_of(text, offset, ZERO_WIDTH)
        inside = offset > 0 and end < len(text) and text[offset - 1].isalpha() and text[end].isalpha()
        is_latin = inside and text[offset - 1] < "\u0250" and text[end] < "\u0250" and text[offset] != "\u00ad"
        return "", end, "zero-width" if is_latin or end - offset >= _ENCODED_RUN else None
    if character in BIDI:
        end = _end_of(text, offset, BIDI)
        return "", end, "bidi" if character in "\u202d\u202e" else None
    if "\U000e0000" <= character <= "\U000e007f":
        end = offset
        while end < len(text) and "\U000e0000" <= text[end] <= "\U000e007f":
            end += 1
        is_flag = offset > 0 and text[offset - 1] == BLACK_FLAG and _TAGS_OF_FLAG.fullmatch(text, offset, end)
        letters = "".join(chr(ord(one) - 0xE0000) for one in text[offset:end])
        return ("", end, None) if is_flag else ("".join(filter(str.isprintable, letters)), end, "tag-characters")
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        if (found := SELECTORS_IN_A_ROW.match(text, offset)) is None:
            return "", offset + 1, None
        values = bytes(_selector_value(one) for one in found[0])
        letters = "".join(filter(str.isprintable, values.decode("utf-8", "ignore")))
        return letters, found.end(), "variation-selectors" if len(values) >= _ENCODED_SELECTORS else None
    return None


_ENCODED_RUN = 16
"""Zero-width characters in a row that can hold two letters as bits: more than any script needs."""
_ENCODED_SELECTORS = 4
"""Variation selectors in a row that encode text; a character takes only one."""


def _end_of(text: str, offset: int, of: frozenset[str]) -> int:
    while offset < len(text) and text[offset] in of:
        offset += 1
    return offset


def _selector_value(character: str) -> int:
    point = ord(character)
    return point - 0xFE00 if point < 0xE0000 else point - 0xE0100 + 16


def _is_vowel_sign(character: str) -> bool:
    """Return whether it is an Arabic short vowel sign, which most texts leave out."""
    return "\u064b" <= character <= "\u0652"


@lru_cache(maxsize=4096)
def _plain(character: str) -> tuple[str, bool]:
    """Return a character's compatibility form, without Latin accents; and whether it is a combining mark."""
    apart = unicodedata.normalize("NFKD", character)
    if apart[0].isascii():
        return "".join(one for one in apart if not unicodedata.combining(one)), False
    return unicodedata.normalize("NFKC", character), bool(unicodedata.combining(character))


def _unmask_look_alikes(read: list[str], origins: list[int], disguises: list[Disguise]) -> None:
    """Replace look-alikes by Latin letters in words that mix both. Russian words stay Russian."""
    text = "".join(read)
    if not any(character in LATIN_OF for character in text):
        return
    for word in _WORD.finditer(text):
        letters = word[0]
        foreign = [place for place, letter in enumerate(letters) if letter in LATIN_OF]
        if not foreign:
            continue
        is_mixed = any(letter.isascii() and letter.isalpha() for letter in letters)
        if is_mixed and all(letter.isascii() or letter in LATIN_OF for letter in letters):
            for place in foreign:
                read[word.start() + place] = LATIN_OF[letters[place]]
            start, end = origins[word.start()], origins[word.end() - 1] + 1
            disguises.append(Disguise("look-alike-letters", start, end))


_SPACED = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/,;:!?'’\"]{1,6}){6,}[^\W_](?!\w)")


def texts_within(text: str, reading: Reading) -> Iterator[Reading]:
    """Yield the readings of encoded texts within `text`; their spans cover the whole encoded run."""
    for found in _SPACED.finditer(reading.text):
        yield _letters_together(found, reading)
    for start, end, plain in decoded_runs(text):
        origins = [start] * (len(plain) - 1) + [end - 1]
        yield Reading(plain.lower(), origins, (Disguise("encoded", start, end),))


def _letters_together(found: re.Match[str], reading: Reading) -> Reading:
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
    spaced = Disguise("spaced-letters", *reading.span(found.start(), found.end()))
    return Reading("".join(letters), origins, (spaced,))
