"""Word of cancelled runs, from whoever cancels one to every process that may be working on it.

The ledger alone makes a cancellation true: it fences the claims, so nothing of the work counts any more. Word of it
only lets the work stop sooner than its next heartbeat would, and a word that is lost costs just that. It goes over a
channel of its own: every process listens, and would else have to read whatever is announced of any event.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property

import redis
import structlog

from sluice.contracts.errors import InvalidSetting
from sluice.workers.broker.keys import cancelled_channel
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

LISTEN_SECONDS = 0.2
"""For one word. A process that ends waits so long for its listener, and a pool's child may end after every event."""


class Cancellations:
    """Tells and hears of cancelled runs. Safe across threads; nothing is opened before the first word."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channel = cancelled_channel(settings.instance)

    @cached_property
    def _broker(self) -> redis.Redis:
        return redis.Redis.from_url(self._settings.broker_location, socket_timeout=5, socket_connect_timeout=2)

    def tell(self, run_id: str) -> None:
        """Tell every process that the run was cancelled. Without a broker there is nobody to tell."""
        try:
            self._broker.publish(self._channel, run_id)
        except (InvalidSetting, *BROKER_ERRORS) as error:
            log.info("cancellation_untold", run_id=run_id, error=repr(error))

    def heard(self, stopping: threading.Event) -> Iterator[str]:
        """The ids of the runs that are cancelled from now on, until `stopping` is set.

        Raises:
            redis.RedisError: the broker was lost; begin again.
        """
        with closing(self._broker.pubsub(ignore_subscribe_messages=True)) as subscription:
            subscription.subscribe(self._channel)
            while not stopping.is_set():
                message = subscription.get_message(timeout=LISTEN_SECONDS)
                if message is not None:
                    yield message["data"].decode("utf-8", "replace")

    def close(self) -> None:
        """Close every connection."""
        if "_broker" in self.__dict__:
            self._broker.close()
