"""Takes wake-ups out of the broker: no item of a queue can stop a worker, and no taken item can be lost.

The life of a raw item:

1. *Take.* `BLMOVE` moves it from the queue to the worker's own list of taken items, in one step of the broker. A worker
   that is killed at any moment leaves it there; once that worker gives no more signs of life, another one of the
   stage puts it back (`RedisWakeUps.put_back_orphans`).
2. *Admit.* Only a wake-up of this stage is admitted, and of it only the event id: we build the message that Celery
   gets, so no foreign header reaches it.
3. *Refuse.* Any other item moves to the stage's list of malformed items, again in one step, and from there into
   the ledger, as a dead letter (`RedisWakeUps.park_malformed`).
4. *Acknowledge.* The item is removed from the taken ones.

Stock kombu pops an item, and a worker that dies before it has stored it again loses it; an item that it cannot decode
ends the worker. It writes every message to a hash and a sorted set and removes it from both again, two transactions
that cost more than all the rest, and returns a dead worker's messages after `visibility_timeout`, an hour later.

This depends on kombu's inner workings, so it is used with the versions in `workers.broker.celery_app.VERIFIED_KOMBU`
and no others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from queue import Empty
from typing import Any, TypeVar, cast

import redis
import structlog
from kombu.transport import redis as stock
from kombu.transport import virtual

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import QUEUES
from sluice.workers.broker.keys import EXCHANGE, HANDLE_TASK, Keys, misplaced_key, wake_up_in

log = structlog.get_logger(__name__)

REFUSED_PAUSE_SECONDS = 1.0
"""Pause of a worker whose command the broker refused, before the next one."""

Result = TypeVar("Result")


@cache
def lua(name: str) -> str:
    """Return the script `workers/broker/lua/<name>.lua`, which the broker runs as one step."""
    return files("sluice.workers.broker").joinpath("lua", f"{name}.lua").read_text("utf-8")


def set_misplaced_aside(client: redis.Redis, instance: str, *lists: str) -> int:
    """Rename every key of the instance, and of `lists`, that holds the wrong type; return how many.

    Such a key makes every command on it fail for as long as it is there. Its value may be somebody's, so it is kept;
    the reconciler sends the wake-ups again that belong in the list.
    """
    kinds = Keys(instance).kinds() | dict.fromkeys(lists, "list")
    aside = {key: misplaced_key(key) for key in kinds}
    misplaced = client.eval(lua("set_misplaced_aside"), len(kinds), *kinds, *kinds.values(), *aside.values())
    for key in map(bytes.decode, cast(list[bytes], misplaced)):
        log.error("misplaced_key", key=key, wanted=kinds[key], kept_as=aside[key])
    return len(cast(list[bytes], misplaced))


class InFlightItems(virtual.QoS):  # type: ignore[misc]  # kombu is untyped
    """Items that a channel has taken and not acknowledged. The broker keeps the same in the list of taken items."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge, even if the broker is away: the item is put back then, and its wake-up has no effect."""
        try:
            self.channel.forget(self._delivered.get(delivery_tag))
        finally:
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Put the item back, or acknowledge it."""
        if requeue:
            super().reject(delivery_tag, requeue=True)
        else:
            self.ack(delivery_tag)


class WakeUpMessage(virtual.Message):  # type: ignore[misc]
    """A message whose body is decoded already, by the check that it is a wake-up."""

    def __init__(self, payload: dict[str, Any], **facts: Any) -> None:
        super().__init__(payload, **facts)
        self._decoded_cache = self.body


class Channel(stock.Channel):  # type: ignore[misc]
    """A channel that takes items as this module describes. It consumes from one queue at most."""

    QoS = InFlightItems
    Message = WakeUpMessage
    from_transport_options = (*stock.Channel.from_transport_options, "instance", "worker")

    instance = ""
    worker = ""
    """The name under which items are taken. A channel that only publishes needs none."""

    _stage = ""
    _tidy = False
    _client_of_kombu: redis.Redis | None = None
    _client_of_ours: redis.Redis | None = None

    def forget(self, message: Any) -> None:
        """Remove a message's item from the taken ones, unless closing put it back. Raises `redis.ConnectionError`."""
        if message is not None and not self.closed:
            self._mending(lambda: self._commands.lrem(self._taken, 1, message._raw["item"]), None)

    def basic_consume(self, queue: str, *arguments: Any, **named: Any) -> Any:
        """Begin to take items of this queue. Raises `InvalidInput` without a worker's name, or with a queue already."""
        if not self.worker:
            raise InvalidInput("worker", "a channel that consumes needs a name", "make_app(settings, worker=...)")
        if self._active_queues:
            raise InvalidInput("queue", f"this channel already takes from {self._active_queues[0]}", "open another")
        return super().basic_consume(queue, *arguments, **named)

    # -- kombu sends the broker a request for an item; when its socket is readable, it reads the answer --

    def _brpop_start(self, timeout: float | None = None) -> None:
        self._stage = self._active_queues[0]
        if self._mending(self._tidy_up, False):
            self._in_poll = self.client.connection
            self._brpop_sent_at = time.monotonic()
            wait = self.brpop_timeout if timeout is None else timeout
            self._in_poll.send_command("BLMOVE", self._queue, self._taken, "RIGHT", "LEFT", wait)

    def _brpop_read(self, **_: Any) -> bool:
        try:
            item = self._mending(self._answer, None)
            self.connection._deliver(self._admitted(item), self._stage)
            return True
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _get(self, queue: str) -> dict[str, Any]:
        raise NotImplementedError(f"wake-ups of {queue} are consumed, not fetched")

    def _answer(self) -> bytes | None:
        try:
            return cast("bytes | None", self.client.parse_response(self.client.connection, "BLMOVE"))
        except self.connection_errors:
            self.client.connection.disconnect()
            raise
        except redis.OutOfMemoryError:
            return self._take_from_a_full_broker()

    def _take_from_a_full_broker(self) -> bytes | None:
        item = self._commands.eval(lua("take_from_a_full_broker"), 2, self._queue, self._taken)
        if item is None:
            time.sleep(REFUSED_PAUSE_SECONDS)  # a broker that is not full would have waited for an item
        return cast("bytes | None", item)

    def _tidy_up(self) -> bool:
        """Put back the taken items that a lost connection, or a dead worker of the same name, left."""
        if not self._tidy:
            in_hand = {message._raw["item"] for message in self.qos._delivered.values()}
            for item in cast(list[bytes], self._commands.lrange(self._taken, 0, -1)):
                if item not in in_hand:
                    self._move(item, self._queue, "RPUSH")
            self._tidy = True
        return True

    def _admitted(self, item: bytes | None) -> dict[str, Any]:
        if item is None:
            raise Empty
        try:
            event_id = wake_up_in(item, self._stage)
        except InvalidInput as refusal:
            log.warning("item_refused", stage=self._stage, item_bytes=len(item), error=str(refusal))
            self._tidy = self._mending(lambda: self._move(item, self._malformed, "LPUSH"), False)
            raise Empty from None
        return _message(item, event_id, self._stage, f"{event_id}.{next(self._delivery_tags)}")

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        """Put a message's item back, as the next to be taken. If the broker is away, a later tidying does it."""
        try:
            self._move(message._raw["item"], self._queue, "RPUSH")
        except redis.RedisError as error:
            log.warning("put_back_failed", worker=self.worker, error=repr(error))

    def _on_connection_disconnect(self, connection: Any) -> None:
        self._tidy = False
        super()._on_connection_disconnect(connection)

    def _move(self, item: bytes, target: str, push: str) -> bool:
        self._commands.eval(lua("move"), 2, self._taken, target, item, push)
        return True

    # -- lookups and clients that stock kombu requests or builds anew for every message --

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:
        """Return the queue of a routing key. The bindings are code, so a broker that has lost them loses no message."""
        if exchange != EXCHANGE:
            return cast(list[str], super()._lookup(exchange, routing_key, default))
        stage = routing_key.partition(".")[0]
        return [stage] if stage in QUEUES else []

    def _create_client(self, asynchronous: bool = False) -> redis.Redis:
        if asynchronous:
            return cast(redis.Redis, super()._create_client(asynchronous=True))
        if self._client_of_kombu is None or self._client_of_kombu.connection_pool is not self.pool:
            self._client_of_kombu = cast(redis.Redis, super()._create_client())
        return self._client_of_kombu

    @property
    def _commands(self) -> redis.Redis:
        """A client that adds no prefix: `workers.broker.keys` returns whole keys."""
        if self._client_of_ours is None or self._client_of_ours.connection_pool is not self.pool:
            self._client_of_ours = redis.Redis(connection_pool=self.pool)
        return self._client_of_ours

    # -- a command that the broker refuses costs time but no worker --

    def _size(self, queue: str) -> int:
        return self._mending(lambda: cast(int, super(Channel, self)._size(queue)), 0)

    def _queue_bind(self, *binding: str) -> None:
        self._mending(lambda: super(Channel, self)._queue_bind(*binding), None)

    def _mending(self, command: Callable[[], Result], otherwise: Result) -> Result:
        try:
            return command()
        except redis.ReadOnlyError as error:
            raise redis.ConnectionError("the broker has become a replica") from error
        except redis.ResponseError as error:
            log.error("broker_refused", worker=self.worker, error=str(error))
            if not (str(error).startswith("WRONGTYPE") and self._set_misplaced_aside()):
                time.sleep(REFUSED_PAUSE_SECONDS)
            return otherwise

    def _set_misplaced_aside(self) -> bool:
        try:
            lists = [self._taken] if self.worker else []
            return set_misplaced_aside(self._commands, self.instance, *lists) > 0
        except redis.ResponseError as error:
            log.error("broker_refused", worker=self.worker, error=str(error))
            return False

    @property
    def _queue(self) -> str:
        return Keys(self.instance).queue(self._stage)

    @property
    def _taken(self) -> str:
        return Keys(self.instance).taken(self._stage, self.worker)

    @property
    def _malformed(self) -> str:
        return Keys(self.instance).malformed(self._stage)


class Transport(stock.Transport):  # type: ignore[misc]
    """Kombu's transport with our channel."""

    Channel = Channel


def _message(item: bytes, event_id: str, stage: str, tag: str) -> dict[str, Any]:
    """Build Celery's message (protocol 2) that runs the handling task for one wake-up, with the item to acknowledge."""
    return {
        "item": item,
        "headers": {"lang": "py", "task": HANDLE_TASK, "id": tag, "ignore_result": True},
        "properties": {"delivery_tag": tag, "delivery_info": {"exchange": EXCHANGE, "routing_key": f"{stage}.permit"}},
        "body": ([event_id], {}, {}),
    }
