"""What the crawl did to each host, by UTC day: so that an operator sees which hosts are visited and how.

Promises: counting never fails a crawl and never slows it down noticeably; without a broker nothing is counted. A day
keeps at most `MOST_HOSTS` hosts; what comes after them is counted together, under `OTHER`. Days are forgotten after
eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

from sluice.contracts.operations.hosts import HostCounts, HostView
from sluice.ingest.politeness.optional_redis import LenientBroker

MOST_HOSTS = 10_000
"""Hosts of one day that are counted each by itself; a hostile site can make up any number of names."""
OTHER = "other"
"""Under which all further hosts of a day are counted."""
TTL_SECONDS = 8 * 86_400
"""A week, and the day that is under way."""
MOST_DAYS = 8
"""Days that are kept, today included."""
_WAITED, _WAITED_MS, _INTERVAL = "waited_seconds", "waited_ms", "interval_seconds"
"""The broker adds whole numbers, so waiting is kept in milliseconds."""


class HostStats:
    """Counts in the broker at `broker_url`. `clock` gives times with their zone. Safe across threads and processes."""

    def __init__(self, broker_url: str, *, clock: Callable[[], datetime], key_prefix: str = "sluice") -> None:
        self._broker = LenientBroker(broker_url)
        self._clock = clock
        self._key_prefix = key_prefix

    def add(self, host: str, counts: HostCounts, *, interval_seconds: float | None = None) -> None:
        """Count what happened to `host` just now. `interval_seconds` is not added up: the latest one stands."""
        kept = counts.model_dump(exclude={_WAITED})
        kept[_WAITED_MS] = round(counts.waited_seconds * 1_000)
        day = self._day_key(self._clock().astimezone(UTC).date())
        interval = "" if interval_seconds is None else f"{interval_seconds:.3f}"
        pairs = [part for name, count in kept.items() if count for part in (name, count)]
        self._broker.run(_ADD, [day], [host, MOST_HOSTS, OTHER, TTL_SECONDS, counts.requests, interval, *pairs])

    def top(self, most: int, since: date) -> tuple[HostView, ...]:
        """The hosts with the most requests from the UTC day `since` until today, at most `most`, busiest first."""
        days = [self._day_key(day) for day in self._days(since)]
        found = self._broker.run(_TOP, days, [max(0, most)]) if days else None
        return tuple(_row(host, per_day) for host, per_day in found or ())

    def close(self) -> None:
        """Close the connections to the broker."""
        self._broker.close()

    def _days(self, since: date) -> Iterator[date]:
        """From the first day that is still kept, the latest last."""
        today = self._clock().astimezone(UTC).date()
        day = max(since, today - timedelta(days=MOST_DAYS - 1))
        while day <= today:
            yield day
            day += timedelta(days=1)

    def _day_key(self, day: date) -> str:
        return f"{self._key_prefix}:hosts:{day.isoformat()}"


def _row(host: str, per_day: list[list[str]]) -> HostView:
    """The days of one host added up; each is a list of names and values by turns."""
    sums: dict[str, float] = {}
    for pairs in per_day:
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            sums[name] = float(value) if name == _INTERVAL else sums.get(name, 0) + int(value)
    waited_ms = sums.pop(_WAITED_MS, 0.0)
    return HostView.model_validate({"host": host, **sums, _WAITED: waited_ms / 1_000})


# A day is a sorted set of its hosts by requests; each host's figures are a hash beside it, at `day:host`.
_ADD = """
local day, host = KEYS[1], ARGV[1]
if not redis.call('ZSCORE', day, host) and redis.call('ZCARD', day) >= tonumber(ARGV[2]) then host = ARGV[3] end
redis.call('ZINCRBY', day, ARGV[5], host)
redis.call('EXPIRE', day, ARGV[4])
local figures = day .. ':' .. host
if ARGV[6] ~= '' then redis.call('HSET', figures, 'interval_seconds', ARGV[6]) end
for at = 7, #ARGV, 2 do redis.call('HINCRBY', figures, ARGV[at], ARGV[at + 1]) end
redis.call('EXPIRE', figures, ARGV[4])
return 1
"""
_TOP = """
local requests = {}
for _, day in ipairs(KEYS) do
  local found = redis.call('ZRANGE', day, 0, -1, 'WITHSCORES')
  for at = 1, #found, 2 do requests[found[at]] = (requests[found[at]] or 0) + tonumber(found[at + 1]) end
end
local hosts = {}
for host in pairs(requests) do hosts[#hosts + 1] = host end
table.sort(hosts, function(one, other)
  if requests[one] == requests[other] then return one < other end
  return requests[one] > requests[other]
end)
local rows = {}
for at = 1, math.min(#hosts, tonumber(ARGV[1])) do
  local figures = {}
  for _, day in ipairs(KEYS) do figures[#figures + 1] = redis.call('HGETALL', day .. ':' .. hosts[at]) end
  rows[at] = {hosts[at], figures}
end
return rows
"""
