"""A broker that does to its messages what brokers do: it loses them, doubles them, mixes them up, and goes away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import QUEUES, Queue
from sluice.ledger.ledger import WakeUp


@dataclass
class Broker:
    """A list of wake-ups per stage, and those that were received and not acknowledged."""

    queues: dict[Queue, list[WakeUp]] = field(default_factory=lambda: {stage: [] for stage in QUEUES})
    unacknowledged: list[WakeUp] = field(default_factory=list)
    is_away: bool = False
    room: int | None = None
    """How many wake-ups it takes before it goes away; None: as many as come."""

    def publish(self, wake_ups: Sequence[WakeUp]) -> None:
        """Take what there is room for. The rest is lost in silence, as it is with `Transport.publish_wake_ups`."""
        for wake_up in wake_ups:
            if self.room == 0:
                self.is_away, self.room = True, None
            if self.is_away:
                return
            if self.room is not None:
                self.room -= 1
            self.queues[wake_up.stage].append(wake_up)

    def queued(self, stage: Queue) -> int:
        """How many wake-ups wait for a stage.

        Raises:
            Unavailable: it is away.
        """
        if self.is_away:
            raise Unavailable("the broker does not answer")
        return len(self.queues[stage])

    def hand_out(self, stage: Queue) -> WakeUp | None:
        """The stage's next wake-up, from now on unacknowledged; None when there is none, or nobody can be reached."""
        if self.is_away or not self.queues[stage]:
            return None
        wake_up = self.queues[stage].pop(0)
        self.unacknowledged.append(wake_up)
        return wake_up

    def acknowledge(self, wake_up: WakeUp) -> None:
        """Forget a wake-up. One that it does not know any more, or hears of while it is away, is no matter."""
        if not self.is_away and wake_up in self.unacknowledged:
            self.unacknowledged.remove(wake_up)

    def lose(self, pick: int) -> None:
        """Forget one wake-up that waits."""
        waiting = [(stage, at) for stage, queue in self.queues.items() for at in range(len(queue))]
        if waiting:
            stage, at = waiting[pick % len(waiting)]
            del self.queues[stage][at]

    def lose_everything(self, _pick: int = 0) -> None:
        """FLUSHALL."""
        for queue in self.queues.values():
            queue.clear()
        self.unacknowledged.clear()

    def double(self, pick: int) -> None:
        """Bring one wake-up that waits twice."""
        waiting = [wake_up for queue in self.queues.values() for wake_up in queue]
        if waiting:
            again = waiting[pick % len(waiting)]
            self.queues[again.stage].append(again)

    def mix_up(self, pick: int) -> None:
        """Bring what waits in another order."""
        for queue in self.queues.values():
            Random(pick).shuffle(queue)

    def deliver_again(self, _pick: int = 0) -> None:
        """Take every wake-up that was not acknowledged for lost, and bring it again (the visibility time-out)."""
        for wake_up in self.unacknowledged:
            self.queues[wake_up.stage].append(wake_up)
        self.unacknowledged.clear()
