"""Bugs to be planted in the real ledger, so that the state machine proves that it sees them.

Each is a mistake that somebody could make: a condition left out of a statement, two transactions where one belongs, a
counter that does not move. `BUGS` names them; the value patches the product for the length of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import bindparam, select, update

from sluice.contracts.event import Done, Event, Queue
from sluice.contracts.index import AnswerDirected
from sluice.ledger.events import attempts, beats, claims, finish, outbox, reservations, stages
from sluice.ledger.events import settle as settling
from sluice.ledger.events.outbox import Entry, WakeUp, write
from sluice.ledger.ledger import Claim, Ledger, Settled
from sluice.ledger.reader import Backlog
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import days, events, runs
from sluice.ledger.schema.tables import pauses as paused_stages
from sluice.ledger.transaction import Transaction
from sluice.workers.processes import reconciler

Bug = Callable[[], AbstractContextManager[Any]]

_IS_IT = events.c.id == bindparam("of_event")
_OF_RUN = events.c.run_id == bindparam("of_run")


def _settle_under_any_epoch() -> AbstractContextManager[Any]:
    return _before_settling(
        update(events).where(_IS_IT, events.c.status == "claimed").values(epoch=bindparam("at_epoch"))
    )


def _settle_what_was_freed() -> AbstractContextManager[Any]:
    own = (_IS_IT, events.c.epoch == bindparam("at_epoch"), events.c.status == "ready")
    return _before_settling(update(events).where(*own).values(status="claimed"))


def _before_settling(statement: Any) -> AbstractContextManager[Any]:
    original = settling.settle

    def settle(connection: Transaction, claim: Claim, *rest: Any) -> Settled:
        connection.execute(statement, {"of_event": claim.event.id, "at_epoch": claim.epoch})
        return original(connection, claim, *rest)

    return patch.object(settling, "settle", settle)


def _emit_in_a_second_transaction() -> AbstractContextManager[Any]:
    original = Ledger.settle

    def settle(self: Ledger, claim: Claim, outcome: Any, **facts: Any) -> Settled:
        if not isinstance(outcome, Done) or not outcome.emits:
            return original(self, claim, outcome, **facts)
        settled = original(self, claim, replace(outcome, emits=()), **facts)
        run_id, corpus = claim.event.run_id, claim.event.corpus
        made = [(Event.of(one.body, run_id=run_id, corpus=corpus), one) for one in outcome.emits]
        with self.database.writing() as connection:
            entries = [Entry(event, one.dedupe_key) for event, one in made]
            emitted = write(connection, take(connection, run_id), entries, self.clock())
        return replace(settled, emitted=(*settled.emitted, *emitted))

    return patch.object(Ledger, "settle", settle)


def _overlook_leases_that_ran_out() -> AbstractContextManager[Any]:
    return patch.object(beats, "of_silent", lambda *_: [])


def _count_no_death() -> AbstractContextManager[Any]:
    original = claims.free

    def free(*facts: Any, died: bool = True, **more: Any) -> Any:
        return original(*facts, died=False, **more)

    return patch.object(claims, "free", free)


def _announce_nothing_that_was_freed() -> AbstractContextManager[Any]:
    original = claims.free

    def free(*facts: Any, **more: Any) -> Any:
        original(*facts, **more)
        return []

    return patch.object(claims, "free", free)


def _hand_out_what_is_claimed() -> AbstractContextManager[Any]:
    in_hand_too = (events.c.queue == bindparam("of_queue"), events.c.status.in_(("ready", "claimed")))
    line = (events.c.priority, events.c.turn, events.c.seq)
    first = select(events.c.seq).where(*in_hand_too).order_by(*line).limit(1).scalar_subquery()
    taken = {"status": "claimed", "worker": bindparam("by_worker"), "due_at": bindparam("until")}
    taken |= {"ready_at": events.c.due_at, "claimed_at": bindparam("moment"), "claimed_by": bindparam("by_worker")}
    counted = {"epoch": events.c.epoch + 1, "deliveries": events.c.deliveries + 1}
    claim = update(events).where(events.c.seq == first, claims._RUNNING).values(**taken, **counted).returning(*events.c)
    return patch.object(claims, "_CLAIM", claim)


def _hand_suspects_to_anybody() -> AbstractContextManager[Any]:
    original = claims.take_next

    def take_next(*facts: Any, alone: bool, **more: Any) -> Any:
        return original(*facts, alone=True, **more)

    return patch.object(claims, "take_next", take_next)


def _forget_dedupe_keys() -> AbstractContextManager[Any]:
    original = outbox._row_of

    def row_of(*facts: Any) -> dict[str, Any]:
        return original(*facts) | {"dedupe_key": None}

    return patch.object(outbox, "_row_of", row_of)


def _keep_what_the_cancelled_reserved() -> AbstractContextManager[Any]:
    class Keeping(reservations.Balance):
        def free(self, event: Any) -> None:
            pass

    return patch.object(finish, "Balance", Keeping)


def _count_no_failed_event() -> AbstractContextManager[Any]:
    return patch.object(attempts, "count_retrying", lambda *_: None)


def _free_reservations_on_the_wrong_day() -> AbstractContextManager[Any]:
    original = reservations.Balance.carry_out

    def carry_out(self: reservations.Balance, connection: Transaction, run: Any, now: float) -> None:
        self.freed = [(reservations.today(now), amounts) for _, amounts in self.freed]
        original(self, connection, run, now)

    return patch.object(reservations.Balance, "carry_out", carry_out)


def _pass_the_ceiling_of_the_day() -> AbstractContextManager[Any]:
    most = dict.fromkeys(reservations.UNITS, reservations.NO_CEILING)
    return patch.object(reservations, "_HOLD_DAY", reservations._hold(days, "day", most))


def _close_while_retries_wait() -> AbstractContextManager[Any]:
    busy = events.c.status.in_(("ready", "claimed"))
    return patch.object(finish, "_ANY_OPEN", select(events.c.id).where(_OF_RUN, busy).limit(1))


def _answer_again_after_the_deadline() -> AbstractContextManager[Any]:
    original = finish._direct_answer

    def direct(connection: Transaction, run: Any, *told: Any) -> list[Event]:
        made = original(connection, run, *told)
        connection.update(runs, {"run_id": run.run_id}, {"status": run.status})
        return made

    return patch.object(finish, "_direct_answer", direct)


def _cancel_only_what_is_ready() -> AbstractContextManager[Any]:
    gone = {"status": "cancelled", "due_at": None, "reserved_on": None, "settled_at": bindparam("moment")}
    ready = update(events).where(_OF_RUN, events.c.status == "ready").values(**gone)
    return patch.object(finish, "_CANCEL", ready)


def _retry_without_a_moment() -> AbstractContextManager[Any]:
    original, forget = settling._wait, update(events).where(_IS_IT).values(due_at=None)

    def wait(connection: Transaction, claim: Claim, *facts: Any) -> Settled:
        settled = original(connection, claim, *facts)
        connection.execute(forget, {"of_event": claim.event.id})
        return settled

    return patch.object(settling, "_wait", wait)


def _wake_too_early() -> AbstractContextManager[Any]:
    wake = Ledger.wake_due_retries

    def wake_early(ledger: Ledger, **how: int) -> tuple[WakeUp, ...]:
        clock = ledger.clock
        with patch.object(ledger, "clock", lambda: clock() + 10.0):
            return wake(ledger, **how)

    return patch.object(Ledger, "wake_due_retries", wake_early)


def _keep_a_lost_claim_from_its_worker() -> AbstractContextManager[Any]:
    ever_its = select(events.c.id, events.c.epoch).where(events.c.claimed_by == bindparam("of_worker"))
    return patch.object(beats, "_STANDING", ever_its)


def _take_from_those_who_beat_meanwhile() -> AbstractContextManager[Any]:
    original = claims.free

    def free(*facts: Any, silent_since: float = 0.0, **more: Any) -> Any:
        return original(*facts, **more)

    return patch.object(claims, "free", free)


def _turns_stand_still() -> AbstractContextManager[Any]:
    return patch.multiple(outbox, take_turns=lambda _connection, queues, *_: [outbox.Place()] * len(queues))


def _let_nobody_go_first() -> AbstractContextManager[Any]:
    return patch.object(outbox, "priority_of", lambda *_: 0)


def _let_every_claim_probe() -> AbstractContextManager[Any]:
    due = (paused_stages.c.stage == bindparam("of_stage"), paused_stages.c.until <= bindparam("moment"))
    look = select(paused_stages.c.stage).where(*due)

    def let_probe_through(connection: Transaction, stage: Queue, now: float, _probe_seconds: float) -> bool:
        return connection.execute(look, {"of_stage": stage, "moment": now}).first() is not None

    return patch.object(stages, "let_probe_through", let_probe_through)


def _publish_to_empty_queues_only() -> AbstractContextManager[Any]:
    def missing(self: reconciler.Reconciler, stage: Queue, backlog: Backlog) -> int:
        return backlog.ready if self._queued(stage) == 0 else 0

    return patch.object(reconciler.Reconciler, "_missing", missing)


def _share_the_lease() -> AbstractContextManager[Any]:
    return patch.object(Ledger, "lease", lambda *_: True)


def _stay_closed_after_a_second_probe() -> AbstractContextManager[Any]:
    return patch.object(finish, "CoverageProbed", AnswerDirected)


BUGS: dict[str, Bug] = {
    "settling ignores the epoch": _settle_under_any_epoch,
    "what was freed can still be settled": _settle_what_was_freed,
    "what is emitted is written in a second transaction": _emit_in_a_second_transaction,
    "the reconciler overlooks leases that ran out": _overlook_leases_that_ran_out,
    "a worker's death is not counted": _count_no_death,
    "what was freed is not announced": _announce_nothing_that_was_freed,
    "a claimed event is handed out again": _hand_out_what_is_claimed,
    "suspects are handed to busy workers": _hand_suspects_to_anybody,
    "dedupe keys are forgotten": _forget_dedupe_keys,
    "what cancelled events reserved stays reserved": _keep_what_the_cancelled_reserved,
    "reservations are freed on the wrong day": _free_reservations_on_the_wrong_day,
    "a run does not count what failed": _count_no_failed_event,
    "the day's ceiling does not count": _pass_the_ceiling_of_the_day,
    "a run closes while a retry waits": _close_while_retries_wait,
    "a run is answered at its deadline and again when it closes": _answer_again_after_the_deadline,
    "a run stays closed after its second probe": _stay_closed_after_a_second_probe,
    "cancelling leaves what is claimed or waits": _cancel_only_what_is_ready,
    "a retry has no moment": _retry_without_a_moment,
    "retries are woken too early": _wake_too_early,
    "a worker does not learn that it lost a claim": _keep_a_lost_claim_from_its_worker,
    "a worker that beats again in time loses its claims": _take_from_those_who_beat_meanwhile,
    "turns stand still": _turns_stand_still,
    "interactive runs wait behind bulk ones": _let_nobody_go_first,
    "every claim of a paused stage is let through": _let_every_claim_probe,
    "wake-ups are replaced only when all are lost": _publish_to_empty_queues_only,
    "two reconcilers are active at once": _share_the_lease,
}
