"""Messages in and out of the broker.

Publishing may fail: the caller's event is already a ledger row, so a broker that is away costs time
and never an event. Everything here has a time limit.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import cast

import redis
import structlog
from celery import Celery
from kombu.exceptions import KombuError

from contracts.base import Value
from contracts.errors import Unavailable
from contracts.event import QUEUES, Event, Queue
from contracts.retrieval import Query
from workers.app import HANDLE_TASK, make_app
from workers.keys import (
    PRESENCE_TTL_SECONDS,
    REPLY_TTL_SECONDS,
    announced_channel,
    bindings_key,
    presence_key,
    queue_key,
    reads_key,
    reply_key,
)
from workers.settings import Settings

log = structlog.get_logger(__name__)

LONGEST_BLOCK_SECONDS = 4.0
"""Below the socket's own time limit, so that an empty wait is not taken for a dead broker."""
PUBLISHERS = 10
"""Threads of a process that publish at once: as many as kombu keeps connections, for which it waits without limit."""
PUBLISHER_WAIT_SECONDS = 5.0
"""How long the next one waits for its turn, when all are busy with a broker that does not answer."""
SHORT_BLOCK_SECONDS = 1.0
"""How long a thread that serves waits at a time, and so how long it may take to notice that it should stop."""

BROKER_ERRORS = (KombuError, redis.RedisError, ConnectionError, TimeoutError, OSError)


class ReadRequest(Value):
    """One direct query on its way to the query pool."""

    reply_key: str
    expires_at: float
    traceparent: str | None
    query: Query


class Transport:
    """The broker as the rest of Sluice sees it. Safe across threads; make one per process."""

    def __init__(
        self, settings: Settings, app: Celery | None = None, *, publish_patience_seconds: float | None = None
    ) -> None:
        """With `publish_patience_seconds` a publish is tried once, and no longer than that."""
        self._instance = settings.instance
        self._app = app or make_app(settings, publish_patience_seconds)
        self._publishers = threading.BoundedSemaphore(PUBLISHERS)
        self._redis = redis.Redis.from_url(
            settings.broker_location, socket_timeout=5, socket_connect_timeout=2, health_check_interval=10
        )

    @property
    def app(self) -> Celery:
        """The Celery app that messages are sent with."""
        return self._app

    def publish(self, events: Iterable[Event]) -> int:
        """Put the events that have a queue on it; how many the broker took. The reconciler sends the rest later.

        A broker that has lost its bindings takes messages and drops them: only `queued_event_ids` knows.
        """
        sent = 0
        directed = [event for event in events if event.queue]
        if not directed:
            return sent
        if not self._publishers.acquire(timeout=PUBLISHER_WAIT_SECONDS):
            log.warning(
                "publish_failed", sent=sent, unsent=len(directed), error="the broker keeps every publisher busy"
            )
            return sent
        try:
            with self._app.producer_pool.acquire(block=True) as producer:
                for event in directed:
                    self._app.send_task(
                        HANDLE_TASK,
                        args=[event.id],
                        queue=event.queue,
                        routing_key=f"{event.queue}.{event.kind}",
                        headers={"run_id": event.run_id},
                        producer=producer,
                        ignore_result=True,
                    )
                    sent += 1
        except BROKER_ERRORS as error:
            log.warning("publish_failed", sent=sent, unsent=len(directed) - sent, error=repr(error))
        finally:
            self._publishers.release()
        return sent

    def announce(self, events: Sequence[Event]) -> None:
        """Tell whoever listens that these events were recorded. A lost announcement loses nothing."""
        try:
            pipe = self._redis.pipeline(transaction=False)
            for event in events:
                notice = {"run_id": event.run_id, "kind": event.kind, "corpus": event.corpus}
                pipe.publish(announced_channel(self._instance), json.dumps(notice))
            pipe.execute()
        except BROKER_ERRORS as error:
            log.debug("announce_failed", error=repr(error))

    def listen(self) -> redis.client.PubSub:
        """A subscription to announcements; whoever asked for it closes it."""
        subscription: redis.client.PubSub = self._redis.pubsub(ignore_subscribe_messages=True)
        subscription.subscribe(announced_channel(self._instance))
        return subscription

    def announcements(self, stopping: threading.Event) -> Iterator[dict[str, str]]:
        """What is announced from now on, until `stopping` is set.

        Raises:
            redis.RedisError: the broker was lost; begin again.
        """
        with closing(self.listen()) as subscription:
            while not stopping.is_set():
                message = subscription.get_message(timeout=SHORT_BLOCK_SECONDS)
                if message is not None:
                    yield json.loads(message["data"])

    def queued_event_ids(self, stage: Queue) -> set[str]:
        """The ids of the events that wait in a stage's queue.

        What was handed out and not acknowledged is left out on purpose: a living worker claims it
        within milliseconds, and a dead one never will.

        Raises:
            Unavailable: the broker does not answer.
        """
        try:
            queued = self._redis.lrange(queue_key(self._instance, stage), 0, -1)
        except BROKER_ERRORS as error:
            raise Unavailable(f"the broker does not answer: {error}") from error
        return {event_id for event_id in map(_event_id, queued) if event_id}

    def declare(self) -> None:
        """Make sure that every queue is bound to the exchange, also after the broker lost its memory."""
        if self._redis.scard(bindings_key(self._instance)) >= len(QUEUES):
            return
        with self._app.connection_for_write() as connection, connection.channel() as channel:
            for queue in self._app.conf.task_queues:
                queue(channel).declare()

    def send_read(self, query: Query, traceparent: str | None, timeout_seconds: float) -> str:
        """Put a direct query before the query pool; returns the key on which its reply will be put.

        Reads have a lane of their own: they need no delivery guarantee, so they pay for none, and they
        wait behind no event.
        """
        request = ReadRequest(
            reply_key=reply_key(self._instance, secrets.token_hex(12)),
            expires_at=time.time() + timeout_seconds,
            traceparent=traceparent,
            query=query,
        )
        lane = reads_key(self._instance)
        pipe = self._redis.pipeline(transaction=False)
        pipe.lpush(lane, request.model_dump_json())
        pipe.expire(lane, REPLY_TTL_SECONDS)
        pipe.execute()
        return request.reply_key

    def next_read(self) -> ReadRequest | None:
        """The read that has waited longest, once there is one; None when none came for a while, or it is too late."""
        taken = self._redis.brpop([reads_key(self._instance)], timeout=SHORT_BLOCK_SECONDS)
        if taken is None:
            return None
        request = ReadRequest.model_validate_json(taken[1])
        return request if request.expires_at > time.time() else None

    def reply(self, key: str, payload: bytes) -> None:
        """Answer a direct query."""
        pipe = self._redis.pipeline(transaction=False)
        pipe.lpush(key, payload)
        pipe.expire(key, REPLY_TTL_SECONDS)
        pipe.execute()

    def await_reply(self, key: str, timeout_seconds: float) -> bytes | None:
        """The reply to a direct query, or None when none came in time."""
        deadline = time.monotonic() + timeout_seconds
        while (left := deadline - time.monotonic()) > 0:
            answered = self._redis.blpop([key], timeout=min(left, LONGEST_BLOCK_SECONDS))
            if answered:
                return cast(bytes, answered[1])
        return None

    def say_present(self, stage: Queue, worker: str) -> None:
        """Say that a worker lives and listens; forgotten after `PRESENCE_TTL_SECONDS`.

        Raises:
            redis.RedisError: the broker does not answer.
        """
        self._redis.set(presence_key(self._instance, stage, worker), "1", ex=PRESENCE_TTL_SECONDS)

    def present_workers(self) -> dict[Queue, int]:
        """How many workers of each stage live.

        Raises:
            redis.RedisError: the broker does not answer.
        """
        counts = dict.fromkeys(QUEUES, 0)
        for stage in QUEUES:
            pattern = presence_key(self._instance, stage, "*")
            counts[stage] = sum(1 for _ in self._redis.scan_iter(match=pattern, count=1_000))
        return counts

    def ping(self) -> float:
        """Round trip to the broker in milliseconds.

        Raises:
            redis.RedisError: it does not answer.
        """
        started = time.perf_counter()
        self._redis.ping()
        return (time.perf_counter() - started) * 1e3

    def close(self) -> None:
        """Close every connection."""
        self._redis.close()
        self._app.close()


def _event_id(raw: bytes | str) -> str | None:
    """The event id inside a raw queue item, or None when it is not one of ours."""
    try:
        item = json.loads(raw)
        message = item[0] if isinstance(item, list) else item
        arguments = json.loads(base64.b64decode(message["body"]))[0]
        return str(arguments[0])
    except (ValueError, KeyError, IndexError, TypeError):
        return None
