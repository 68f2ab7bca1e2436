"""Messages in and out of the broker.

Publishing may fail: the caller's event is already a ledger row, so a broker that is away delays
an event but never loses it. Every call here has a time limit.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import cast

import redis
import structlog
from celery import Celery
from pydantic import ValidationError
from redis.backoff import NoBackoff
from redis.retry import Retry

from sluice.contracts.base import Value
from sluice.contracts.event import QUEUES, Event, Queue
from sluice.contracts.retrieval import Query
from sluice.ledger.events.outbox import WakeUp, wake_ups_of
from sluice.otel.context import messaging, span
from sluice.workers.broker.celery_app import make_app
from sluice.workers.broker.keys import (
    EMBEDDER_DOWN_TTL_SECONDS,
    PRESENCE_TTL_SECONDS,
    REPLY_TTL_SECONDS,
    SOCKET_TIMEOUT_SECONDS,
    Keys,
)
from sluice.workers.broker.wake_ups import BROKER_ERRORS as BROKER_ERRORS
from sluice.workers.broker.wake_ups import RedisWakeUps, WakeUps
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

LONGEST_BLOCK_SECONDS = 4.0
"""Below the socket's own time limit, so that an empty wait is not taken for a dead broker."""
PUBLISHERS = 10
"""Threads of a process that publish at once, each over a connection of its own."""
PUBLISHER_WAIT_SECONDS = 5.0
"""Time that a further thread waits for its turn, when all are busy with a broker that does not answer."""
SHORT_BLOCK_SECONDS = 1.0
"""Longest single wait of a serving thread, and so the time that it may take to notice that it should stop."""

LISTEN_SECONDS = 0.2
"""Longest wait for a cancelled run's id. A process that ends waits that long for its listener, and a pool's child may
end after every event."""
BATCH_WAKE_UPS = 1_000
"""Wake-ups that go to the broker in one round trip: about half a megabyte."""
NOTICE_FIELDS = ("run_id", "kind", "corpus")
"""Fields of an event in its announcement."""


class ReadRequest(Value):
    """One direct query on its way to the query pool."""

    reply_key: str
    expires_at: float
    traceparent: str | None
    query: Query

    @classmethod
    def of(cls, query: Query, instance: str, traceparent: str | None, timeout_seconds: float) -> ReadRequest:
        """Build a request whose caller waits that long for its reply."""
        return cls(
            reply_key=Keys(instance).reply(secrets.token_hex(12)),
            expires_at=time.time() + timeout_seconds,
            traceparent=traceparent,
            query=query,
        )

    @property
    def seconds_left(self) -> float:
        """Seconds that its caller still waits."""
        return self.expires_at - time.time()


class Transport:
    """The broker as the rest of Sluice sees it, or both where `wake_up_url` names another for the wake-ups.
    Thread-safe; make one per process.

    When the broker does not answer, a publish sends less and raises nothing; methods that inspect queues raise
    `Unavailable`; the others raise one of `BROKER_ERRORS`, and their caller begins again.
    """

    def __init__(self, settings: Settings, *, publish_patience_seconds: float | None = None) -> None:
        """With `publish_patience_seconds` a publish is tried once, and no longer than that."""
        self._settings, self._instance, self._keys = settings, settings.instance, Keys(settings.instance)
        self._tries = 2 if publish_patience_seconds is None else 1
        patience_seconds = publish_patience_seconds or SOCKET_TIMEOUT_SECONDS
        self.publishers = redis.BlockingConnectionPool.from_url(
            settings.broker_location,
            max_connections=PUBLISHERS,
            timeout=PUBLISHER_WAIT_SECONDS,
            socket_timeout=patience_seconds,
            socket_connect_timeout=min(5.0, patience_seconds),
            health_check_interval=10,
            retry=Retry(NoBackoff(), 0),
        )
        self._publishing = redis.Redis(connection_pool=self.publishers)
        self._redis = redis.Redis.from_url(
            settings.broker_location, socket_timeout=5, socket_connect_timeout=2, health_check_interval=10
        )
        self._lists = RedisWakeUps(self._redis, self._instance, lambda: self.app)
        self.wake_ups: WakeUps = self._lists
        if settings.wake_up_url:
            from sluice.workers.broker.rabbit import RabbitWakeUps  # spares others its library

            self.wake_ups = RabbitWakeUps(settings.wake_up_url, self._instance, patience_seconds, PUBLISHERS)

    @cached_property
    def app(self) -> Celery:
        """A Celery app of the same broker."""
        return make_app(self._settings)

    def publish(self, events: Sequence[Event]) -> int:
        """Put a wake-up for each event with a queue on it, and announce all; return how many the broker took."""
        wake_ups = wake_ups_of(events)
        stages = {one.stage for one in wake_ups}
        stage = stages.pop() if len(stages) == 1 else None
        facts = messaging("send", stage) | {"messaging.batch.message_count": len(wake_ups)}
        run_id = events[0].run_id if events else None
        with span(f"send {stage or 'events'}", kind="producer", run_id=run_id, attributes=facts):
            return self.publish_wake_ups(wake_ups, events)

    def publish_wake_ups(self, wake_ups: Sequence[WakeUp], recorded: Sequence[Event] = ()) -> int:
        """Put wake-ups on their queues; return how many the broker surely took. The reconciler sends the rest later.

        The last batch also announces the `recorded` events to listeners; a lost announcement loses nothing.
        A batch that failed half-way is sent again as a whole: a surplus wake-up has no effect.
        """
        batches = [wake_ups[at : at + BATCH_WAKE_UPS] for at in range(0, len(wake_ups), BATCH_WAKE_UPS)]
        batches = batches or ([()] if recorded else [])
        sent = failures = 0
        while batches and failures < self._tries:
            try:
                self._send(batches[0], recorded if len(batches) == 1 else ())
                sent += len(batches.pop(0))
            except BROKER_ERRORS as error:
                # The first failure may only show that the broker was restarted since this connection was used.
                failures += 1
                if failures == self._tries:
                    log.warning("publish_failed", sent=sent, unsent=len(wake_ups) - sent, error=repr(error))
        return sent

    def _send(self, wake_ups: Sequence[WakeUp], recorded: Sequence[Event]) -> None:
        """Send one batch, in one round trip."""
        pipe = self._publishing.pipeline(transaction=False)
        for event in recorded:
            notice = {name: getattr(event, name) for name in NOTICE_FIELDS}
            pipe.publish(self._keys.announced, json.dumps(notice))
        try:
            self.wake_ups.put(wake_ups, pipe)
        finally:
            pipe.execute()

    def announce(self, events: Sequence[Event]) -> None:
        """Announce recorded events to listeners. A lost announcement loses nothing."""
        self.publish_wake_ups((), events)

    def listen(self) -> redis.client.PubSub:
        """Return a subscription to announcements; the caller closes it."""
        subscription: redis.client.PubSub = self._redis.pubsub(ignore_subscribe_messages=True)
        subscription.subscribe(self._keys.announced)
        return subscription

    def announcements(self, stopping: threading.Event) -> Iterator[dict[str, str]]:
        """Yield the announcements from now on, until `stopping` is set."""
        with closing(self.listen()) as subscription:
            while not stopping.is_set():
                message = subscription.get_message(timeout=SHORT_BLOCK_SECONDS)
                notice = _notice(message["data"]) if message else None
                if notice is not None:
                    yield notice

    def tell_cancelled(self, run_id: str) -> None:
        """Tell every process that may be working on the run that it was cancelled.

        The ledger alone makes a cancellation true: it fences the claims, so their work no longer counts. This message
        only stops the work sooner than its next heartbeat would; losing it costs no more than that delay. It
        has a channel of its own: every process listens, and would otherwise have to read every announcement.
        """
        try:
            self._redis.publish(self._keys.cancelled, run_id)
        except BROKER_ERRORS as error:
            log.info("cancellation_untold", run_id=run_id, error=repr(error))

    def cancelled_runs(self, stopping: threading.Event) -> Iterator[str]:
        """Yield the ids of the runs that are cancelled from now on, until `stopping` is set."""
        with closing(self._redis.pubsub(ignore_subscribe_messages=True)) as subscription:
            subscription.subscribe(self._keys.cancelled)
            while not stopping.is_set():
                message = subscription.get_message(timeout=LISTEN_SECONDS)
                if message is not None:
                    yield message["data"].decode("utf-8", "replace")

    def queued(self, stage: Queue) -> int:
        """Count the wake-ups in a stage's queue. Raises `Unavailable` if the broker does not answer."""
        return self.wake_ups.depth(stage)

    def declare(self) -> None:
        """Make sure that every queue exists, also after the broker lost its memory."""
        self.wake_ups.declare()

    def send_read(self, query: Query, traceparent: str | None, timeout_seconds: float) -> str:
        """Send a direct query to the query pool; return the key on which its reply will be put.

        Reads have a list of their own: they need no delivery guarantee, so they pay for none, and they
        wait behind no event.
        """
        request = ReadRequest.of(query, self._instance, traceparent, timeout_seconds)
        self._push(self._keys.reads, request.model_dump_json())
        return request.reply_key

    def _push(self, key: str, item: str | bytes, *, as_next: bool = False) -> None:
        """Put an item on a list that expires after `REPLY_TTL_SECONDS`; `as_next`: as the next one to be taken."""
        pipe = self._redis.pipeline(transaction=False)
        (pipe.rpush if as_next else pipe.lpush)(key, item)
        pipe.expire(key, REPLY_TTL_SECONDS)
        pipe.execute()

    def put_back_read(self, request: ReadRequest) -> None:
        """Return a taken direct query to the query pool, as the next one."""
        self._push(self._keys.reads, request.model_dump_json(), as_next=True)

    def next_read(self) -> ReadRequest | None:
        """Wait for the oldest read; None when none came within `SHORT_BLOCK_SECONDS`, or it has expired."""
        lane = self._keys.reads
        taken = self._lists.ask(lambda: self._redis.brpop([lane], timeout=SHORT_BLOCK_SECONDS), None)
        return _read_request(cast(bytes, taken[1])) if taken else None

    def reply(self, key: str, payload: bytes) -> None:
        """Answer a direct query."""
        self._push(key, payload)

    def await_reply(self, key: str, timeout_seconds: float) -> bytes | None:
        """Return the reply to a direct query, or None when none came in time."""
        deadline = time.monotonic() + timeout_seconds
        while (left := deadline - time.monotonic()) > 0:
            answered = self._redis.blpop([key], timeout=min(left, LONGEST_BLOCK_SECONDS))
            if answered:
                return cast(bytes, answered[1])
        return None

    def say_present(self, stage: Queue, worker: str, at_once: int = 1) -> None:
        """Announce that a worker lives and handles `at_once` events at once; expires after `PRESENCE_TTL_SECONDS`."""
        self._redis.set(self._keys.presence(stage, worker), str(at_once), ex=PRESENCE_TTL_SECONDS)

    def say_gone(self, stage: Queue, worker: str) -> None:
        """Take back that a worker lives, as it ends."""
        self._redis.delete(self._keys.presence(stage, worker))

    def present_workers(self) -> dict[Queue, int]:
        """Count the living workers of each stage."""
        return {stage: len(self._present(stage)) for stage in QUEUES}

    def is_served(self, stage: Queue) -> bool:
        """Return whether the stage has a living worker."""
        return bool(self._present(stage))

    def handled_at_once(self) -> dict[Queue, int]:
        """Sum up how many events the living workers of each stage handle at once."""
        sizes = {stage: self._redis.mget(keys) if (keys := self._present(stage)) else [] for stage in QUEUES}
        return {stage: sum(int(size or 0) for size in cast("list[bytes | None]", sizes[stage])) for stage in QUEUES}

    def _present(self, stage: Queue) -> list[bytes]:
        return list(self._redis.scan_iter(match=self._keys.presence(stage, "*"), count=1_000))

    def say_embedder_down(self, why: str) -> None:
        """Report that the embedding model is out of reach; expires after `EMBEDDER_DOWN_TTL_SECONDS`."""
        self._redis.set(self._keys.embedder_down, why, ex=EMBEDDER_DOWN_TTL_SECONDS)

    def embedder_down(self) -> str | None:
        """Return why the embedding model is out of reach, as a worker reported lately; None if it is not."""
        why = cast("bytes | None", self._redis.get(self._keys.embedder_down))
        return None if why is None else why.decode()

    def ping(self) -> float:
        """Return the round trip to Redis or Valkey in milliseconds."""
        started = time.perf_counter()
        self._redis.ping()
        return (time.perf_counter() - started) * 1e3

    def close(self) -> None:
        """Close every connection."""
        self.wake_ups.close()
        self._redis.close()
        self._publishing.close()
        self.publishers.disconnect()
        if "app" in vars(self):
            self.app.close()


def _read_request(item: bytes) -> ReadRequest | None:
    try:
        request = ReadRequest.model_validate_json(item)
    except ValidationError as error:
        log.warning("read_malformed", item_bytes=len(item), errors=error.error_count())
        return None
    return request if request.expires_at > time.time() else None


def _notice(data: bytes) -> dict[str, str] | None:
    try:
        notice = json.loads(data)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(notice, dict) and all(isinstance(notice.get(name), str) for name in NOTICE_FIELDS)
    return notice if is_ours else None
