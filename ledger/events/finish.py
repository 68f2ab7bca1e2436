"""Ends a run.

A run has no counter of its events. The transaction that settles, parks or cancels an event holds the run's row, and
checks whether an open event is left. When none is:

1. a gate run without a directed answer gets its `AnswerDirected` (reason `closed`), which opens it once more;
2. any other run that is not finished gets its `RunFinished`.

Two short cuts: `AnswerReady` finishes its run at once, even while ingest goes on (it was answered at its deadline),
and the deadline directs an answer although events are open. A run ends once, and has one `AnswerDirected`, or two: an
answer that would cite nothing may give the gate a second probe in its place, which opens the run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from sqlalchemy import bindparam, func, select, update

from sluice.contracts.event import AFTERWARDS, Body, Event, Gap, GapFound, decode
from sluice.contracts.gate import CoverageProbed
from sluice.contracts.index import AnswerDirected, AnswerReady, RunFinished
from sluice.contracts.ingest import FilesReceived, PageRead, PageUnchanged, SiteMapped
from sluice.ledger.events import attempts
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.events.reservations import Balance, spend_in
from sluice.ledger.learning.outcome_rows import note_finished
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import IS_OPEN, AnyRow, dead_letters, events, runs
from sluice.ledger.transaction import Transaction

Maker = Callable[[Body], Event]
"""Puts a body in its envelope; it knows the run, corpus, cause and trace."""

UNFINISHED = ("open", "answering")
_OF_RUN = events.c.run_id == bindparam("of_run")
_ANY_OPEN = select(events.c.id).where(_OF_RUN, IS_OPEN, events.c.queue.not_in(sorted(AFTERWARDS))).limit(1)
_ANY_OPEN_AT_ALL = select(events.c.id).where(_OF_RUN, IS_OPEN).limit(1)
_OPEN = select(events).where(_OF_RUN, IS_OPEN)
_OF_KIND = select(events.c.payload).where(_OF_RUN, events.c.kind == bindparam("of_kind")).order_by(events.c.seq)
_SHOWN = (PageUnchanged.kind, PageRead.kind, SiteMapped.kind)
_ANY_OF = select(events.c.seq).where(_OF_RUN, events.c.kind.in_(_SHOWN)).limit(1)
_LETTER_EVENT = func.coalesce(dead_letters.c.replayed_as, dead_letters.c.event_id)
_REPLAYED = (
    select(dead_letters.c.event_id)
    .join(events, events.c.id == _LETTER_EVENT)
    .where(dead_letters.c.run_id == bindparam("of_run"), events.c.status == "settled")
)
"""The failed events of a run whose replay succeeded."""
_DUE = (
    select(runs.c.run_id)
    .where(runs.c.answer_due_at <= bindparam("moment"))
    .order_by(runs.c.answer_due_at)
    .limit(bindparam("most"))
)
_CANCEL = (
    update(events)
    .where(_OF_RUN, IS_OPEN)
    .values(status="cancelled", due_at=None, worker=None, reserved_on=None, settled_at=bindparam("moment"))
)


def close_if_done(
    connection: Transaction, run: AnyRow, emitted: Sequence[Event], make: Maker, now: float
) -> list[Event]:
    """Close the run if nothing is left open, and return the closing events; the caller holds its row."""
    if run.status == "failed":
        _mend(connection, run, emitted, now)
    if run.status not in UNFINISHED:
        return []
    for event in emitted:
        if isinstance(event.body, AnswerReady):
            return finish(connection, run, "finished", make, now, event.body)
        if run.status == "answering" and isinstance(event.body, CoverageProbed) and event.body.abstained is not None:
            connection.update(runs, {"run_id": run.run_id}, {"status": "open", "answer_due_at": run.deadline_at})
    if _is_awaited(connection, run, emitted):
        return []
    if run.kind == "gate" and run.status == "open":
        return _direct_answer(connection, run, "closed", make, now)
    return finish(connection, run, _verdict(connection, run), make, now)


def _is_awaited(connection: Transaction, run: AnyRow, emitted: Sequence[Event]) -> bool:
    """Return whether the run waits for an open event. Follow-up stages (`AFTERWARDS`) count only in a graph run."""
    afterwards = frozenset() if run.kind == "graph" else AFTERWARDS
    if any(event.queue and event.queue not in afterwards for event in emitted):
        return True
    asked = _ANY_OPEN if afterwards else _ANY_OPEN_AT_ALL
    return connection.execute(asked, {"of_run": run.run_id}).first() is not None


def runs_due_for_answer(connection: Transaction, now: float, most: int) -> list[str]:
    """Return the gate runs whose deadline has passed with no answer directed, the longest overdue first."""
    return list(connection.execute(_DUE, {"moment": now, "most": most}).scalars())


def answer_at_deadline(connection: Transaction, run_id: str, now: float) -> list[Event]:
    """Direct the answer of a run whose deadline has passed, unless it was directed meanwhile."""
    run = take(connection, run_id)
    if run.status != "open" or run.answer_due_at is None or run.answer_due_at > now:
        return []
    return _direct_answer(connection, run, "deadline", partial(own_event, run, now=now), now)


def cancel(connection: Transaction, run_id: str, now: float) -> tuple[bool, list[Event]]:
    """Cancel a run's open events; return whether that changed anything, and the closing event. Raises `NotFound`."""
    run = take(connection, run_id)
    open_events, balance = connection.execute(_OPEN, {"of_run": run_id}).all(), Balance()
    for event in open_events:
        balance.free(event)
    connection.execute(_CANCEL, {"of_run": run_id, "moment": now})
    if run.retrying:
        attempts.count_retrying(connection, run_id, -run.retrying)
    emitted: list[Event] = []
    if run.status in UNFINISHED:
        emitted = finish(connection, run, "cancelled", partial(own_event, run, now=now), now)
    balance.carry_out(connection, run, now)
    return bool(open_events or emitted), emitted


def gaps_of(connection: Transaction, run_id: str, *, standing: bool = False) -> tuple[Gap, ...]:
    """Return the run's gaps with their reasons, in the order in which they were found.

    With `standing`, those are left out whose dead letter was replayed with success since.
    """
    return tuple(gap for gap, is_mended in sorted_gaps(connection, run_id) if not (standing and is_mended))


def sorted_gaps(connection: Transaction, run_id: str) -> list[tuple[Gap, bool]]:
    """Return the run's gaps, each with whether its dead letter was replayed with success since."""
    found = connection.execute(_OF_KIND, {"of_run": run_id, "of_kind": GapFound.kind}).scalars()
    told = [decode(payload) for payload in found]
    closed = set(connection.execute(_REPLAYED, {"of_run": run_id}).scalars()) if told else ()
    return [(one.body.gap, one.cause_id in closed) for one in told if isinstance(one.body, GapFound)]


def _mend(connection: Transaction, run: AnyRow, emitted: Sequence[Event], now: float) -> None:
    """Finish a failed run to which a replay brought what it lacked. Its `RunFinished` stays as it was told."""
    ready = next((event.body for event in emitted if isinstance(event.body, AnswerReady)), None)
    if run.kind == "gate":
        if ready is None:
            return
        note_finished(connection, run, "finished", ready, spend_in(run, "spent"), now)
    elif _is_awaited(connection, run, emitted) or _verdict(connection, run) == "failed":
        return
    connection.update(runs, {"run_id": run.run_id}, {"status": "finished"})


def _direct_answer(
    connection: Transaction, run: AnyRow, reason: Literal["closed", "deadline"], make: Maker, now: float
) -> list[Event]:
    connection.update(runs, {"run_id": run.run_id}, {"status": "answering", "answer_due_at": None})
    current = connection.select(runs, {"run_id": run.run_id}).one()
    directed = make(AnswerDirected(minimum_journal_offset=current.journal_offset or 0, reason=reason))
    return write(connection, run, [Entry(directed)], now)


def finish(
    connection: Transaction,
    run: AnyRow,
    status: Literal["finished", "failed", "cancelled"],
    make: Maker,
    now: float,
    ready: AnswerReady | None = None,
) -> list[Event]:
    """End the run, whose row the caller holds, with its `RunFinished`; `ready` is its final answer, if any."""
    ended = {"status": status, "finished_at": now, "answer_due_at": None}
    connection.update(runs, {"run_id": run.run_id}, ended)
    missing, spend = gaps_of(connection, run.run_id), spend_in(run, "spent")
    if run.kind == "gate":
        note_finished(connection, run, status, ready, spend, now)
    finished = make(RunFinished(status=status, missing=missing, spend=spend))
    return write(connection, run, [Entry(finished)], now)


def _verdict(connection: Transaction, run: AnyRow) -> Literal["finished", "failed"]:
    if run.kind == "gate":  # an answer would have finished the run before this
        return "failed"
    current = connection.select(runs, {"run_id": run.run_id}).one()
    has_something = current.journal_offset is not None or _found(connection, run)
    return "finished" if has_something or not gaps_of(connection, run.run_id, standing=True) else "failed"


def _found(connection: Transaction, run: AnyRow) -> bool:
    """Return whether the run found a page or a file unchanged, so that the index holds it, or something to show."""
    if connection.execute(_ANY_OF, {"of_run": run.run_id}).first() is not None:
        return True
    received = connection.execute(_OF_KIND, {"of_run": run.run_id, "of_kind": FilesReceived.kind}).scalars()
    return any(decode(payload).body_as(FilesReceived).unchanged_count for payload in received)
