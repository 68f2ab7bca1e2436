"""What sites' robots.txt said, shared by all workers through the broker for as long as it holds.

In the broker one key per origin, `<prefix>:robots:<scheme://host:port>`: a line of JSON with what came of asking, then
the file, compressed. It expires with the answer: after a day, after minutes where a site gave none.

Promises: a broker that is away, and a value that cannot be read, are as if nothing had been kept; a value is never
larger than `MAX_STORED_BYTES`, and what it unpacks to never larger than a robots.txt may be.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import redis
import zstandard
from redis.backoff import NoBackoff
from redis.retry import Retry

from sluice.ingest.politeness.robots_txt import MAX_ROBOTS_BYTES

Outcome = Literal["rules", "open", "closed"]
"""The file's rules hold; everything is allowed; nothing is."""
MAX_STORED_BYTES = 64 * 1_024
"""Compressed; a robots.txt of 500 KiB that people wrote has half of that. A larger one each worker reads by itself, so
that no farm of hosts fills the broker with noise."""
BROKER_TIMEOUT_SECONDS = 2.0
"""Then the site is asked: that takes no longer."""


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What came of asking for a robots.txt. `reason` says how it answered; `body` is the file, of `rules` only."""

    outcome: Outcome
    reason: str
    body: bytes = b""


class RobotsStore(Protocol):
    """Answers by origin."""

    def recall(self, origin: str) -> tuple[RobotsAnswer, float] | None:
        """The answer of `origin` and for how many seconds it still holds; None where there is none."""
        ...

    def keep(self, origin: str, answer: RobotsAnswer, seconds: float) -> None:
        """Keep the answer of `origin` for so many seconds."""
        ...


class BrokerRobotsStore:
    """Answers in the broker at `broker_url`. Safe across threads; no failure of the broker is raised."""

    def __init__(self, broker_url: str, *, key_prefix: str = "sluice") -> None:
        self._redis = redis.Redis.from_url(
            broker_url,
            socket_timeout=BROKER_TIMEOUT_SECONDS,
            socket_connect_timeout=BROKER_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 1),  # a connection that lay in the pool while the broker was restarted
        )
        self._prefix = f"{key_prefix}:robots"

    def recall(self, origin: str) -> tuple[RobotsAnswer, float] | None:
        """See `RobotsStore`."""
        try:
            with self._redis.pipeline(transaction=True) as both:
                both.get(self._key(origin))
                both.pttl(self._key(origin))
                value, left_ms = both.execute()
        except redis.RedisError:
            return None
        answer = _decoded(value) if isinstance(value, bytes) and left_ms > 0 else None
        return None if answer is None else (answer, left_ms / 1_000)

    def keep(self, origin: str, answer: RobotsAnswer, seconds: float) -> None:
        """See `RobotsStore`."""
        value = _encoded(answer)
        if len(value) <= MAX_STORED_BYTES:
            with contextlib.suppress(redis.RedisError):
                self._redis.set(self._key(origin), value, px=max(1, int(seconds * 1_000)))

    def close(self) -> None:
        """Close the connections to the broker."""
        self._redis.close()

    def _key(self, origin: str) -> str:
        return f"{self._prefix}:{origin}"


def _encoded(answer: RobotsAnswer) -> bytes:
    head = json.dumps({"outcome": answer.outcome, "reason": answer.reason})
    return head.encode() + b"\n" + zstandard.ZstdCompressor().compress(answer.body)


def _decoded(value: bytes) -> RobotsAnswer | None:
    head, _, packed = value.partition(b"\n")
    try:
        facts = json.loads(head)
        outcome, reason = facts["outcome"], facts["reason"]
        if not 0 <= zstandard.frame_content_size(packed) <= MAX_ROBOTS_BYTES:
            return None  # it says how much it would unpack to, and no more is unpacked
        body = zstandard.ZstdDecompressor().decompress(packed)
    except (ValueError, KeyError, TypeError, zstandard.ZstdError):
        return None
    is_known = outcome in get_args(Outcome) and isinstance(reason, str)
    return RobotsAnswer(outcome, reason, body) if is_known else None
