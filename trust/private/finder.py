"""Finds private data and secrets in a text: kinds and places, never a copy of a value.

Where two finds overlap, the more telling kind stays (a secret before an e-mail address in it), then the longer one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from typing import Protocol

from sluice.contracts.trust import PrivateSpan
from sluice.trust.private import addresses, cards, ibans, identity_numbers, labels, phones, secret_rules
from sluice.trust.settings import TrustSettings

KINDS: dict[str, Callable[[str], Iterator[tuple[int, int]]]] = {
    "email": addresses.find_emails,
    "iban": ibans.find_ibans,
    "card": cards.find_cards,
    "ssn": identity_numbers.find_ssns,
    "ip": addresses.find_ip_addresses,
    "phone": phones.find_phones,
}
"""Kinds of private data, the one that wins an overlap first."""


class PrivateDataFinder(Hashable, Protocol):
    """Finds private data. Safe for threads."""

    @property
    def version(self) -> str:
        """Changes whenever the same text may give other spans."""
        ...

    def find(self, text: str) -> tuple[PrivateSpan, ...]:
        """The spans, in order, none overlapping another."""
        ...


class PatternFinder:
    """Finds cards, accounts, addresses, numbers and secrets by patterns and their check digits."""

    @property
    def version(self) -> str:
        """A hash of the rule files and of the code that applies them."""
        return patterns_version()

    def find(self, text: str) -> tuple[PrivateSpan, ...]:
        """The spans, in order, none overlapping another."""
        return keep_apart([*find_secrets(text), *_find_kinds(text)])


_PATTERNS = PatternFinder()


def build_finder(settings: TrustSettings) -> PrivateDataFinder:
    """The finder that the settings ask for; the same one at each call."""
    return _presidio() if settings.recognisers == "presidio" else _PATTERNS


@cache
def _presidio() -> PrivateDataFinder:
    from sluice.trust.private.presidio import PresidioFinder

    return PresidioFinder(_PATTERNS)


def find_secrets(text: str) -> Iterator[PrivateSpan]:
    """Every secret, in the order of the rules; a form that two rules know comes twice."""
    for rule in secret_rules.keyword_index().rules_for(text):
        for start, end in rule.find(text):
            yield PrivateSpan(kind=f"secret.{rule.id}", start=start, end=end)


def _find_kinds(text: str) -> Iterator[PrivateSpan]:
    for kind, find in KINDS.items():
        for start, end in find(text):
            yield PrivateSpan(kind=kind, start=start, end=end)


def keep_apart(spans: list[PrivateSpan]) -> tuple[PrivateSpan, ...]:
    """Of spans that overlap the most telling; all others, in the order of the text."""
    kept: list[PrivateSpan] = []
    for span in sorted(spans, key=_rank):
        if span.end > span.start and all(span.end <= one.start or one.end <= span.start for one in kept):
            kept.append(span)
    return tuple(sorted(kept, key=lambda span: span.start))


def _rank(span: PrivateSpan) -> tuple[int, int]:
    order = list(KINDS)
    if span.is_secret:
        return (1 if span.kind == "secret.generic-api-key" else 0), span.start - span.end
    return (2 + order.index(span.kind) if span.kind in order else 2 + len(order)), span.start - span.end


@cache
def patterns_version() -> str:
    """Hex SHA-256, shortened to 12 digits, of the rules and of the modules that apply them."""
    digest = hashlib.sha256(secret_rules.rules_version().encode())
    for module in (addresses, cards, ibans, identity_numbers, labels, phones, secret_rules):
        digest.update(inspect.getsource(module).encode())
    return digest.hexdigest()[:12]
