"""The broker for what is good to know and never needed: where it does not answer, nothing is known.

Promises: no error of the broker leaves here, and one that is silent is waited for once in half a minute, so that it
never slows a crawl down.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

TIMEOUT_SECONDS = 0.5
"""Of one call: a broker that lives answers within a millisecond."""
PAUSE_SECONDS = 30.0
"""How long a broker that did not answer is not asked."""

_log = logging.getLogger(__name__)


class LenientBroker:
    """Runs Lua scripts in the broker at `broker_url`. Opened at first use; safe across threads."""

    def __init__(self, broker_url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis.Redis.from_url(
            broker_url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS, decode_responses=True
        )
        self._clock = clock
        self._silent_until = 0.0
        self._guard = threading.Lock()

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int | float]) -> Any:
        """What the script returns; None where the broker does not answer."""
        if self._clock() < self._silent_until:
            return None
        try:
            return self._redis.eval(script, len(keys), *keys, *arguments)
        except redis.RedisError as error:
            with self._guard:
                self._silent_until = self._clock() + PAUSE_SECONDS
            _log.warning("broker is not asked for %g s: %s", PAUSE_SECONDS, type(error).__name__)
            return None

    def close(self) -> None:
        """Close the connections to the broker."""
        self._redis.close()
