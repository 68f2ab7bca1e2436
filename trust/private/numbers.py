"""Numbers that are private: payment cards, bank accounts, US social security numbers and telephones.

Each is found by its form and its check digit, and by the words before it, which say what it is: an order, a version.
Cards have 12 to 19 digits with an issuer's prefix and length, and the check digit of Luhn (ISO/IEC 7812-1). An IBAN has
its country's length and the check digits of ISO 7064 (mod 97), in any case, with spaces. Social security numbers are as
issued: the area is not 000, 666 or above 899, and no group is all zeros. Telephone numbers are in international form
(ITU-T E.123), in a national form that little else has, or beside a word that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

REACH = 48
"""Characters before a number in which a word says what it is; beyond them it speaks of something else."""

_OTHER_NUMBER = re.compile(
    r"\b(?:order|invoice|tracking|shipment|parcel|waybill|consignment|imei|imsi|iccid|serial|isbn|issn|ean|gtin|upc|sku|"
    r"asin|part|model|item|product|article|transaction|timestamp|epoch|build|commit|revision|rev|ticket|case|docket|"
    r"reference|ref|patent|grant|version|ver|release|doi|pmid|oid|checksum|hash|seed|coordinates?|latitude|longitude|"
    r"lat|lon|lng|barcode|batch|lot|job|session|request|message|tweet|status|track|catalog(?:ue)?|registration|vat)"
    r"(?![a-z])[^\d\n]{0,20}$",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"\b(?:cards?|credit|debit|visa|mastercard|amex|american express|discover|maestro|diners|jcb|pan|cc|payment|"
    r"pay(?:ing)?|charged?|kreditkarte|karte|carte|tarjeta|cart[aã]o|carta)\b",
    re.IGNORECASE,
)


def names_other_number(text: str, start: int) -> bool:
    """Whether the words right before `start` say that the number there is of an order, a part, a version and so on."""
    return _OTHER_NUMBER.search(text, max(0, start - REACH), start) is not None


def names_card(text: str, start: int) -> bool:
    """Whether the words before `start` speak of a payment card."""
    return _CARD.search(text, max(0, start - REACH), start) is not None


_CARD_GAP = "[ \u00a0\u202f._\u2010\u2011\u2012\u2013-]"
_CANDIDATE = re.compile(
    rf"(?<![\w.])(?<!\d{_CARD_GAP})(?:\d{{12,19}}"
    rf"|\d{{4}}(?P<gap>{_CARD_GAP})\d{{3,6}}(?P=gap)\d{{3,6}}(?:(?P=gap)\d{{1,5}}){{0,2}}"
    rf"|\d{{6}}{_CARD_GAP}\d{{13}})(?![\w])(?!\.\d)"
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
_IBAN_GAP = re.compile(r"[ \u00a0\u202f.-]?")


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
        gap = _IBAN_GAP.match(text, at)
        at = gap.end() if gap else at
    return at, "".join(taken)


def has_iban_digits(characters: str) -> bool:
    """Whether the third and fourth character check the others: the number that they make is 1 modulo 97."""
    turned = characters[4:] + characters[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


_FORM = re.compile(
    r"[0-9](?<![\w.+/-][0-9])(?<!\d [0-9])[0-9]{2}(?P<gap>[-\u2010\u2011\u2012\u2013 .\u00a0]?)[0-9]{2}(?P=gap)[0-9]{4}"
    r"(?![\w/-])(?!\.\d)"
)
_NEVER_ISSUED = re.compile(r"(?:000|666|9\d\d)|\d{3}\D?00|\d{3}\D?\d\d\D?0000")
_DASHES = "-\u2010\u2011\u2012\u2013"
_NAMED = re.compile(r"\bssn\b|social[ _-]{0,2}security|\bssid\b|\bss ?#|\bss\b[^\n]{0,4}number", re.IGNORECASE)


def find_ssns(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each number: with dashes anywhere, otherwise after words that say what it is."""
    forms = [match for match in _FORM.finditer(text) if not _NEVER_ISSUED.match(match[0])]
    named = [match.end() for match in _NAMED.finditer(text)] if forms else []
    for match in forms:
        is_dashed = match["gap"] != "" and match["gap"] in _DASHES
        is_other = not is_dashed or names_other_number(text, match.start())
        if not is_other or _is_named(named, match.start()):
            yield match.span()


def _is_named(named: list[int], start: int) -> bool:
    return any(0 <= start - end <= REACH for end in named)


_PHONE_GAP = "[ \u00a0\u202f./\u2010\u2011\u2012\u2013-]"
_MORE = rf"(?:(?:{_PHONE_GAP}{{1,2}}|(?=\()|(?<=\)))\(?\d{{1,12}}\)?)"
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
_ANY = re.compile(
    rf"(?<![\w+.$€£-])(?:\(\d{{1,5}}\)|\d{{2,11}}){_MORE}{{0,5}}{_EXTENSION}(?![\w+%])(?!{_PHONE_GAP}?\d)"
)
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
_MAY_BE_ANY = re.compile(rf"[0-9](?:{_PHONE_GAP}|[()0-9]){{5,}}")
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
