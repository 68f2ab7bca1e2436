"""Lets one Celery worker take from the queues of several stages, each over a channel of its own.

A channel takes from one queue (`workers.broker.redis_channel`), and no more than its stage has threads, so that no
stage takes the threads of another. Celery's worker consumes the first stage; the others are a step of its start, which
it repeats whenever it connects anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog
from celery import Celery, bootsteps
from celery.worker.consumer.tasks import Tasks
from filelock import FileLock, Timeout

from sluice.contracts.event import Queue
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

STANDBY_SECONDS = 0.5
"""Between two tries of a process to be the one that indexes."""


class IndexTurn:
    """The right to index in a data directory, which one process has for as long as it lives."""

    def __init__(self, settings: Settings) -> None:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = settings.data_dir / "index-worker.lock"
        self._lock = FileLock(path, poll_interval=STANDBY_SECONDS, thread_local=False)
        self._waits = False

    def take(self, *, timeout_seconds: float = 0.0) -> bool:
        """Whether it is this process's turn; the first time that it is not is logged."""
        try:
            self._lock.acquire(timeout=timeout_seconds)
        except Timeout:
            if not self._waits:
                log.info("standing_by", stage="index")
            self._waits = True
        return self._lock.is_locked

    def wait(self) -> None:
        """Stand by until it is this process's turn."""
        self.take() or self.take(timeout_seconds=-1)

    def end(self) -> None:
        """Let another process have it."""
        self._lock.release(force=True)


def share_queues(app: Celery, sizes: Mapping[Queue, int], consumed: set[Queue], turn: IndexTurn | None) -> None:
    """Let the worker of `app` take from the queues of all stages of `sizes`, of each so many wake-ups at once.

    The first is the one that Celery consumes by itself. `consumed` names those that are taken from: not `index` before
    it is this process's `turn`.
    """
    first = next(iter(sizes))

    class Queues(bootsteps.StartStopStep):  # type: ignore[misc]  # celery is untyped
        """The channels of one connection."""

        requires = (Tasks,)

        def start(self, consumer: Any) -> None:
            self._channels: list[Any] = []
            consumer.connection.default_channel.basic_qos(0, sizes[first], False)
            consumed.clear()
            for stage in sizes:
                self._begin_in_turn(stage, consumer)

        def _begin_in_turn(self, stage: Queue, consumer: Any) -> None:
            if stage in consumed:  # by a start since this one
                return
            if stage != "index" or turn is None or turn.take():
                self._begin(stage, consumer)
            else:
                consumer.timer.call_after(STANDBY_SECONDS, self._begin_in_turn, (stage, consumer))

        def _begin(self, stage: Queue, consumer: Any) -> None:
            consumed.add(stage)
            if stage == first:
                return
            channel = consumer.connection.channel()
            self._channels.append(channel)
            channel.basic_qos(0, sizes[stage], False)
            queue = consumer.app.amqp.queues[stage]
            taking = consumer.app.amqp.TaskConsumer(channel, [queue], on_decode_error=consumer.on_decode_error)
            taking.on_message = consumer.create_task_handler()
            taking.consume()

        def stop(self, consumer: Any) -> None:
            for channel in self._channels:
                with suppress(*BROKER_ERRORS):
                    channel.close()

    app.conf.update(worker_enable_prefetch_count_reduction=False)  # it would raise what one channel takes to the sum
    app.steps["consumer"].add(Queues)
