"""How many calls a provider may still get today, counted by all workers together.

In the broker one key per provider and UTC day, `<prefix>:quota:<name>:<YYYY-MM-DD>`, expires after two days:
the day it counts and one in which an operator may look at it.
"""

from __future__ import annotations

import threading
from datetime import date
from typing import Protocol

import redis

from sluice.contracts.errors import Overloaded, Unavailable

KEY_TTL_SECONDS = 2 * 86_400
BROKER_TIMEOUT_SECONDS = 5.0
BROKER_RETRY_SECONDS = 5.0
"""When a search comes back whose quota could not be counted."""


class Quota(Protocol):
    """A counter per name and day."""

    def take(self, name: str, day: date, limit: int) -> bool:
        """Count one call; False, and nothing counted, where `limit` calls were made already.

        Raises:
            Overloaded: the counter cannot be reached; says when to come back.
        """
        ...

    def give_back(self, name: str, day: date) -> None:
        """Uncount one call that was taken and not made.

        Raises:
            Unavailable: the counter cannot be reached.
        """
        ...


class InMemoryQuota:
    """Counts in this process. Keeps one day only."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._day: date | None = None
        self._taken: dict[str, int] = {}

    def take(self, name: str, day: date, limit: int) -> bool:
        """See `Quota`."""
        with self._guard:
            if day != self._day:
                self._day, self._taken = day, {}
            if self._taken.get(name, 0) >= limit:
                return False
            self._taken[name] = self._taken.get(name, 0) + 1
            return True

    def give_back(self, name: str, day: date) -> None:
        """See `Quota`."""
        with self._guard:
            if day == self._day and self._taken.get(name, 0) > 0:
                self._taken[name] -= 1


class BrokerQuota:
    """Counts in the broker at `broker_url`."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        self._redis = redis.Redis.from_url(broker_url, socket_timeout=BROKER_TIMEOUT_SECONDS)
        self._take = self._redis.register_script(_TAKE)
        self._give_back = self._redis.register_script(_GIVE_BACK)
        self._key_prefix = key_prefix

    def take(self, name: str, day: date, limit: int) -> bool:
        """See `Quota`."""
        try:
            return bool(self._take(keys=[self._key(name, day)], args=[limit, KEY_TTL_SECONDS]))
        except redis.RedisError as error:
            why = f"the broker does not answer for the quota of {name}"
            raise Overloaded(why, retry_after_seconds=BROKER_RETRY_SECONDS) from error

    def give_back(self, name: str, day: date) -> None:
        """See `Quota`."""
        try:
            self._give_back(keys=[self._key(name, day)])
        except redis.RedisError as error:
            raise Unavailable(f"the broker does not answer for the quota of {name}") from error

    def _key(self, name: str, day: date) -> str:
        return f"{self._key_prefix}:quota:{name}:{day.isoformat()}"

    def close(self) -> None:
        """Close the connections to the broker."""
        self._redis.close()


_TAKE = """
if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
_GIVE_BACK = """
if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then redis.call('DECR', KEYS[1]) end
"""
