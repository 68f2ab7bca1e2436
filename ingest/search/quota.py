"""Remembers for all workers which providers need not or may not be called again.

In the broker one key per provider and UTC day counts its calls, `<prefix>:quota:<name>:<YYYY-MM-DD>`; it expires after
two days: the day it counts and one in which an operator may look at it. One key each, `<prefix>:empty:<hash>`, stands
for what a provider found nothing for, so that it is not paid for twice; it expires after `EMPTY_SECONDS`. Only an
answer is remembered, never a failure. A broker that does not answer remembers nothing of this kind, and hinders no
search.
"""

from __future__ import annotations

import hashlib
import json
import math
from datetime import date

import redis

from sluice.contracts.errors import Overloaded, Unavailable
from sluice.ingest.politeness.broker import KeptInBroker, LenientBroker
from sluice.ingest.search.port import SearchQuery

KEY_TTL_SECONDS = 2 * 86_400
BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""When a search comes back whose quota could not be counted."""


class BrokerQuota(KeptInBroker):
    """A counter per name and day."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix, BROKER_TIMEOUT_SECONDS)
        self._take = self._redis.register_script(_TAKE)
        self._give_back = self._redis.register_script(_GIVE_BACK)

    def take(self, name: str, day: date, limit: int) -> bool:
        """Count one call; False, and nothing counted, where `limit` calls were made already.

        Raises:
            Overloaded: the counter cannot be reached; says when to come back.
        """
        try:
            return bool(self._take(keys=[self._key("quota", name, day.isoformat())], args=[limit, KEY_TTL_SECONDS]))
        except redis.RedisError as error:
            why = f"the broker does not answer for the quota of {name}"
            raise Overloaded(why, retry_after_seconds=BROKER_RETRY_SECONDS) from error

    def give_back(self, name: str, day: date) -> None:
        """Uncount one call that was taken and not made.

        Raises:
            Unavailable: the counter cannot be reached.
        """
        try:
            self._give_back(keys=[self._key("quota", name, day.isoformat())])
        except redis.RedisError as error:
            raise Unavailable(f"the broker does not answer for the quota of {name}") from error


_TAKE = """
if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
_GIVE_BACK = """
if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then redis.call('DECR', KEYS[1]) end
"""


EMPTY_SECONDS = 600.0
"""How long a provider is not asked again for what it had no result for."""


class BrokerEmptySearches(LenientBroker):
    """A memory of empty answers, for `seconds`; 0 remembers nothing."""

    def __init__(self, broker_url: str, *, seconds: float = EMPTY_SECONDS, key_prefix: str = "sluice") -> None:
        super().__init__(broker_url, key_prefix=key_prefix)
        self._seconds = math.ceil(seconds)

    def holds(self, provider: str, query: SearchQuery) -> bool:
        """Whether `provider` said lately that it has nothing for `query`."""
        return self._seconds > 0 and self.run(_HOLDS, [self._key("empty", fingerprint(provider, query))], []) == 1

    def add(self, provider: str, query: SearchQuery) -> None:
        """Remember that it said so."""
        if self._seconds > 0:
            self.run(_ADD, [self._key("empty", fingerprint(provider, query))], [self._seconds])


def fingerprint(provider: str, query: SearchQuery) -> str:
    """32 hex digits of what decides whether a provider finds anything: not how many results are wanted, nor the day."""
    filters = query.filters
    dates = [day.isoformat() if day else None for day in (filters.after, filters.before)]
    asked = [provider, " ".join(query.query.split()), query.locale, query.vertical, sorted(filters.sites), dates]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


_HOLDS = "return redis.call('EXISTS', KEYS[1])"
_ADD = "return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])"
