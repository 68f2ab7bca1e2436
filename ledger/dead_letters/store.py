"""Dead letters: events that could not be handled, kept whole until an operator decides.

The life of a failure:

1. A handler ends in an outcome. `Retry` puts the event back as `waiting`, with its next attempt's moment.
2. The reconciler makes it `ready` at that moment and publishes a wake-up; a worker claims it, under a new epoch.
3. After its last attempt (`exhausted`), at a permanent error (the reason that the handler names), or when it has
   killed its worker too often (`poison`), the event is parked: its row is `dead`, a dead letter keeps payload, error
   and history, and a `GapFound` tells the run what is missing. The settling transaction does all that.
4. A raw item of the broker that is no event at all is parked too (`malformed`, `unroutable`), with its bytes.
5. The operator looks (`groups`, `list`, `show`) and replays one letter (`replay`) or many (see `bulk_replay`): the same
   event, id and dedupe key, becomes `ready` again with its attempts and deaths at zero; the next claim raises the
   epoch. Its run, if finished, stays finished.
6. Parked once more, it is the same dead letter, seen again. After three replays a further one must be forced.
7. Where the payload is at fault the operator edits it: the old one is kept, and a replay publishes the new one as a
   new event, with a new id and key. The failed event stays dead, and the letter names the new one.
8. The operator purges a letter that is not to come back: payload, stack and past payloads are emptied, the facts stay.
   The event's own row belongs to the history of its run, and is pruned with it.

Every operator action is recorded: who, when, what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, or_, select, update

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.event import DeadLetterReason, Event, Queue, decode
from sluice.contracts.operations.dead_letters import DeadLetterFilter, DeadLetterView, Purged, SkipReason
from sluice.ledger.audit import record
from sluice.ledger.dead_letters import query as letters
from sluice.ledger.dead_letters.letter import (
    MAX_REPLAYS,
    Orders,
    bring_back,
    case_of,
    facts_of,
    new_dead_letter,
    replay_span,
)
from sluice.ledger.dead_letters.query import LetterReader
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import AnyRow, dead_letter_payloads, dead_letters, position
from sluice.ledger.transaction import Transaction
from sluice.ledger.webhooks.outgoing import note_parked
from sluice.otel.context import current_traceparent

__all__ = ["MAX_REPLAYS", "DeadLetters"]

PURGED_AT_ONCE = 500
"""Letters that one transaction empties; this bounds the time that other writers wait."""

_IS_LETTER = dead_letters.c.id == bindparam("of_letter")
_EDIT = (
    update(dead_letters)
    .where(_IS_LETTER, dead_letters.c.status == "parked", dead_letters.c.sha256 == bindparam("was"))
    .values(
        payload=bindparam("becomes"),
        sha256=bindparam("becomes_sha256"),
        run_id=bindparam("of_run"),
        kind=func.coalesce(dead_letters.c.kind, bindparam("as_kind")),
        operator=bindparam("by_operator"),
        note=bindparam("because"),
    )
)
_IS_REPLAY = select(dead_letters.c.id).where(
    dead_letters.c.run_id == bindparam("of_run"),
    dead_letters.c.status == "replayed",
    or_(dead_letters.c.event_id == bindparam("of_event"), dead_letters.c.replayed_as == bindparam("of_event")),
)
_PURGE = (
    update(dead_letters)
    .where(_IS_LETTER, or_(dead_letters.c.status == "parked", dead_letters.c.status == "replayed"))
    .values(status="purged", payload=b"", stack="", operator=bindparam("by_operator"), note=bindparam("because"))
    .returning(dead_letters.c.id)
)


class DeadLetters(LetterReader):
    """Operators' actions on dead letters."""

    def park_raw(
        self,
        raw: bytes,
        queue: Queue,
        reason: DeadLetterReason,
        error: BaseException | None = None,
        *,
        worker: str | None = None,
    ) -> str:
        """Park a broker item that is no event; return the new dead letter's id. `worker` found it."""
        now = self._clock()
        letter = new_dead_letter(now) | facts_of(queue, raw, reason, error, now)
        letter |= {"deliveries": 1, "worker": worker, "traceparent": current_traceparent()}
        with self._database.writing() as connection:
            connection.insert(dead_letters, letter)
            note_parked(connection, None, letter, now)
        return str(letter["id"])

    def replay(self, letter_id: str, operator: str, *, force: bool = False, note: str = "") -> Event:
        """Make the event ready again; the caller publishes it. An edited payload gets a new event id.

        Raises:
            NotFound: there is no such dead letter.
            Conflict: it cannot be replayed; the message says why, and whether that can be forced.
            BudgetExhausted: the event's reservation no longer fits.
        """
        orders = Orders(operator, note, force)
        with self._database.reading() as connection:
            letter = case_of(connection, letter_id)
        with replay_span(letter, orders), self._database.writing() as connection:
            outcome = bring_back(connection, letter_id, orders, self._clock())
            if not isinstance(outcome, Event):
                raise Conflict(f"dead letter {letter_id} {_REFUSALS[outcome]}")
            return outcome

    def is_replay(self, event: Event) -> bool:
        """Return whether an operator replayed `event`: unchanged, or as the edited payload of a failed event."""
        facts = {"of_event": event.id, "of_run": event.run_id}
        return self._database.read(_IS_REPLAY, facts).first() is not None

    def edit(self, letter_id: str, payload: bytes, operator: str, note: str = "") -> DeadLetterView:
        """Replace the payload of a dead letter, and keep the old one.

        Raises:
            NotFound: there is no such dead letter, or no such run.
            MalformedEvent: the new payload is no event of a known kind.
            InvalidInput: it belongs to another run or corpus, or no queue handles it.
            Conflict: the letter is not parked, has that payload already, or was changed at the same moment.
        """
        event = decode(payload)
        with self._database.writing() as connection:
            run = take(connection, event.run_id)
            letter = letters.found(connection, letter_id)
            _check_edit(letter, run, event, payload)
            _edit(connection, letter, payload, event, operator, note, self._clock())
            return letters.show(connection, letter_id)

    def purge(self, letter_id: str, operator: str, note: str = "") -> None:
        """Empty one dead letter: payload, stack and past payloads go, the facts stay.

        Raises `NotFound` if there is no such dead letter, and `Conflict` if it was purged before.
        """
        with self._database.writing() as connection:
            letters.found(connection, letter_id)
            if not _purge(connection, [letter_id], operator, note, self._clock()):
                raise Conflict(f"dead letter {letter_id} was purged before")

    def would_purge(self, wanted: DeadLetterFilter) -> Purged:
        """Count the letters that `purge_all` would empty: those that match and are not empty yet; and mark them."""
        now, has = self._clock(), dead_letters.c
        query = select(func.count().label("letters"), func.max(has.id).label("highest"))
        row = self._database.read(query.where(*_to_purge(wanted), has.last_seen <= now)).one()
        return Purged(matching=row.letters, purged=0, up_to=position(now, row.highest or ""))

    def purge_all(self, wanted: DeadLetterFilter, operator: str, *, expected: int, note: str = "") -> Purged:
        """Empty every letter that matches; raise `Conflict` unless `expected` letters match (`require_counted`).

        It works in bounded transactions. Letters parked meanwhile are left alone; after a crash the remaining letters
        are unchanged, and another call goes on with them.
        """
        now, matching = self._clock(), self.would_purge(wanted).matching
        letters.require_counted(wanted, matching, expected)
        purged, last = 0, ""
        while ids := self._next_to_purge(wanted, last, now):
            with self._database.writing() as connection:
                purged += _purge(connection, ids, operator, note, now)
            last = ids[-1]
        return Purged(matching=matching, purged=purged)

    def _next_to_purge(self, wanted: DeadLetterFilter, last: str, now: float) -> Sequence[str]:
        has = dead_letters.c
        query = (
            select(has.id)
            .where(*_to_purge(wanted), has.last_seen <= now, has.id > last)
            .order_by(has.id)
            .limit(PURGED_AT_ONCE)
        )
        return self._database.read(query).scalars()


_REFUSALS: dict[SkipReason, str] = {
    "not_parked": "is not parked (any more)",
    "not_an_event": "is no event; edit it into one, then replay it",
    "unreadable": "cannot be read by this Sluice; edit it, or replay it with a version that knows it",
    "run_gone": "belongs to a run that is not in the ledger any more",
    "run_cancelled": "belongs to a run that was cancelled; force it to try all the same",
    "replayed_too_often": f"was replayed {MAX_REPLAYS} times; force it to try again",
}


def _check_edit(letter: AnyRow, run: AnyRow, event: Event, payload: bytes) -> None:
    if letter.status != "parked":
        raise Conflict(f"dead letter {letter.id} is {letter.status}, not parked")
    if letter.event_id is not None and event.run_id != letter.run_id:
        raise InvalidInput("run_id", f"{event.run_id!r} is another run", f"keep {letter.run_id}")
    if event.corpus != run.corpus:
        raise InvalidInput("corpus", f"{event.corpus!r} is not the run's", f"keep {run.corpus}")
    if event.queue is None:
        raise InvalidInput("kind", f"no queue handles {event.kind}", "the kind of an event that a stage handles")
    if _sha256(payload) == letter.sha256:
        raise Conflict(f"dead letter {letter.id} has that payload already")


def _edit(
    connection: Transaction, letter: AnyRow, payload: bytes, event: Event, operator: str, note: str, now: float
) -> None:
    facts: dict[str, Any] = {"of_letter": letter.id, "was": letter.sha256, "of_run": event.run_id}
    facts |= {"becomes": payload, "becomes_sha256": _sha256(payload), "as_kind": event.kind}
    if connection.execute(_EDIT, facts | {"by_operator": operator, "because": note}).rowcount == 0:
        raise Conflict(f"dead letter {letter.id} was changed at the same moment; look again")
    past = {"letter_id": letter.id, "at": now, "operator": operator, "payload": letter.payload, "sha256": letter.sha256}
    connection.insert(dead_letter_payloads, past)
    record(connection, now, operator, "edit", [letter.id], note)


def _to_purge(wanted: DeadLetterFilter) -> Sequence[ColumnElement[bool]]:
    return [*letters.conditions(wanted), dead_letters.c.status != "purged"]


def _purge(connection: Transaction, ids: Sequence[str], operator: str, note: str, now: float) -> int:
    facts = {"by_operator": operator, "because": note}
    emptied = [row.id for row in connection.execute_each(_PURGE, [facts | {"of_letter": one} for one in ids])]
    if emptied:
        for one in emptied:
            connection.delete(dead_letter_payloads, {"letter_id": one})
        record(connection, now, operator, "purge", emptied, note)
    return len(emptied)


def _sha256(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()
