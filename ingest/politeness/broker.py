"""Broker access for crawls and searches: connections with a time limit, keys under one prefix, Lua scripts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

TIMEOUT_SECONDS = 0.5
"""Time limit of one call: a healthy broker answers within a millisecond."""
PAUSE_SECONDS = 30.0
"""Pause after a call that the broker did not answer."""

_log = logging.getLogger(__name__)


@cache
def lua(name: str) -> str:
    """Return the script `ingest/politeness/lua/<name>.lua`, which the broker runs as one step."""
    return files("sluice.ingest.politeness").joinpath("lua", f"{name}.lua").read_text("utf-8")


class KeptInBroker:
    """Data kept in the broker at `broker_url`. Opened at first use; safe across threads and processes."""

    def __init__(self, broker_url: str, key_prefix: str, timeout_seconds: float, *, decodes: bool = False) -> None:
        self._redis = redis.Redis.from_url(
            broker_url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            decode_responses=decodes,
            retry=Retry(NoBackoff(), 1),  # for pooled connections that a restart of the broker broke
        )
        self._key_prefix = key_prefix

    def close(self) -> None:
        """Close the connections to the broker."""
        self._redis.close()

    def _key(self, *parts: str) -> str:
        return ":".join((self._key_prefix, *parts))


class LenientBroker(KeptInBroker):
    """Optional data: no error of the broker leaves here, and a silent broker is waited for seldom."""

    def __init__(
        self, broker_url: str, *, key_prefix: str = "sluice", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(broker_url, key_prefix, TIMEOUT_SECONDS, decodes=True)
        self._monotonic = clock
        self._silent_until = 0.0
        self._guard = threading.Lock()

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int | float]) -> Any:
        """Run a Lua script; return None if the broker does not answer."""
        if self._monotonic() < self._silent_until:
            return None
        try:
            return self._redis.eval(script, len(keys), *keys, *arguments)
        except redis.RedisError as error:
            with self._guard:
                self._silent_until = self._monotonic() + PAUSE_SECONDS
            _log.warning("broker is not asked for %g s: %s", PAUSE_SECONDS, type(error).__name__)
            return None
