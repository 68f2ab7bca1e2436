"""What can be done to the ledger, as values: the arguments of its methods, by which a law judges what they did.

`WatchedLedger` is the real ledger. It says which deed is under way, and calls its watcher after every transaction:
so that the laws can judge what it wrote, and because that is where others get their turn. A method of several
transactions can be interrupted between any two of them, or killed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sluice.contracts.event import Event, Next, Outcome, Queue
from sluice.ledger.events.outbox import wake_ups_of
from sluice.ledger.ledger import Claim, CreatedRun, Ledger, NewRun, NotClaimed, Settled, WakeUp


@dataclass(slots=True)
class Deed:
    """Something that is being done: how many transactions it has written, and which events they made ready."""

    commits: int = field(default=0, init=False)
    made_ready: list[str] = field(default_factory=list, init=False)


SomeDeed = TypeVar("SomeDeed", bound=Deed)
Result = TypeVar("Result")


@dataclass(slots=True)
class Begin(Deed):
    run: NewRun
    first: Sequence[tuple[Event, Next]]


@dataclass(slots=True)
class Add(Deed):
    event: Event
    dedupe_key: str | None


@dataclass(slots=True)
class Cancel(Deed):
    run_id: str


@dataclass(slots=True)
class PassDeadlines(Deed):
    pass


@dataclass(slots=True)
class Take(Deed):
    stage: Queue
    worker: str
    most_seconds: float
    alone: bool


@dataclass(slots=True)
class Beat(Deed):
    worker: str
    lease_seconds: float


@dataclass(slots=True)
class Settle(Deed):
    claim: Claim
    outcome: Outcome
    max_attempts: int


@dataclass(slots=True)
class Free(Deed):
    """`worker` None: whatever has a lease that ran out."""

    worker: str | None
    died: bool
    max_deliveries: int


@dataclass(slots=True)
class Wake(Deed):
    pass


@dataclass(slots=True)
class Pause(Deed):
    stage: Queue
    seconds: float | None
    operator: str | None


@dataclass(slots=True)
class Resume(Deed):
    stage: Queue
    operator: str | None


@dataclass(slots=True)
class Replay(Deed):
    letter_id: str
    force: bool


@dataclass(slots=True)
class Lease(Deed):
    name: str
    holder: str
    seconds: float


@dataclass(slots=True)
class GiveUp(Deed):
    name: str
    holder: str


class Watcher(Protocol):
    """Who looks on."""

    def wrote(self, deed: Deed) -> None:
        """A transaction of `deed` that may have written is over."""

    def seam(self) -> None:
        """A transaction is over, whichever."""

    def did(self, deed: Deed, result: object, announced: Sequence[WakeUp]) -> None:
        """`deed` is over, came to `result`, and has these wake-ups to be published."""


class WatchedLedger(Ledger):
    """The real ledger, watched."""

    watcher: Watcher

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        super().__init__(url, clock=clock)
        self._deeds: list[Deed] = []
        for name in ("writing", "holding", "reading"):
            setattr(self.database, name, self._with_seam(getattr(self.database, name), writes=name != "reading"))

    def create_run(self, run: NewRun, first: Sequence[tuple[Event, Next]]) -> CreatedRun:
        with self._doing(Begin(run, first)) as deed:
            created = super().create_run(run, first)
        return self._done(deed, created, wake_ups_of(created.events))

    def add_event(self, event: Event, *, dedupe_key: str | None = None) -> bool:
        with self._doing(Add(event, dedupe_key)) as deed:
            added = super().add_event(event, dedupe_key=dedupe_key)
        return self._done(deed, added, wake_ups_of([event]) if added else ())

    def cancel(self, run_id: str) -> tuple[Event, ...] | None:
        with self._doing(Cancel(run_id)) as deed:
            cancelled = super().cancel(run_id)
        return self._done(deed, cancelled, wake_ups_of(cancelled or ()))

    def direct_answer_at_deadline(self, now: float | None = None, *, most: int = 100) -> tuple[WakeUp, ...]:
        with self._doing(PassDeadlines()) as deed:
            wake_ups = super().direct_answer_at_deadline(now, most=most)
        return self._done(deed, wake_ups, wake_ups)

    def claim_next(self, stage: Queue, worker: str, most_seconds: float, *, alone: bool = True) -> Claim | NotClaimed:
        with self._doing(Take(stage, worker, most_seconds, alone)) as deed:
            claimed = super().claim_next(stage, worker, most_seconds, alone=alone)
        return self._done(deed, claimed, wake_ups_of(claimed.emitted) if isinstance(claimed, NotClaimed) else ())

    def beat(self, worker: str, lease_seconds: float) -> frozenset[tuple[str, int]]:
        with self._doing(Beat(worker, lease_seconds)) as deed:
            standing = super().beat(worker, lease_seconds)
        return self._done(deed, standing, ())

    def settle(
        self, claim: Claim, outcome: Outcome, *, traceparent: str | None = None, max_attempts: int = 10
    ) -> Settled:
        with self._doing(Settle(claim, outcome, max_attempts)) as deed:
            settled = super().settle(claim, outcome, traceparent=traceparent, max_attempts=max_attempts)
        return self._done(deed, settled, wake_ups_of(settled.emitted))

    def release(self, worker: str, *, max_deliveries: int = 3, died: bool = True) -> tuple[WakeUp, ...]:
        with self._doing(Free(worker, died, max_deliveries)) as deed:
            wake_ups = super().release(worker, max_deliveries=max_deliveries, died=died)
        return self._done(deed, wake_ups, wake_ups)

    def expire_leases(self, max_deliveries: int, *, most: int = 500) -> tuple[WakeUp, ...]:
        with self._doing(Free(None, True, max_deliveries)) as deed:
            wake_ups = super().expire_leases(max_deliveries, most=most)
        return self._done(deed, wake_ups, wake_ups)

    def wake_due_retries(self, *, most: int = 500) -> tuple[WakeUp, ...]:
        with self._doing(Wake()) as deed:
            wake_ups = super().wake_due_retries(most=most)
        return self._done(deed, wake_ups, wake_ups)

    def pause(self, stage: Queue, why: str, *, seconds: float | None = None, operator: str | None = None) -> bool:
        with self._doing(Pause(stage, seconds, operator)) as deed:
            paused = super().pause(stage, why, seconds=seconds, operator=operator)
        return self._done(deed, paused, ())

    def resume(self, stage: Queue, *, operator: str | None = None) -> bool:
        with self._doing(Resume(stage, operator)) as deed:
            resumed = super().resume(stage, operator=operator)
        return self._done(deed, resumed, ())

    def replay(self, letter_id: str, *, force: bool) -> Event:
        """`dead_letters.replay`."""
        with self._doing(Replay(letter_id, force)) as deed:
            event = self.dead_letters.replay(letter_id, "operator", force=force)
        return self._done(deed, event, wake_ups_of([event]))

    def lease(self, name: str, holder: str, seconds: float) -> bool:
        with self._doing(Lease(name, holder, seconds)) as deed:
            held = super().lease(name, holder, seconds)
        return self._done(deed, held, ())

    def give_up_lease(self, name: str, holder: str) -> None:
        with self._doing(GiveUp(name, holder)) as deed:
            super().give_up_lease(name, holder)
        self._done(deed, None, ())

    @contextmanager
    def _doing(self, deed: SomeDeed) -> Iterator[SomeDeed]:
        self._deeds.append(deed)
        try:
            yield deed
        finally:
            self._deeds.pop()

    def _done(self, deed: Deed, result: Result, announced: Sequence[WakeUp]) -> Result:
        self.watcher.did(deed, result, announced)
        return result

    def _with_seam(
        self, transaction: Callable[[], AbstractContextManager[Any]], *, writes: bool
    ) -> Callable[[], AbstractContextManager[Any]]:
        @contextmanager
        def watched() -> Iterator[Any]:
            with transaction() as connection:
                yield connection
            if writes and self._deeds:
                self.watcher.wrote(self._deeds[-1])
            self.watcher.seam()

        return watched
