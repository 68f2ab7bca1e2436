"""Limits on the requests of each API key: a bucket for each, in the broker, for all processes together.

A bucket holds so many requests at once and is refilled evenly, so many a minute; it is kept as the one moment at which
it will be full again (the generic cell rate algorithm). Without an answer of the broker each process has buckets of its
own for a while: a key gets its rate in every process then, never more. The library `limits` has windows, but no bucket.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from sluice.contracts.errors import InvalidSetting
from sluice.workers.broker.keys import Keys
from sluice.workers.broker.redis_channel import lua
from sluice.workers.service.callers import OWN_MACHINE, Caller
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 0.25
"""Longest wait for the broker, which takes less than a millisecond when it is well."""
ALONE_SECONDS = 2.0
"""Time without another try after the broker did not answer."""
MINUTE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Rate:
    """What one request has left in its key's bucket. `full_in_seconds`: until nothing is used any more."""

    per_minute: int
    at_once: int
    full_in_seconds: float

    @property
    def retry_after_seconds(self) -> float:
        """Seconds until there is room for this request; 0 where it was let through."""
        return max(0.0, self.full_in_seconds - self.at_once * MINUTE_SECONDS / self.per_minute)

    def headers(self) -> dict[str, str]:
        """Return the fields of draft-ietf-httpapi-ratelimit-headers: the policy, and what is left of it."""
        left = max(0, int(self.at_once - self.full_in_seconds * self.per_minute / MINUTE_SECONDS + 1e-6))
        whole = round(self.at_once * MINUTE_SECONDS / self.per_minute)
        return {
            "RateLimit-Policy": f'"requests";q={self.at_once};w={max(1, whole)};qu="requests"',
            "RateLimit": f'"requests";r={left};t={-int(-self.full_in_seconds // 1)}',
        }


class RateLimits:
    """Counts requests. For one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._keys = settings, Keys(settings.instance)
        self._redis: redis.asyncio.Redis | None = None
        self._alone_until = 0.0
        self._own: dict[str, float] = defaultdict(float)

    async def count(self, caller: Caller) -> Rate | None:
        """Count one request of a key. None where it has no limit, as this machine's own user has none."""
        per_minute = caller.requests_per_minute
        if per_minute is None:
            per_minute = self._settings.requests_per_minute
        if not per_minute or caller.owner == OWN_MACHINE.owner:
            return None
        at_once = min(self._settings.requests_at_once, per_minute)
        interval = MINUTE_SECONDS / per_minute
        return Rate(per_minute, at_once, await self._full_in(caller.owner, interval, interval * at_once))

    async def close(self) -> None:
        """Close the connection."""
        if self._redis is not None:
            await self._redis.aclose()

    async def _full_in(self, owner: str, interval: float, room: float) -> float:
        """Return the seconds until the bucket is full, with this request in it, where `room` has place for that."""
        if time.monotonic() >= self._alone_until:
            try:
                taken = await self._broker().eval(lua("rate_take"), 1, self._keys.rate(owner), interval, room)
                return float(taken)
            except (RedisError, OSError, InvalidSetting) as error:
                self._alone_until = time.monotonic() + ALONE_SECONDS
                log.warning("rates_counted_alone", error=repr(error), seconds=ALONE_SECONDS)
        now = time.monotonic()
        full_at = max(now, self._own[owner]) + interval
        if full_at - now <= room:
            self._own[owner] = full_at
        return full_at - now

    def _broker(self) -> redis.asyncio.Redis:
        if self._redis is None:
            self._redis = redis.asyncio.Redis.from_url(
                self._settings.broker_location, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS
            )
        return self._redis
