"""The forms of private data: addresses on the network, and numbers of cards, accounts, social security, telephones.

A form is a pattern (`kinds.toml`) and a check of its matches: by check digits, and by the words before, which name
another kind of number: an order, a version. Cards have 12 to 19 digits with an issuer's prefix and length, and Luhn's
check digit (ISO/IEC 7812-1); IBANs their country's length and the check digits of ISO 7064 (mod 97). Social security
numbers have a form that is issued: the area is not 000, 666 or above 899, and no group is all zeros. Telephone
numbers are in international form (ITU-T E.123), in a distinctive national form, or beside a word for telephones.
E-mail is that of RFC 5321, without comments and quoted names.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from re import Match

from publicsuffixlist import PublicSuffixList

from sluice.text.pattern_file import PatternFile

_REACH = 48
"""Characters before a number within which a word names its kind; words farther away refer to something else."""
_FILE = PatternFile(Path(__file__).with_name("kinds.toml"))
LENGTHS = {country: int(length) for length, countries in _FILE.tables["iban"].items() for country in countries.split()}
"""Length of an IBAN in characters, by country."""
_DASHES = "-\u2010\u2011\u2012\u2013"
_LEADING = "!#$%&'*+/=?^`{|}~-."
_NAMES_OF_ONE_NETWORK = frozenset(
    ["test", "example", "invalid", "localhost", "local", "internal", "intranet", "lan", "corp", "home", "localdomain"]
)
"""Last labels of no public domain that still occur in addresses (RFC 6761, RFC 6762 and usage)."""
_LARGEST_HEADING = 30

Span = tuple[int, int]
Check = Callable[[Match[str]], "Span | None"]
"""Returns the span of a match's private part; None where it is something else."""


def find_kinds(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of each find, kind by kind; finds may overlap."""
    for kind, forms in KINDS.items():
        for pattern, needed, check in forms:
            if not needed or _FILE[needed].search(text):
                for match in _FILE[pattern].finditer(text):
                    if span := check(match):
                        yield kind, *span
    if _FILE["may_be_any"].search(text):
        yield from (("phone", *span) for span in _named_phones(text))


def _email(match: Match[str]) -> Span | None:
    """Accept a public domain; not `git@host`, nor a user at a host: `user@host:path`, `https://user:word@host`."""
    name = match["local"].lstrip(_LEADING)
    start = match.end("local") - len(name)
    lead = match.string[max(0, start - 100) : start]
    before = lead.rsplit(None, 1)[-1] if lead and not lead[-1].isspace() else ""
    in_url = "://" in before and not set("/?#") & set(before.rsplit("://", 1)[1])
    is_remote = name == "git" or in_url or re.match(r":[\w~/.]", match.string[match.end() :][:2]) is not None
    is_whole = bool(name) and not name.endswith(".") and not is_remote and _is_top_level(match["tld"].lower())
    return (start, match.end()) if is_whole else None


def _is_top_level(label: str) -> bool:
    return label in _NAMES_OF_ONE_NETWORK or _public_suffixes().publicsuffix(label) is not None


@cache
def _public_suffixes() -> PublicSuffixList:
    """Return the package's bundled list; nothing is downloaded."""
    return PublicSuffixList(accept_unknown=False)


def _iban(match: Match[str]) -> Span | None:
    """Take as many characters as the country's accounts have, single gaps allowed, if they check themselves."""
    more = LENGTHS.get(match[0][:2].upper(), 1) - 1
    whole = re.compile(rf"[A-Za-z0-9](?:[ \u00a0\u202f.-]?[A-Za-z0-9]){{{more}}}(?![^\W_])")
    found = whole.match(match.string, match.start()) if more else None
    characters = "".join(filter(str.isalnum, found[0])) if found else ""
    return found.span() if found and has_iban_digits(characters) else None


def has_iban_digits(characters: str) -> bool:
    """Return whether the third and fourth character check the others: as a number it is 1 modulo 97."""
    turned = characters[4:] + characters[:4]
    return int("".join(str(int(character, 36)) for character in turned)) % 97 == 1


def _card(match: Match[str]) -> Span | None:
    digits = "".join(filter(str.isdigit, match[0]))
    is_card = _FILE["issuer"].fullmatch(digits) and has_luhn_digit(digits)
    return match.span() if is_card and (_follows(match, "names_card") or not _is_other_number(match)) else None


def has_luhn_digit(digits: str) -> bool:
    """Return whether the last digit is Luhn's check digit of those before it."""
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(int(digit) for digit in digits[-1::-2])) % 10 == 0


def _ssn(match: Match[str]) -> Span | None:
    """Accept a number with dashes anywhere, another after words that name it."""
    if _FILE["ssn_never_issued"].match(match[0]):
        return None
    is_dashed = match["gap"] != "" and match["gap"] in _DASHES
    before = _FILE["names_ssn"].finditer(match.string, max(0, match.start() - 2 * _REACH), match.start())
    is_named = any(match.start() - found.end() <= _REACH for found in before)
    return match.span() if is_named or (is_dashed and not _is_other_number(match)) else None


def _machine(match: Match[str]) -> Span | None:
    """Accept a machine's address: neither loopback nor a mask."""
    try:
        address = ipaddress.ip_address(match[0])
    except ValueError:
        return None
    is_none = address.is_loopback or address.is_unspecified or match[0].startswith(("0.", "255."))
    return None if is_none else match.span()


def _ipv4(match: Match[str]) -> Span | None:
    """Accept what is neither a version nor a heading's number, such as `3.2.1.4 Scope` at a line's start."""
    text, start = match.string, match.start()
    line_starts = not text[text.rfind("\n", 0, start) + 1 : start].strip(" #*|-")
    is_small = all(int(part) <= _LARGEST_HEADING for part in match[0].split("."))
    is_heading = line_starts and is_small and re.match(r"\.?[ \t]+[A-Za-z]", text[match.end() :][:4])
    is_version = _FILE["of_version"].search(text, max(0, start - 24), start)
    return None if is_version or is_heading else _machine(match)


def _ipv6(match: Match[str]) -> Span | None:
    """Accept an address such as `2001:db8::1`, and not a name in a program such as `a::b`."""
    groups = len(list(filter(None, match[0].split(":"))))
    is_written = groups >= 4 or (groups >= 2 and _FILE["ipv6_routed"].match(match[0]))
    return _machine(match) if is_written and any(map(str.isdigit, match[0])) else None


def _phone(least: int, most: int) -> Check:
    """Accept so many digits that are no date, coordinate or other kind of number."""

    def check(match: Match[str]) -> Span | None:
        is_other = _FILE["date"].match(match[0]) or _FILE["other_figures"].fullmatch(match[0])
        is_long = least <= sum(map(str.isdigit, match[0])) <= most
        return match.span() if is_long and not is_other and not _is_other_number(match) else None

    return check


_any_phone = _phone(7, 15)


def _named_phones(text: str) -> Iterator[Span]:
    """Yield numbers of any form beside a word for telephones."""
    for named in _FILE["names_phone_before"].finditer(text):
        for match in _FILE["phone_any"].finditer(text, named.end(), named.end() + 2 * _REACH):
            if match.start() - named.end() > _REACH or "\n\n" in text[named.end() : match.start()]:
                break
            if span := _any_phone(match):
                yield span
                break
    for named in _FILE["names_phone_behind"].finditer(text):
        line = max(text.rfind("\n", 0, named.start()) + 1, named.start() - _REACH // 2)
        for match in _FILE["phone_any"].finditer(text, line, named.start()):
            if match.end() == named.start() and (span := _any_phone(match)):
                yield span


def _is_other_number(match: Match[str]) -> bool:
    """Return whether the words before name the number as that of an order, a part, a version and so on."""
    return _follows(match, "other_number")


def _follows(match: Match[str], pattern: str) -> bool:
    return _FILE[pattern].search(match.string, max(0, match.start() - _REACH), match.start()) is not None


KINDS: Mapping[str, tuple[tuple[str, str, Check], ...]] = {
    "email": (("email", "may_be_email", _email),),
    "iban": (("iban_head", "", _iban),),
    "card": (("card", "", _card),),
    "ssn": (("ssn", "", _ssn),),
    "ip": (("ipv4", "", _ipv4), ("ipv6", "may_be_ipv6", _ipv6)),
    "phone": (("phone_international", "", _phone(8, 18)), ("phone_national", "may_be_national", _phone(0, 99))),
}
"""Kinds in the order of precedence in an overlap: of each form its pattern, a quick one of what it needs, its check."""
