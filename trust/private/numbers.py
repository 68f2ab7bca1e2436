"""Numbers that are private: payment cards, bank accounts, US social security numbers and telephones.

Each is found by its form and its check digit, and by the words before it, which name its kind: an order, a version.
Cards have 12 to 19 digits with an issuer's prefix and length, and the check digit of Luhn (ISO/IEC 7812-1). An IBAN has
its country's length and the check digits of ISO 7064 (mod 97), in any case, with spaces. Social security numbers have a
form that is issued: the area is not 000, 666 or above 899, and no group is all zeros. Telephone numbers are in
international form (ITU-T E.123), in a distinctive national form, or beside a word for telephones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from re import Match

from sluice.text.pattern_file import PatternFile

REACH = 48
"""Characters before a number within which a word names its kind; words farther away refer to something else."""
_FILE = PatternFile(Path(__file__).with_name("numbers.toml"))
_PATTERNS = _FILE.table("patterns")
LENGTHS = {country: int(length) for length, countries in _FILE.tables["iban"].items() for country in countries.split()}
"""Length of an IBAN in characters, by country."""
_DASHES = "-\u2010\u2011\u2012\u2013"


def names_other_number(text: str, start: int) -> bool:
    """Return whether the words before `start` name the number as that of an order, a part, a version and so on."""
    return _PATTERNS["other_number"].search(text, max(0, start - REACH), start) is not None


def names_card(text: str, start: int) -> bool:
    """Return whether the words before `start` mention a payment card."""
    return _PATTERNS["names_card"].search(text, max(0, start - REACH), start) is not None


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each card number."""
    for match in _PATTERNS["card"].finditer(text):
        digits = "".join(character for character in match[0] if character.isdigit())
        if not _PATTERNS["issuer"].fullmatch(digits) or not has_luhn_digit(digits):
            continue
        if names_card(text, match.start()) or not names_other_number(text, match.start()):
            yield match.span()


def has_luhn_digit(digits: str) -> bool:
    """Return whether the last digit is Luhn's check digit of those before it."""
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(int(digit) for digit in digits[-1::-2])) % 10 == 0


def find_ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each account number."""
    behind = 0
    for head in _PATTERNS["iban_head"].finditer(text):
        length = LENGTHS.get(head[0][:2].upper())
        if length is None or head.start() < behind:
            continue
        end, characters = _take(text, head.start(), length)
        if len(characters) == length and not text[end : end + 1].isalnum() and has_iban_digits(characters):
            yield head.start(), end
            behind = end


def _take(text: str, start: int, length: int) -> tuple[int, str]:
    """Return the end of `length` letters and digits from `start`, single gaps allowed, and the characters."""
    taken: list[str] = []
    at = start
    while at < len(text) and text[at].isascii() and text[at].isalnum():
        taken.append(text[at])
        at += 1
        if len(taken) == length:
            break
        gap = _PATTERNS["iban_gap"].match(text, at)
        at = gap.end() if gap else at
    return at, "".join(taken)


def has_iban_digits(characters: str) -> bool:
    """Return whether the third and fourth character check the others: as a number it is 1 modulo 97."""
    turned = characters[4:] + characters[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def find_ssns(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each number: with dashes anywhere, otherwise after words that name it."""
    forms = [match for match in _PATTERNS["ssn"].finditer(text) if not _PATTERNS["ssn_never_issued"].match(match[0])]
    named = [match.end() for match in _PATTERNS["names_ssn"].finditer(text)] if forms else []
    for match in forms:
        is_dashed = match["gap"] != "" and match["gap"] in _DASHES
        is_other = not is_dashed or names_other_number(text, match.start())
        if not is_other or _is_named(named, match.start()):
            yield match.span()


def _is_named(named: list[int], start: int) -> bool:
    return any(0 <= start - end <= REACH for end in named)


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each telephone number."""
    for match in _PATTERNS["phone_international"].finditer(text):
        if 8 <= _digits(match[0]) <= 18 and not _is_other(text, match):
            yield match.span()
    if _PATTERNS["may_be_national"].search(text):
        for match in _PATTERNS["phone_national"].finditer(text):
            if not _is_other(text, match):
                yield match.span()
    if _PATTERNS["may_be_any"].search(text):
        yield from _find_named(text)


def _find_named(text: str) -> Iterator[tuple[int, int]]:
    """Yield numbers of any form beside a word for telephones."""
    for named in _PATTERNS["names_phone_before"].finditer(text):
        for match in _PATTERNS["phone_any"].finditer(text, named.end(), named.end() + 2 * REACH):
            if match.start() - named.end() > REACH or "\n\n" in text[named.end() : match.start()]:
                break
            if 7 <= _digits(match[0]) <= 15 and not _is_other(text, match):
                yield match.span()
                break
    for named in _PATTERNS["names_phone_behind"].finditer(text):
        line = max(text.rfind("\n", 0, named.start()) + 1, named.start() - REACH // 2)
        for match in _PATTERNS["phone_any"].finditer(text, line, named.start()):
            if match.end() == named.start() and 7 <= _digits(match[0]) <= 15 and not _is_other(text, match):
                yield match.span()


def _is_other(text: str, match: Match[str]) -> bool:
    """Return whether the match begins with a date, or is a coordinate or another kind of number."""
    if _PATTERNS["date"].match(match[0]):
        return True
    return _PATTERNS["other_figures"].fullmatch(match[0]) is not None or names_other_number(text, match.start())


def _digits(written: str) -> int:
    return sum(character.isdigit() for character in written)
