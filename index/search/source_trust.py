"""How far a source is to be trusted: where it is from, whether it is intact, who wrote it, how old it is.

score = (0.4 · domain + 0.3 · integrity + 0.3 · author) · decay

domain     1 when the host is listed as trusted, or the text never came from the web (a file, a submission);
           0.5 when no domain is listed at all, so that it cannot be judged; else 0
integrity  1 when the recorded checksum matches the text, else 0
author     as for the domain, by the list of trusted authors
decay      from 1.0 for a text of today linearly to 0.7 for one of a year ago or more
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from contracts.document import Chunk, Provenance, sha256_text
from index.search.domains import is_under, parse_host

DOMAIN_WEIGHT = 0.4
INTEGRITY_WEIGHT = 0.3
AUTHOR_WEIGHT = 0.3
OLDEST_DECAY = 0.7
_YEAR_SECONDS = 365 * 86_400
_UNDECIDED = 0.5
_OWN_SOURCES = frozenset({"file", "submission"})
_MOST_SOURCES = 20_000

_Source = tuple[str | None, str, str | None]
"""A document's URL, how it got here, and its author."""


@dataclass(frozen=True, slots=True)
class SourceTrust:
    """The owner's lists of trusted domains (with all below them) and authors (whatever the case)."""

    domains: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    _factors: dict[_Source, tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)

    def value(self, url: str | None, provenance: Provenance, chunk: Chunk, now: datetime) -> float:
        """The trust in one chunk, at `now`, in [0, 1]."""
        domain, author = self._of_source(url, provenance)
        weighed = DOMAIN_WEIGHT * domain + INTEGRITY_WEIGHT * _integrity(chunk) + AUTHOR_WEIGHT * author
        return weighed * decay_by_age(provenance, now)

    def _of_source(self, url: str | None, provenance: Provenance) -> tuple[float, float]:
        """The factors of domain and author: the same for every chunk and every query, so they are cached."""
        source = url, provenance.source, provenance.author
        factors = self._factors.get(source)
        if factors is None:
            if len(self._factors) >= _MOST_SOURCES:
                self._factors.clear()
            factors = self._factors[source] = self._judge(*source)
        return factors

    def _judge(self, url: str | None, kind: str, name: str | None) -> tuple[float, float]:
        is_own = kind in _OWN_SOURCES
        author = (name or "").strip().casefold()
        known_authors = [known.strip().casefold() for known in self.authors]
        domain_factor = _factor(is_own or is_under(parse_host(url), self.domains), self.domains)
        return domain_factor, _factor(is_own or (author != "" and author in known_authors), self.authors)


def decay_by_age(provenance: Provenance, now: datetime) -> float:
    """From 1.0 to 0.7 over a year, by the date of publication, else by that of the fetch."""
    written_at = provenance.published_at or provenance.fetched_at
    years = max(0.0, (now - written_at).total_seconds() / _YEAR_SECONDS)
    return max(OLDEST_DECAY, 1.0 - (1.0 - OLDEST_DECAY) * years)


def _integrity(chunk: Chunk) -> float:
    return 1.0 if chunk.checksum == sha256_text(chunk.text) else 0.0


def _factor(is_trusted: bool, listed: Sequence[str]) -> float:
    if is_trusted:
        return 1.0
    return 0.0 if listed else _UNDECIDED
