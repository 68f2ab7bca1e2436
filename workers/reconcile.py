"""The reconciler: makes the broker's queues what the ledger says they should be, at every tick.

Promises: an open event that is neither queued nor claimed is published again, whatever became of its message, so the
queues heal even from an empty broker. Nothing here is taken from the broker on trust: publishing once too often is
harmless, because a claim is what lets an event be handled. One reconciler is active at a time, by a lease in the
ledger that another takes over soon after its holder died.

A tick, in order:

1. hold the lease, or do nothing;
2. free the claims whose lease ran out (their worker counts as dead) and publish those events;
3. make the retries ready whose time has come, and publish them;
4. direct the answers of runs whose deadline has passed;
5. of the events ready for longer than `republish_after_seconds`, oldest first and a batch per tick, publish those
   that their queue does not hold. The broker is asked only for queues that have such events.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.event import Event, Queue
from workers.ledger import Ledger
from workers.overdue import Waiting
from workers.settings import DeliverySettings

LEASE = "reconciler"
_BATCH = 5_000
"""Ready events looked at per tick: a flushed backlog of 20,000 is back in four ticks."""
_LEASE_TICKS = 4
"""Missed ticks after which a holder counts as dead: short of the 5 s in which a drained queue is to heal."""
_START = (0.0, 0)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one tick published, by cause. `active` is False when another reconciler holds the lease."""

    active: bool = True
    leases_expired: int = 0
    retries_due: int = 0
    deadlines: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """Events published by the tick."""
        return self.leases_expired + self.retries_due + self.deadlines + self.lost


class Reconciler:
    """Ticks of one process.

    `publish` sends events to their queues. `queued_event_ids` gives the ids that a worker will yet receive from a
    queue: those in its list, and those unacknowledged by workers that are alive. An id that only a dead worker's
    unacknowledged record holds must not be among them, or its event waits until the broker restores it.
    """

    def __init__(
        self,
        ledger: Ledger,
        publish: Callable[[Sequence[Event]], object],
        queued_event_ids: Callable[[Queue], set[str]],
        settings: DeliverySettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        self._publish = publish
        self._queued_event_ids = queued_event_ids
        self._settings = settings
        self._clock = clock
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._position = _START

    def tick(self) -> Reconciled:
        """Look once.

        Raises:
            Unavailable: the ledger or the broker does not answer. What was to be published stays ready, and a
                later tick finds it again.
        """
        if not self._ledger.lease(LEASE, self._holder, _LEASE_TICKS * self._settings.reconcile_seconds):
            self._position = _START
            return Reconciled(active=False)
        return Reconciled(
            leases_expired=self._send(self._ledger.expire_leases(self._settings.max_deliveries)),
            retries_due=self._send(self._ledger.wake_due_retries()),
            deadlines=self._send(self._ledger.direct_answer_at_deadline(self._clock())),
            lost=self._send(self._lost()),
        )

    def stop(self) -> None:
        """Let another reconciler take over at once."""
        self._ledger.give_up_lease(LEASE, self._holder)

    def _send(self, events: Sequence[Event]) -> int:
        queued = [event for event in events if event.queue is not None]
        if queued:
            self._publish(queued)
        return len(queued)

    def _lost(self) -> list[Event]:
        missing: list[str] = []
        for queue, waiting in self._overdue().items():
            held = self._queued_event_ids(queue)
            missing += [event.event_id for event in waiting if event.event_id not in held]
        return self._ledger.still_ready(missing)

    def _overdue(self) -> dict[Queue, list[Waiting]]:
        """The next batch of overdue events by queue. The position moves on, so that a long backlog hides nothing."""
        since = self._clock() - self._settings.republish_after_seconds
        batch = self._ledger.ready_since(since, self._position, _BATCH)
        self._position = batch[-1].position if len(batch) == _BATCH else _START
        by_queue: dict[Queue, list[Waiting]] = defaultdict(list)
        for waiting in batch:
            by_queue[waiting.queue].append(waiting)
        return by_queue
