"""Memory's sanitising combined with `trust`'s guard and finder of private data. An instance uses it, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

from sluice.memory.ports import Sanitise, Sanitised

MASKED = ("secret", "card", "iban", "email", "ssn", "phone")
"""Kinds of private data that memory masks. Addresses of machines stay: an error says little without them."""


def sanitise_with_trust(text: str) -> Sanitised:
    """Sanitise `text` by memory's own rules and the guard's, and mask secrets and private data.

    Takes about half a millisecond for a usual text; the first call loads the rules, which takes half a second. The
    guard's model is left out: it was made for pages, and of 200 short attacks it found one (docs/memory/sanitising.md).
    """
    return _combined()(text)


@cache
def _combined() -> Sanitise:
    from sluice.memory.sanitise import build_sanitise

    return build_sanitise(mask_private)


def mask_private(text: str) -> tuple[str, Mapping[str, int]]:
    """Return the text with placeholders for secrets and private data, and the number of each kind."""
    from sluice.trust.private.mask import is_masked, mask
    from sluice.trust.private.patterns import PatternFinder

    spans = PatternFinder().find(text)
    found = Counter("secret" if span.is_secret else span.kind for span in spans if is_masked(span, MASKED))
    return (mask(text, spans, MASKED).text, found) if found else (text, {})
