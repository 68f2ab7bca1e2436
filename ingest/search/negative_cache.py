"""What providers found nothing for, remembered by all workers together, so that it is not paid for twice.

In the broker one key each, `<prefix>:empty:<hash>`, expires after `EMPTY_SECONDS`. Only an answer is
remembered, never a failure. A broker that does not answer remembers nothing, and hinders no search.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Protocol

from sluice.ingest.politeness.hosts import LenientBroker
from sluice.ingest.search.port import SearchQuery

EMPTY_SECONDS = 600.0
"""How long a provider is not asked again for what it had no result for."""


class EmptySearches(Protocol):
    """A memory of empty answers."""

    def holds(self, provider: str, query: SearchQuery) -> bool:
        """Whether `provider` said lately that it has nothing for `query`."""
        ...

    def add(self, provider: str, query: SearchQuery) -> None:
        """Remember that it said so."""
        ...


class NoMemory:
    """Remembers nothing: every search is asked."""

    def holds(self, provider: str, query: SearchQuery) -> bool:
        """False."""
        return False

    def add(self, provider: str, query: SearchQuery) -> None:
        """Nothing."""


class BrokerEmptySearches:
    """Remembers in the broker at `broker_url`, for `seconds`; 0 remembers nothing."""

    def __init__(self, broker_url: str, *, seconds: float = EMPTY_SECONDS, key_prefix: str = "sluice") -> None:
        self._broker = LenientBroker(broker_url)
        self._seconds = math.ceil(seconds)
        self._key_prefix = key_prefix

    def holds(self, provider: str, query: SearchQuery) -> bool:
        """See `EmptySearches`."""
        return self._seconds > 0 and self._broker.run(_HOLDS, [self._key(provider, query)], []) == 1

    def add(self, provider: str, query: SearchQuery) -> None:
        """See `EmptySearches`."""
        if self._seconds > 0:
            self._broker.run(_ADD, [self._key(provider, query)], [self._seconds])

    def close(self) -> None:
        """Close the connections to the broker."""
        self._broker.close()

    def _key(self, provider: str, query: SearchQuery) -> str:
        return f"{self._key_prefix}:empty:{fingerprint(provider, query)}"


def fingerprint(provider: str, query: SearchQuery) -> str:
    """32 hex digits of what decides whether a provider finds anything: not how many results are wanted, nor the day."""
    filters = query.filters
    dates = [day.isoformat() if day else None for day in (filters.after, filters.before)]
    asked = [provider, " ".join(query.query.split()), query.locale, query.vertical, sorted(filters.sites), dates]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


_HOLDS = "return redis.call('EXISTS', KEYS[1])"
_ADD = "return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])"
