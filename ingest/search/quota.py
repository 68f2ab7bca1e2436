"""Remembers for all workers which providers need not or may not be called again.

The broker keeps one key per provider and UTC day for the number of calls, `<prefix>:quota:<name>:<YYYY-MM-DD>`; it
expires after two days: the counted day, and one for an operator to look at it. One key per query without results at a
provider, `<prefix>:empty:<hash>`, avoids paying for it twice; it expires after `EMPTY_SECONDS`. Only answers are
remembered, never failures. If the broker does not answer, empty answers are forgotten, which hinders no search.
"""

from __future__ import annotations

import hashlib
import json
import math
from datetime import date

import redis

from sluice.contracts.errors import Overloaded, Unavailable
from sluice.ingest.politeness.broker import KeptInBroker, LenientBroker, lua
from sluice.ingest.search.port import SearchQuery

KEY_TTL_SECONDS = 2 * 86_400
BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""Delay of a search whose quota could not be counted."""


class BrokerQuota(KeptInBroker):
    """A counter per name and day."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix, BROKER_TIMEOUT_SECONDS)
        self._take = self._redis.register_script(lua("quota_take"))
        self._give_back = self._redis.register_script(lua("quota_give_back"))

    def take(self, name: str, day: date, limit: int) -> bool:
        """Count one call; False, without counting, if `limit` calls were made already.

        Raises Overloaded, with the time to come back, if the counter cannot be reached.
        """
        try:
            return bool(self._take(keys=[self._key("quota", name, day.isoformat())], args=[limit, KEY_TTL_SECONDS]))
        except redis.RedisError as error:
            why = f"the broker does not answer for the quota of {name}"
            raise Overloaded(why, retry_after_seconds=BROKER_RETRY_SECONDS) from error

    def give_back(self, name: str, day: date) -> None:
        """Uncount one call that was taken and not made. Raises Unavailable if the counter cannot be reached."""
        try:
            self._give_back(keys=[self._key("quota", name, day.isoformat())])
        except redis.RedisError as error:
            raise Unavailable(f"the broker does not answer for the quota of {name}") from error


EMPTY_SECONDS = 600.0
"""Time for which a provider is not called again for a query without results."""


class BrokerEmptySearches(LenientBroker):
    """A memory of empty answers, for `seconds`; 0 remembers nothing."""

    def __init__(self, broker_url: str, *, seconds: float = EMPTY_SECONDS, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix=key_prefix)
        self._seconds = math.ceil(seconds)

    def holds(self, provider: str, query: SearchQuery) -> bool:
        """Return whether `provider` recently had no results for `query`."""
        return self._seconds > 0 and self.run(_HOLDS, [self._key("empty", fingerprint(provider, query))], []) == 1

    def add(self, provider: str, query: SearchQuery) -> None:
        """Remember that `provider` has no results for `query`."""
        if self._seconds > 0:
            self.run(_ADD, [self._key("empty", fingerprint(provider, query))], [self._seconds])


def fingerprint(provider: str, query: SearchQuery) -> str:
    """Return 32 hex digits of all inputs that decide whether there are results: neither `top_k` nor the day."""
    filters = query.filters
    dates = [day.isoformat() if day else None for day in (filters.after, filters.before)]
    asked = [provider, " ".join(query.query.split()), query.locale, query.vertical, sorted(filters.sites), dates]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


_HOLDS = "return redis.call('EXISTS', KEYS[1])"
_ADD = "return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])"
