"""Addresses on the network: e-mail (RFC 5321, without comments and quoted names), IPv4 and IPv6."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import cache

from publicsuffixlist import PublicSuffixList

_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?P<tld>xn--[a-z0-9-]{2,59}|[^\W\d_]{2,24})(?![\w-])")
_LEADING = "!#$%&'*+/=?^`{|}~-."
_NAMES_OF_ONE_NETWORK = frozenset(
    ["test", "example", "invalid", "localhost", "local", "internal", "intranet", "lan", "corp", "home", "localdomain"]
)
"""Last labels that are no public domain's but stand in addresses all the same (RFC 6761, RFC 6762 and usage)."""

_V4 = re.compile(r"(?<![\w.+-])(?:\d{1,3}\.){3}\d{1,3}(?![\w+])(?!\.\w)(?!-[A-Za-z\d])")
_V6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?![\w:])")
_OF_VERSION = re.compile(
    r"(?:\b(?:v|ver|versions?|release[sd]?|rev(?:ision)?|build|firmware|driver|kernel|section|sections|sec|chapter|clause|"
    r"paragraph|para|figure|fig|table|appendix|annex|oid|item|rule|article|step|exercise|example|question|update|upgrade|"
    r"upgraded to|since|python|node|chrome|firefox|linux|java|edge|safari|webkit|opera|msie|mozilla|agent|sdk|api|"
    r"[a-z]+/)[ .:=/v#]{0,3}|§ ?|[=><~]= ?|[a-z]-)$",
    re.IGNORECASE,
)
_LARGEST_HEADING = 30
_ROUTED_V6 = re.compile(r"(?:[23][0-9a-f]{3}|f[cdef][0-9a-f]{2}|64|::ffff)\b", re.IGNORECASE)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each e-mail address; not of `git@host:path` nor of the user part of a URL."""
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        local = _LOCAL.search(text, max(0, at - 64), at)
        if domain and local and _is_top_level(domain["tld"].lower()):
            name = local[0].lstrip(_LEADING)
            start = at - len(name)
            if name and not name.endswith(".") and not _is_remote(text, start, domain.end(), name):
                yield start, domain.end()
        at = text.find("@", at + 1)


def _is_remote(text: str, start: int, end: int, name: str) -> bool:
    """Whether it is a user at a host: `git@host`, `user@host:path`, `https://user:word@host`."""
    lead = text[max(0, start - 100) : start]
    before = lead.rsplit(None, 1)[-1] if lead and not lead[-1].isspace() else ""
    in_url = "://" in before and not set("/?#") & set(before.rsplit("://", 1)[1])
    return name == "git" or in_url or re.match(r":[\w~/.]", text[end : end + 2]) is not None


@cache
def _public_suffixes() -> PublicSuffixList:
    """The list that comes with the package; nothing is downloaded."""
    return PublicSuffixList(accept_unknown=False)


def _is_top_level(label: str) -> bool:
    return label in _NAMES_OF_ONE_NETWORK or _public_suffixes().publicsuffix(label) is not None


def find_ip_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each address of a machine: not of version and section numbers, nor of masks and loopback."""
    if "." in text:
        for match in _V4.finditer(text):
            if _is_machine(match[0]) and not _is_numbering(text, match):
                yield match.span()
    if "::" in text or text.count(":") >= 7:
        for match in _V6.finditer(text):
            if _is_written_v6(match[0]) and _is_machine(match[0]):
                yield match.span()


def _is_machine(written: str) -> bool:
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified) and not written.startswith(("0.", "255."))


def _is_numbering(text: str, match: re.Match[str]) -> bool:
    """Whether it is a version, or the number of a heading, such as `3.2.1.4 Scope` at a line's start."""
    if _OF_VERSION.search(text, max(0, match.start() - 24), match.start()):
        return True
    line_starts = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip(" #*|-")
    small = all(int(part) <= _LARGEST_HEADING for part in match[0].split("."))
    return small and line_starts and re.match(r"\.?[ \t]+[A-Za-z]", text[match.end() : match.end() + 4]) is not None


def _is_written_v6(written: str) -> bool:
    """Whether it is no name of a program: `a::b` is one, `2001:db8::1` is an address."""
    groups = [group for group in written.split(":") if group]
    if not any(character.isdigit() for character in written):
        return False
    return len(groups) >= 4 or (len(groups) >= 2 and _ROUTED_V6.match(written) is not None)
