"""Payment cards: 12 to 19 digits with an issuer's prefix and length, and the check digit of Luhn (ISO/IEC 7812-1)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.trust.private.labels import names_card, names_other_number

_GAP = "[ \u00a0\u202f._\u2010\u2011\u2012\u2013-]"
_CANDIDATE = re.compile(
    rf"(?<![\w.])(?<!\d{_GAP})(?:\d{{12,19}}"
    rf"|\d{{4}}(?P<gap>{_GAP})\d{{3,6}}(?P=gap)\d{{3,6}}(?:(?P=gap)\d{{1,5}}){{0,2}}"
    rf"|\d{{6}}{_GAP}\d{{13}})(?![\w])(?!\.\d)"
)
"""Digits in one run, or in the groups that are printed on cards, parted by the same sign throughout."""

_ISSUERS = re.compile(
    r"(?:4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-59]\d|[689]\d\d)\d{10,15}"  # Diners Club
    r"|(?:6011|64[4-9]\d|65\d\d|622[1-9])\d{12,15}"  # Discover
    r"|35\d{14}|35(?:2[89]|[3-8]\d)\d{13,15}|(?:1800|2131)\d{11}"  # JCB (3528 to 3589; test numbers take all of 35)
    r"|(?:50[1-9]\d|5[6-8]\d\d|6304|6390|67\d\d|0604)\d{8,15}"  # Maestro, Dankort, Verve
    r"|(?:62\d\d|81\d\d)\d{12,15}"  # UnionPay
    r"|(?:60\d\d|82\d\d|508\d)\d{12}"  # RuPay
    r"|220[0-4]\d{12,15}"  # Mir
    r"|9792\d{12}"  # Troy
    r"|63[7-9]\d{13})"  # InstaPayment
)


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each card number."""
    for match in _CANDIDATE.finditer(text):
        digits = "".join(character for character in match[0] if character.isdigit())
        if not _ISSUERS.fullmatch(digits) or not has_luhn_digit(digits):
            continue
        if names_card(text, match.start()) or not names_other_number(text, match.start()):
            yield match.span()


def has_luhn_digit(digits: str) -> bool:
    """Whether the last digit is Luhn's check digit of those before it."""
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(int(digit) for digit in digits[-1::-2])) % 10 == 0
