"""Addresses on the network: e-mail (RFC 5321, without comments and quoted names), IPv4 and IPv6."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from publicsuffixlist import PublicSuffixList

from sluice.text.pattern_file import PatternFile

_PATTERNS = PatternFile(Path(__file__).with_name("addresses.toml")).table("patterns")
_LEADING = "!#$%&'*+/=?^`{|}~-."
_NAMES_OF_ONE_NETWORK = frozenset(
    ["test", "example", "invalid", "localhost", "local", "internal", "intranet", "lan", "corp", "home", "localdomain"]
)
"""Last labels of no public domain that still occur in addresses (RFC 6761, RFC 6762 and usage)."""

_LARGEST_HEADING = 30


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each e-mail address, except `git@host:path` and the user part of a URL."""
    at = text.find("@")
    while at >= 0:
        domain = _PATTERNS["domain"].match(text, at + 1)
        local = _PATTERNS["local_part"].search(text, max(0, at - 64), at)
        if domain and local and _is_top_level(domain["tld"].lower()):
            name = local[0].lstrip(_LEADING)
            start = at - len(name)
            if name and not name.endswith(".") and not _is_remote(text, start, domain.end(), name):
                yield start, domain.end()
        at = text.find("@", at + 1)


def _is_remote(text: str, start: int, end: int, name: str) -> bool:
    """Return whether the match is a user at a host: `git@host`, `user@host:path`, `https://user:word@host`."""
    lead = text[max(0, start - 100) : start]
    before = lead.rsplit(None, 1)[-1] if lead and not lead[-1].isspace() else ""
    in_url = "://" in before and not set("/?#") & set(before.rsplit("://", 1)[1])
    return name == "git" or in_url or re.match(r":[\w~/.]", text[end : end + 2]) is not None


@cache
def _public_suffixes() -> PublicSuffixList:
    """Return the package's bundled list; nothing is downloaded."""
    return PublicSuffixList(accept_unknown=False)


def _is_top_level(label: str) -> bool:
    return label in _NAMES_OF_ONE_NETWORK or _public_suffixes().publicsuffix(label) is not None


def find_ip_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each machine's address, not of version or section numbers, masks or loopback."""
    if "." in text:
        for match in _PATTERNS["ipv4"].finditer(text):
            if _is_machine(match[0]) and not _is_numbering(text, match):
                yield match.span()
    if "::" in text or text.count(":") >= 7:
        for match in _PATTERNS["ipv6"].finditer(text):
            if _is_written_v6(match[0]) and _is_machine(match[0]):
                yield match.span()


def _is_machine(written: str) -> bool:
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified) and not written.startswith(("0.", "255."))


def _is_numbering(text: str, match: re.Match[str]) -> bool:
    """Return whether the match is a version, or a heading's number, such as `3.2.1.4 Scope` at a line's start."""
    if _PATTERNS["of_version"].search(text, max(0, match.start() - 24), match.start()):
        return True
    line_starts = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip(" #*|-")
    small = all(int(part) <= _LARGEST_HEADING for part in match[0].split("."))
    return small and line_starts and re.match(r"\.?[ \t]+[A-Za-z]", text[match.end() : match.end() + 4]) is not None


def _is_written_v6(written: str) -> bool:
    """Return whether the match is an address such as `2001:db8::1`, and not a name in a program such as `a::b`."""
    groups = [group for group in written.split(":") if group]
    if not any(character.isdigit() for character in written):
        return False
    return len(groups) >= 4 or (len(groups) >= 2 and _PATTERNS["ipv6_routed"].match(written) is not None)
