"""Telephone numbers: in international form (ITU-T E.123), in a national form that little else has, or beside a word
that says so. Numbers of other forms are passed over: too many figures look like them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.trust.private.labels import REACH, names_other_number

_GAP = "[ \u00a0\u202f./\u2010\u2011\u2012\u2013-]"
_MORE = rf"(?:(?:{_GAP}{{1,2}}|(?=\()|(?<=\)))\(?\d{{1,12}}\)?)"
"""A further group of digits: behind a gap, or where a bracket opens or has closed."""
_EXTENSION = r"(?:[ ,]{0,2}(?:x|ext\.?|extension|#)[ .:]{0,2}\d{1,6})?"
_INTERNATIONAL = re.compile(
    rf"(?:\+(?<![\w+.-]\+)(?= ?[1-9])|00(?<![\w+./-]00)(?=[1-9])) ?\d{{1,15}}\)?{_MORE}{{0,7}}{_EXTENSION}(?![\w+])"
)
_NATIONAL = re.compile(
    r"(?<![\w+./(-])(?<!\d )(?:"
    r"(?:1[-. ])?(?:\([2-9]\d\d\)[ -]?|[2-9]\d\d(?P<gap>[-.]))[2-9]\d\d(?(gap)(?P=gap)|-)\d{4}"  # North America
    r"|(?<!\b[0-9a-f]{2} )0[1-9](?P<pair>[. ])\d\d(?:(?P=pair)\d\d){3}(?! \d\d\b)"  # France
    r"|07\d{3}[ ]\d{3}[ ]?\d{3}"  # United Kingdom, mobile
    rf"){_EXTENSION}(?![\w+]|[-.]\d)"
)
_ANY = re.compile(rf"(?<![\w+.$€£-])(?:\(\d{{1,5}}\)|\d{{2,11}}){_MORE}{{0,5}}{_EXTENSION}(?![\w+%])(?!{_GAP}?\d)")
_NAMED_BEFORE = re.compile(
    r"\b(?:(?:tele)?phones?|phoned|phoning|tel|tél|cell(?:ular)?|mobile|mob|fax|whatsapp|sms|hotline|helpline|voicemail|"
    r"landline|pager|handy|telefon(?:nummer|o|e)?|téléphone|teléfono|móvil|celular|cellulare|portable|rufnummer|puhelin|"
    r"telefoonnummer|dial(?:ed|ing)?|call(?:ed|ing)?(?: (?:me|us|him|her|them|back|at|on)|(?= [\d(+]))|"
    r"(?:text|ring|reach) (?:me|us|him|her|them)|answering at|(?:texts|messages) (?:to|from)|contact number|"
    r"(?:my|his|her|our|their|your) number)\b",
    re.IGNORECASE,
)
_NAMED_BEHIND = re.compile(r"[ -]\(?(?:office|fax|mobile|cell|home|work|desk|direct|tel|phone)\b", re.IGNORECASE)
"""As signatures have it: `21 253 109 8211-Office`."""
_DATE = re.compile(
    r"(?:1[89]|20)\d\d(?P<gap>[-./])(?:0?[1-9]|1[0-2])(?P=gap)(?:0?[1-9]|[12]\d|3[01])(?!\d)"
    r"|\d{1,2}(?P<sign>[-./])\d{1,2}(?P=sign)(?:1[89]|20)\d\d(?!\d)"
)
_OTHER_FIGURES = re.compile(
    r"\d{1,2}[-./]\d{1,2}[-./]\d\d|(?:1[89]|20)\d\d ?[-–] ?(?:1[89]|20)\d\d"
    r"|\+?\d+\.\d+|(?:\d{1,3}\.){3}\d{1,3}|\d{1,3}(?:[ .]000)+"
)
"""Short dates, spans of years, decimals, addresses of machines and thousands."""
_MAY_BE_NATIONAL = re.compile(r"[2-9]\d\d[-.) ]{1,2}[2-9]\d\d[-.]\d{4}|0[1-9][. ]\d\d[. ]\d\d|07\d{3} \d{3}")
_MAY_BE_ANY = re.compile(rf"[0-9](?:{_GAP}|[()0-9]){{5,}}")
"""Searched for first: texts without these forms, which are most, cost little."""


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each telephone number."""
    for match in _INTERNATIONAL.finditer(text):
        if 8 <= _digits(match[0]) <= 18 and not _is_other(text, match):
            yield match.span()
    if _MAY_BE_NATIONAL.search(text):
        for match in _NATIONAL.finditer(text):
            if not _is_other(text, match):
                yield match.span()
    if _MAY_BE_ANY.search(text):
        yield from _find_named(text)


def _find_named(text: str) -> Iterator[tuple[int, int]]:
    """Numbers of any form beside a word that says what they are."""
    for named in _NAMED_BEFORE.finditer(text):
        for match in _ANY.finditer(text, named.end(), named.end() + 2 * REACH):
            if match.start() - named.end() > REACH or "\n\n" in text[named.end() : match.start()]:
                break
            if 7 <= _digits(match[0]) <= 15 and not _is_other(text, match):
                yield match.span()
                break
    for named in _NAMED_BEHIND.finditer(text):
        line = max(text.rfind("\n", 0, named.start()) + 1, named.start() - REACH // 2)
        for match in _ANY.finditer(text, line, named.start()):
            if match.end() == named.start() and 7 <= _digits(match[0]) <= 15 and not _is_other(text, match):
                yield match.span()


def _is_other(text: str, match: re.Match[str]) -> bool:
    """Whether it begins with a date, or is a coordinate or a number of another thing."""
    if _DATE.match(match[0]):
        return True
    return _OTHER_FIGURES.fullmatch(match[0]) is not None or names_other_number(text, match.start())


def _digits(written: str) -> int:
    return sum(character.isdigit() for character in written)
