"""Bank accounts: IBAN with its country's length and the check digits of ISO 7064 (mod 97), in any case, with spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator

LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
    "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29,
    "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28,
    "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20,
    "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19,
    "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29,
    "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20,
    "YE": 30,
}  # fmt: skip
"""Characters of an IBAN by country, from the SWIFT IBAN registry."""

_HEAD = re.compile(r"(?<![^\W_])[A-Za-z]{2}[0-9]{2}(?=[ \u00a0\u202f.-]?[A-Za-z0-9])")
_GAP = re.compile(r"[ \u00a0\u202f.-]?")


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each account number."""
    behind = 0
    for head in _HEAD.finditer(text):
        length = LENGTHS.get(head[0][:2].upper())
        if length is None or head.start() < behind:
            continue
        end, characters = _take(text, head.start(), length)
        if len(characters) == length and not text[end : end + 1].isalnum() and has_iban_digits(characters):
            yield head.start(), end
            behind = end


def _take(text: str, start: int, length: int) -> tuple[int, str]:
    """Where `length` letters and digits from `start` end, single gaps between them, and they."""
    taken: list[str] = []
    at = start
    while at < len(text) and text[at].isascii() and text[at].isalnum():
        taken.append(text[at])
        at += 1
        if len(taken) == length:
            break
        gap = _GAP.match(text, at)
        at = gap.end() if gap else at
    return at, "".join(taken)


def has_iban_digits(characters: str) -> bool:
    """Whether the third and fourth character check the others: the number that they make is 1 modulo 97."""
    turned = characters[4:] + characters[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1
