"""Wake-ups on their way: what any broker that carries them can do, and how Redis or Valkey does it.

With `wake_up_url`, RabbitMQ carries them instead (`workers.broker.rabbit`). A worker takes and acknowledges them as
Celery does, through the kombu transport that `workers.broker.celery_app` names. What they promise together is tested by
one suite on each broker (`tests/integration/broker/test_wake_ups.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar, cast

import redis
import structlog
from celery import Celery
from kombu.exceptions import ChannelError, KombuError
from kombu.exceptions import ConnectionError as KombuConnectionError

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.contracts.event import QUEUES, DeadLetterReason, Queue
from sluice.ledger.events.outbox import WakeUp
from sluice.workers.broker.keys import PARKING_TTL_SECONDS, Keys, make_wake_up, reason_of, wake_up_in
from sluice.workers.broker.redis_channel import lua, set_misplaced_aside

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
Park = Callable[[bytes, DeadLetterReason, InvalidInput], object]
"""Stores an item that is no wake-up, with the reason."""

BROKER_ERRORS = (
    KombuError,
    KombuConnectionError,
    ChannelError,
    redis.RedisError,
    ConnectionError,
    TimeoutError,
    OSError,
)


class WakeUps(Protocol):
    """A broker that carries wake-ups. Thread-safe. It may lose or double any: the ledger alone says what is to be done.

    Methods raise `Unavailable` or one of `BROKER_ERRORS` while it does not answer.
    """

    def put(self, wake_ups: Sequence[WakeUp], pipe: redis.client.Pipeline) -> None:
        """Put a batch on its queues, oldest first. What goes to Redis joins the commands of `pipe`, which the caller
        sends; on any other broker it has arrived."""

    def depth(self, stage: Queue) -> int:
        """Count the wake-ups that wait in a stage's queue, without those that workers have taken."""

    def park_malformed(self, stage: Queue, park: Park) -> bool:
        """Hand the oldest malformed item of a stage to `park`, and remove it; False when there is none.

        If its worker dies before the item is removed, the item is parked twice. What `park` raises is raised; the item
        is still there then.
        """

    def put_back_orphans(self, stage: Queue, worker: str) -> int:
        """Put back what dead workers of a stage had taken, where the broker does not by itself; return how many.

        Registers `worker` as one that may take items, so that others put them back if it dies.
        """

    def declare(self) -> None:
        """Make sure that every queue exists, also after the broker lost its memory."""

    def close(self) -> None:
        """Close every connection of its own."""


def park_item(item: bytes, stage: Queue, park: Park, put_back: Callable[[str], object]) -> None:
    """Hand an item to `park` with the reason, or the id of its event to `put_back` if it is a wake-up after all: a
    worker of an older release did not recognise it."""
    try:
        event_id = wake_up_in(item, stage)
    except InvalidInput as refusal:
        park(item, reason_of(refusal), refusal)
    else:
        put_back(event_id)


class RedisWakeUps:
    """Lists of Redis or Valkey, from which `workers.broker.redis_channel` takes."""

    def __init__(self, client: redis.Redis, instance: str, app: Callable[[], Celery]) -> None:
        self._redis, self._instance, self._app, self._keys = client, instance, app, Keys(instance)

    def put(self, wake_ups: Sequence[WakeUp], pipe: redis.client.Pipeline) -> None:
        """Add a batch to the commands."""
        for stage, event_id in wake_ups:
            pipe.lpush(self._keys.queue(stage), make_wake_up(event_id, stage))

    def depth(self, stage: Queue) -> int:
        """Measure a stage's list."""
        return self.ask(lambda: int(self._redis.llen(self._keys.queue(stage))), 0)

    def park_malformed(self, stage: Queue, park: Park) -> bool:
        """One worker at a time does so."""
        malformed = self._keys.malformed(stage)
        turn = self._redis.lock(self._keys.parking(stage), timeout=PARKING_TTL_SECONDS, blocking=False)
        if not self.ask(lambda: self._redis.llen(malformed), 0) or not self.ask(turn.acquire, False):
            return False
        try:
            item = self.ask(lambda: cast("bytes | None", self._redis.lindex(malformed, -1)), None)
            if item is not None:
                queue, raw = self._keys.queue(stage), item
                park_item(item, stage, park, lambda _: self.ask(lambda: self._redis.lpush(queue, raw), 0))
                self.ask(lambda: self._redis.lrem(malformed, -1, cast(str, item)), 0)
            return item is not None
        finally:
            with suppress(*BROKER_ERRORS):
                turn.release()

    def put_back_orphans(self, stage: Queue, worker: str) -> int:
        """Go through the lists of taken items of workers that give no sign of life."""
        takers = self._keys.takers(stage)
        self.ask(lambda: self._redis.sadd(takers, worker), 0)
        known = self.ask(lambda: cast("set[bytes]", self._redis.smembers(takers)), set[bytes]())
        items = sum(self._put_back(stage, other) for other in known - {worker.encode()})
        if items:
            log.warning("orphans_put_back", stage=stage, items=items)
        return items

    def _put_back(self, stage: Queue, taker: bytes) -> int:
        name = taker.decode(errors="replace")
        keys = [self._keys.presence(stage, name), self._keys.taken(stage, name)]
        keys += [self._keys.queue(stage), self._keys.takers(stage)]
        return self.ask(
            lambda: int(cast(int, self._redis.eval(lua("put_back"), len(keys), *keys, cast(str, taker)))), 0
        )

    def declare(self) -> None:
        """Bind every queue. Our own channel knows the bindings by itself; other clients, and stock kombu, read them
        here."""
        try:
            if int(self._redis.scard(self._keys.bindings)) >= len(QUEUES):
                return
        except redis.ResponseError as error:
            if not self._has_mended(error):
                raise
        app = self._app()
        with app.connection_for_write() as connection, connection.channel() as channel:
            for queue in app.conf.task_queues:
                queue(channel).declare()

    def close(self) -> None:
        """The caller owns the client."""

    def ask(self, command: Callable[[], Result], otherwise: Result) -> Result:
        """Return Redis's answer to a command; `otherwise` when a key had the wrong type and was set aside."""
        try:
            return command()
        except BROKER_ERRORS as error:
            if self._has_mended(error):
                return otherwise
            raise Unavailable(f"the broker does not answer: {error}") from error

    def _has_mended(self, error: BaseException) -> bool:
        with suppress(*BROKER_ERRORS):
            return str(error).startswith("WRONGTYPE") and set_misplaced_aside(self._redis, self._instance) > 0
        return False
