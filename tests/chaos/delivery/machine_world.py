"""A small world around the real ledger: a broker that fails, workers that die half-way, reconcilers, an operator.

A worker's life of an event is that of `workers/task.py`, cut into the steps between which a process may die: it has
received a wake-up, claimed an event, handled it, settled it, judged its stage, published what came of it; then it
acknowledges. Each step is a method call here, so that any order of the steps of all workers can be tried, and any
worker can stop for good after any of them.

After every transaction the laws are judged (`machine_laws`, `machine_turns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Literal, TypeVar

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.errors import BudgetExhausted, Conflict, Fenced, Unavailable
from sluice.contracts.event import Body, DeadLetter, Discard, Done, Event, Gap, Next, Outcome, Queue, Retry, new_run_id
from sluice.contracts.gate import CoverageProbed, FeedbackGiven, GateRequested
from sluice.contracts.index import AnswerDirected, DocumentIndexed, SnapshotPublished
from sluice.ledger.events.outbox import wake_ups_of
from sluice.ledger.ledger import PROBE_SECONDS, Claim, NewRun, NotClaimed, WakeUp
from sluice.workers.processes.reconciler import REPUBLISH_AFTER_SECONDS, Reconciled, Reconciler
from sluice.workers.settings import DeliverySettings
from tests.chaos.delivery.machine_broker import Broker
from tests.chaos.delivery.machine_deeds import Begin, Deed, Replay, Settle, WatchedLedger
from tests.chaos.delivery.machine_laws import Memory, demand, fits, is_lost, judge_change, judge_result, judge_state
from tests.chaos.delivery.machine_state import OPEN, Connection, EventRow, State, look
from tests.chaos.delivery.machine_turns import Turns
from tests.support.ledger_story import Clock, answer, page

STAGES: tuple[Queue, ...] = ("query", "crawl", "index", "gate")
"""Those that the events of this world need."""
THREADS = 2
"""Of each worker process. There are two processes for each stage."""
MAX_ATTEMPTS = 3
COSTS: dict[str, Spend] = {
    "nothing": Spend(),
    "a page": Spend(pages=1, bytes=40),
    "two pages": Spend(pages=2, bytes=100),
    "a search": Spend(usd=0.25, milliseconds=2.0),
    "an embedding": Spend(usd=0.2, tokens=7),
}
CEILINGS: dict[str, Ceilings] = {
    "none": Ceilings(),
    "of the run": Ceilings(run=Ceiling(pages=3, usd=0.5)),
    "of both": Ceilings(run=Ceiling(bytes=150, milliseconds=4.0), day=Ceiling(pages=4)),
    "of the day": Ceilings(day=Ceiling(pages=3, usd=0.5, tokens=20)),
}
HEALING_ROUNDS = 80
"""Far more than any backlog here needs: a retry is due after 20 s at most, a claim ends 30 s after its worker's last beat, a
round is 3 s."""
MOST_SECONDS = 120.0
"""How long a claim may stand while its worker beats."""

_names = count(1)
Verb = Literal["done", "retry", "discard", "fail", "probe again"]
Thing = TypeVar("Thing")


class Killed(BaseException):
    """The process that was at work was killed."""


@dataclass(frozen=True, slots=True)
class Emit:
    """What a handler emits. `number` tells pages apart; with `keyed`, a second of the same number is dropped.

    `reserve` is one of `COSTS`.
    """

    what: Literal["page", "document", "snapshot"]
    number: int = 0
    keyed: bool = False
    reserve: str | None = None

    def next(self) -> Next:
        """The same as a handler says it."""
        reserve = COSTS[self.reserve] if self.reserve else None
        return Next(self._body(), f"{self.what}:{self.number}" if self.keyed else None, reserve)

    def _body(self) -> Body:
        match self.what:
            case "page":
                return page(self.number)
            case "document":
                return DocumentIndexed(document_ids=("d",), chunk_count=1, journal_offset=self.number)
            case "snapshot":
                return SnapshotPublished(generation="g", journal_offset=0, document_count=1, chunk_count=1)


@dataclass(frozen=True, slots=True)
class Intent:
    """How a handler means to end."""

    verb: Verb = "done"
    emits: tuple[Emit, ...] = ()
    spend: str = "nothing"
    gaps: int = 0
    retry_seconds: float = 1.0

    def outcome(self, event: Event) -> Outcome:
        """The outcome for this event. Whoever is to answer answers, and emits nothing else."""
        match self.verb:
            case "retry":
                return Retry(self.retry_seconds, "503")
            case "discard":
                return Discard("not wanted")
            case "fail":
                return DeadLetter("malformed")
        if event.kind == AnswerDirected.kind and self.verb == "probe again":
            probe = CoverageProbed(
                generation="g", model_fingerprint="m", probed_at=event.occurred_at, abstained="nothing was found"
            )
            return Done(emits=(Next(probe),), spend=COSTS[self.spend])
        if event.kind == AnswerDirected.kind:
            return Done(emits=(Next(answer()),), spend=COSTS[self.spend])
        gap = Gap(stage="crawl", subject="a page", reason="robots")
        return Done(tuple(emit.next() for emit in self.emits), (gap,) * self.gaps, COSTS[self.spend])


@dataclass(slots=True, eq=False)
class Hand:
    """A thread of a worker with a wake-up in it, and how far it has come."""

    process: Process
    wake_up: WakeUp
    step: Literal["received", "claimed", "handled", "settled", "judged", "published"] = "received"
    claim: Claim | None = None
    outcome: Outcome | None = None
    emitted: tuple[Event, ...] = ()
    wants_alone: bool = False
    """It was told that a suspect waits, and waits itself until the others of its process are done."""
    is_alone: bool = False


@dataclass(slots=True, eq=False)
class Process:
    """A worker process of a stage."""

    stage: Queue
    name: str
    hands: list[Hand] = field(default_factory=list)

    @property
    def takes_more(self) -> bool:
        """Whether a thread is free to begin, as `Isolation` sees it."""
        return len(self.hands) < THREADS and not any(hand.wants_alone or hand.is_alone for hand in self.hands)

    def others(self, hand: Hand) -> list[Hand]:
        """The threads that have something in hand beside this one."""
        return [one for one in self.hands if one is not hand and one.step != "received"]


@dataclass
class Seam:
    """Something that happens at the `at`-th seam between transactions from now on, once."""

    at: int
    happens: Callable[[], None]


class World:
    """Everything, and what can happen to it. `reached` counts what did."""

    def __init__(self, ledger: WatchedLedger, clock: Clock, connection: Connection) -> None:
        """`ledger` is empty, and `connection` looks at its database."""
        self.ledger, self.clock, self._connection = ledger, clock, connection
        self.ledger.watcher = self
        self.state = look(connection)
        self.broker, self.settings = Broker(), DeliverySettings()
        self.turns, self._memory = Turns(), Memory()
        self.reached = Counter[str]()
        self.processes = [self._new_process(stage) for stage in STAGES for _ in range(2)]
        self.reconcilers = [self._new_reconciler() for _ in range(2)]
        self.gone: list[tuple[str, bool]] = []
        """Processes that are no more and whose claims nobody has freed: their names, and whether they died."""
        self.claims: list[Claim] = []
        self._before: dict[int, State] = {}
        self._seam: Seam | None = None

    # -- whoever looks on

    def wrote(self, deed: Deed) -> None:
        """Judge what a transaction did."""
        before = self.state
        self.state = look(self._connection, before)
        deed.commits += 1
        deed.made_ready += [row.id for row in self.state.ready() if not _was_ready(before, row.id)]
        now = self.clock.now
        judge_change(before, self.state, deed, now)
        self._memory.judge(before, self.state, deed, now)
        self.turns.judge(before, self.state, deed)
        judge_state(before, self.state)
        self._before[id(deed)] = before
        self.reached["transactions"] += 1

    def seam(self) -> None:
        """Let happen what was meant to happen between two transactions."""
        if self._seam is None:
            return
        self._seam.at -= 1
        if self._seam.at <= 0:
            seam, self._seam = self._seam, None
            self.reached["seams"] += 1
            seam.happens()

    def did(self, deed: Deed, result: object, announced: Sequence[WakeUp]) -> None:
        """Judge what a deed says of itself."""
        before = self._before.pop(id(deed), self.state)
        judge_result(before, self.state, deed, result, announced, self.clock.now)

    # -- whoever asks for something

    def begin(
        self,
        kind: Literal["gate", "crawl"],
        first: Sequence[Emit],
        *,
        owner: str,
        corpus: str,
        ceilings: str,
        deadline_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Begin a run and publish its first events."""
        run_id = new_run_id()
        given = [Next(GateRequested(query="what is a lease?"))] if kind == "gate" else [one.next() for one in first]
        events = [(Event.of(one.body, run_id=run_id, corpus=corpus), one) for one in given]
        deadline = None if deadline_seconds is None else datetime.fromtimestamp(self.clock.now + deadline_seconds, UTC)
        run = NewRun(
            run_id=run_id,
            kind=kind,
            corpus=corpus,
            request_sha256=f"{len(given):064}",
            owner=owner,
            idempotency_key=idempotency_key,
            deadline_at=deadline,
            ceilings=CEILINGS[ceilings],
        )
        try:
            created = self.ledger.create_run(run, events)
        except BudgetExhausted:
            self._refused_rightly(Begin(run, events))
        except Conflict:
            known = [one for one in self.state.runs.values() if one.idempotency_key == idempotency_key]
            other = [one for one in known if one.owner == owner and one.request_sha256 != run.request_sha256]
            demand(bool(other), "only a key that was used for another request is in conflict", known)
            self.reached["conflicts"] += 1
        else:
            self.reached["repeated requests"] += not created.created
            self.broker.publish(wake_ups_of(created.events))

    def feed_back(self, pick: int, key: str | None) -> None:
        """Say what became of a run's answer."""
        run = _chosen(list(self.state.runs.values()), pick)
        event = Event.of(FeedbackGiven(), run_id=run.run_id, corpus=run.corpus)
        if self.ledger.add_event(event, dedupe_key=key):
            self.broker.publish(wake_ups_of([event]))

    def cancel(self, pick: int) -> None:
        """Cancel a run."""
        run = _chosen(list(self.state.runs.values()), pick)
        self.ledger.cancel(run.run_id)
        self.reached["cancellations"] += 1

    # -- whoever works

    def receive(self, stage: Queue, pick: int) -> Hand | None:
        """Let a worker of the stage take a wake-up; what it holds then, if it could take one."""
        free = [process for process in self.processes if process.stage == stage and process.takes_more]
        wake_up = self.broker.hand_out(stage) if free else None
        if wake_up is None:
            return None
        process = _chosen(free, pick)
        hand = Hand(process, wake_up)
        process.hands.append(hand)
        return hand

    @property
    def stages_with_wake_ups(self) -> list[Queue]:
        """Where there is something to receive, as far as the broker can be reached."""
        return [] if self.broker.is_away else [stage for stage in STAGES if self.broker.queues[stage]]

    @property
    def hands(self) -> list[Hand]:
        """Every thread that has a wake-up."""
        return [hand for process in self.processes for hand in process.hands]

    def go_on(self, hand: Hand, intent: Intent, steps: int) -> None:
        """Take so many steps, or as many as are left."""
        for _ in range(steps):
            if hand in hand.process.hands:
                self._go_on(hand, intent)

    def finish(self, hand: Hand, intent: Intent) -> None:
        """Take every step that is left. A thread that waits until it is alone keeps waiting."""
        while hand in hand.process.hands and not (hand.wants_alone and hand.process.others(hand)):
            self._go_on(hand, intent)

    def beat(self, hand: Hand) -> None:
        """Let the process of a thread that has something in hand say that it lives."""
        if hand.claim is None or hand.step not in ("claimed", "handled"):
            return
        standing = self.ledger.beat(hand.process.name, self.settings.lease_seconds)
        if (hand.claim.event.id, hand.claim.epoch) not in standing:
            self._fenced_rightly(hand.claim)

    def haunt(self, pick: int, intent: Intent) -> None:
        """Let somebody who has held a claim, and was given up, try once more to make something of it."""
        lost = [claim for claim in self.claims if is_lost(claim, self.state)]
        taken_over = [claim for claim in lost if self.state.events[claim.event.id].status in OPEN]
        if not lost:
            return
        claim = _chosen(taken_over or lost, pick)
        standing = self.ledger.beat(claim.worker, self.settings.lease_seconds)
        demand((claim.event.id, claim.epoch) not in standing, "a lost claim is told to be lost", claim)
        try:
            self.ledger.settle(claim, intent.outcome(claim.event), max_attempts=MAX_ATTEMPTS)
        except Fenced:
            self.reached["ghosts"] += 1
            return
        except BudgetExhausted:  # it got further than it should
            pass
        demand(False, "what is done under a lost claim is fenced", claim)

    def end(self, process: Process, *, died: bool) -> None:
        """End a process. What it received is not acknowledged, and what it claimed is claimed until it is buried."""
        self.processes[self.processes.index(process)] = self._new_process(process.stage)
        self.gone.append((process.name, died))
        self.reached["deaths"] += died

    def bury(self, pick: int, seam: Seam | None = None) -> None:
        """Let the supervisor free what a process that is gone has held."""
        name, died = _chosen(self.gone, pick)
        most = self.settings.max_deliveries
        freed = self._interrupted(seam, lambda: self.ledger.release(name, died=died, max_deliveries=most))
        if freed is not None:
            self.gone.remove((name, died))
            self.broker.publish(freed)

    # -- whoever mends

    def tick(self, pick: int, seam: Seam | None = None) -> None:
        """Let a reconciler look once. One that is killed on the way is replaced."""
        which = pick % len(self.reconcilers)
        woken = Counter(row.queue for row in self.state.ready())
        queued = {stage: len(queue) for stage, queue in self.broker.queues.items()}
        try:
            done = self._interrupted(seam, self.reconcilers[which].tick)
        except Unavailable:
            demand(self.broker.is_away, "a reconciler that reaches everything does its work")
            return
        if done is None:
            self.reconcilers[which] = self._new_reconciler()
        elif done.active and seam is None and not self.broker.is_away:
            self._judge_queues(done, queued, woken)

    def step_down(self, pick: int) -> None:
        """Let a reconciler stop in an orderly way."""
        which = pick % len(self.reconcilers)
        self.reconcilers[which].stop()
        self.reconcilers[which] = self._new_reconciler()

    def pause(self, stage: Queue, *, by_operator: bool) -> None:
        """Let a stage rest: until an operator resumes it, or as the circuit breaker does."""
        if by_operator:
            self.ledger.pause(stage, "maintenance", operator="operator")
        else:
            self.ledger.pause(stage, "failing", seconds=PROBE_SECONDS)

    def resume(self, stage: Queue) -> None:
        """Let an operator end a stage's rest."""
        self.ledger.resume(stage, operator="operator")

    def replay(self, pick: int, *, force: bool) -> None:
        """Let an operator bring a dead letter back."""
        parked = [letter for letter in self.state.letters.values() if letter.status == "parked"]
        if not parked:
            return
        letter = _chosen(parked, pick)
        run = self.state.runs[self.state.events[str(letter.event_id)].run_id]
        try:
            event = self.ledger.replay(letter.id, force=force)
        except BudgetExhausted:
            self._refused_rightly(Replay(letter.id, force))
        except Conflict:
            refused = letter.replay_count >= 3 or run.status == "cancelled"
            demand(refused and not force, "a replay is refused after three, and in a cancelled run", letter, run)
        else:
            self.reached["replays"] += 1
            self.broker.publish(wake_ups_of([event]))

    # -- how it ends

    def heal(self) -> None:
        """No more faults: everything that is still to be done gets done, but for what an operator keeps resting."""
        self._seam = None
        self.broker.is_away, self.broker.room = False, None
        for _ in range(HEALING_ROUNDS):
            self.clock.passes(3.0)
            for which in range(len(self.reconcilers)):
                self.tick(which)
            self._work_everything_off()
            if not self._left_to_do() and not self.hands:
                break
        left = [row for row in self._left_to_do() if row.queue not in self._kept_resting()]
        demand(not left, "nothing stays open once the faults have stopped", left, self.state.pauses)
        demand(not self.hands, "nobody waits for ever", self.hands)

    def _work_everything_off(self) -> None:
        for hand in self.hands:
            self.finish(hand, Intent())
        for stage in STAGES:
            while (hand := self.receive(stage, 0)) is not None:
                self.finish(hand, Intent())

    def _left_to_do(self) -> list[EventRow]:
        return [row for row in self.state.open_events() if row.queue not in self._kept_resting()]

    def _kept_resting(self) -> set[Queue]:
        return {pause.stage for pause in self.state.pauses.values() if pause.operator is not None}

    # -- the steps of a worker

    def _go_on(self, hand: Hand, intent: Intent) -> None:
        match hand.step:
            case "received":
                self._claim(hand)
            case "claimed":
                assert hand.claim is not None
                hand.outcome, hand.step = intent.outcome(hand.claim.event), "handled"
            case "handled":
                self._settle(hand)
            case "settled":
                self._judge_stage(hand)
            case "judged":
                self.broker.publish(wake_ups_of(hand.emitted))
                hand.step = "published"
            case "published":
                self._let_go(hand)

    def _claim(self, hand: Hand) -> None:
        others = hand.process.others(hand)
        if hand.wants_alone and others:
            return
        process = hand.process
        self.ledger.beat(process.name, self.settings.lease_seconds)
        claimed = self.ledger.claim_next(process.stage, process.name, MOST_SECONDS, alone=hand.wants_alone)
        if isinstance(claimed, NotClaimed):
            if claimed.reason == "suspects_wait":
                hand.wants_alone = True
            else:
                self.broker.publish(wake_ups_of(claimed.emitted))
                self._let_go(hand)
            return
        demand(not claimed.deaths or not others, "what killed a worker takes no bystander with it", claimed)
        live = [one.claim for one in self.hands if one.claim and not is_lost(one.claim, self.state)]
        demand(claimed.event.id not in {one.event.id for one in live}, "nobody holds what another holds", claimed)
        self.claims.append(claimed)
        hand.claim, hand.step, hand.is_alone, hand.wants_alone = claimed, "claimed", hand.wants_alone, False
        self.reached["probes"] += claimed.is_probe
        self.reached["suspects"] += claimed.deaths > 0

    def _settle(self, hand: Hand) -> None:
        assert hand.claim is not None
        assert hand.outcome is not None
        try:
            settled = self.ledger.settle(hand.claim, hand.outcome, max_attempts=MAX_ATTEMPTS)
        except Fenced:
            self._fenced_rightly(hand.claim)
            self._let_go(hand)
        except BudgetExhausted as error:
            self._refused_rightly(Settle(hand.claim, hand.outcome, MAX_ATTEMPTS))
            hand.outcome = DeadLetter("policy", error)
        else:
            hand.emitted, hand.step = settled.emitted, "settled"
            self.reached["dropped"] += settled.dropped

    def _judge_stage(self, hand: Hand) -> None:
        assert hand.claim is not None
        if hand.claim.is_probe and isinstance(hand.outcome, (Done, Discard)):
            self.ledger.resume(hand.process.stage)
        hand.step = "judged"

    def _let_go(self, hand: Hand) -> None:
        hand.process.hands.remove(hand)
        self.broker.acknowledge(hand.wake_up)

    def _new_process(self, stage: Queue) -> Process:
        return Process(stage, f"{stage}-{next(_names)}")

    def _new_reconciler(self) -> Reconciler:
        return Reconciler(self.ledger, self.broker.publish, self.broker.queued, self.settings, self.clock)

    # -- what has to be true of what is refused, and of a reconciler's work

    def _fenced_rightly(self, claim: Claim) -> None:
        demand(is_lost(claim, self.state), "only a lost claim is fenced", claim)
        self.reached["fenced"] += 1

    def _refused_rightly(self, deed: Begin | Settle | Replay) -> None:
        demand(not fits(self.state, deed, self.clock.now), "what fits under the ceilings is not refused", deed)
        self.reached["refused by a ceiling"] += 1

    def _judge_queues(self, done: Reconciled, queued: dict[Queue, int], ready_before: Counter[Queue | None]) -> None:
        for stage in STAGES:
            ready, pause = self.state.ready(stage), self.state.pauses.get(stage)
            now, waiting = self.clock.now, len(self.broker.queues[stage])
            woken = max(0, len(ready) - ready_before[stage])
            demand(waiting <= max(queued[stage] + woken, len(ready)), "a reconciler floods no queue", stage, done)
            oldest = min((row.due_at or 0 for row in ready), default=now)
            if now - oldest < REPUBLISH_AFTER_SECONDS:
                continue
            if pause is None:
                demand(waiting >= len(ready), "there is a wake-up for everything ready", stage, waiting, ready)
            elif pause.until is not None and pause.until <= now:
                demand(waiting >= 1, "there is a wake-up for a probe", stage)

    def _interrupted(self, seam: Seam | None, doing: Callable[[], Thing]) -> Thing | None:
        """What `doing` returns; None when it was killed on the way."""
        self._seam = seam
        try:
            return doing()
        except Killed:
            self.reached["killed between transactions"] += 1
            return None
        finally:
            self._seam = None


def _chosen(many: Sequence[Thing], pick: int) -> Thing:
    return many[pick % len(many)]


def _was_ready(before: State, event_id: str) -> bool:
    row = before.events.get(event_id)
    return row is not None and row.status == "ready"
