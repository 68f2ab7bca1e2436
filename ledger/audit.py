"""Who may act, and what was done: API keys, the audit of operators' actions, and control runs of the gate's controls.

Of a key the ledger has its hash, never the key; its role, its corpora, its limits, and whether it is revoked.

An action is recorded in the transaction that carries it out. A control run begins finished, and its events have no
queue; they, their run and the audit's entry are recorded with the change itself or not at all, and each key is used
once, across all callers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import bindparam, delete, insert, select, update

from sluice.contracts.errors import Conflict, InvalidInput, Unavailable
from sluice.contracts.event import Body, new_run_id
from sluice.contracts.learning.events import CONTROL_CORPUS
from sluice.contracts.operations.actions import ActionPage, RecordedAction
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.contracts.operations.keys import ApiKey
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.finish import finish
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.runs import CreatedRun, NewRun, create, take
from sluice.ledger.schema.tables import AnyRow, api_keys, console_sessions, moment, operator_actions, perhaps_moment
from sluice.ledger.transaction import Transaction
from sluice.otel.context import current_traceparent

SLUICE = "sluice"
"""The operator of actions that Sluice takes by itself."""
PRUNED_SUBJECT = "ledger"
"""Subject of the actions that remove old runs."""
BACKUP = "backup"
"""Action by which a finished backup is recorded: its place is the subject, its figures the note."""
LET_GO = "let_go"
"""Action on a corpus whose lost records an operator gives up."""

_RECORD = insert(operator_actions).returning(operator_actions.c.seq)
_OF = (
    select(operator_actions)
    .where(operator_actions.c.subject == bindparam("of_subject"))
    .order_by(operator_actions.c.seq)
)


def record(
    connection: Transaction, now: float, operator: str, action: str, subjects: Sequence[str], note: str = ""
) -> None:
    """Record one action on each of `subjects`."""
    facts = {"at": now, "operator": operator, "action": action, "note": note}
    if subjects:
        connection.insert_each(_RECORD, [facts | {"subject": subject} for subject in subjects])


def actions_on(connection: Transaction, subject: str) -> tuple[OperatorAction, ...]:
    """Return the actions on `subject`, in order."""
    return tuple(
        OperatorAction(at=moment(row.at), operator=row.operator, action=row.action, note=row.note)
        for row in connection.execute(_OF, {"of_subject": subject})
    )


@dataclass(frozen=True, slots=True)
class ControlChange:
    """A change of the gate's controls, and its audit: who did `action` (`flag_off`) to `subject` (`flag:search`).

    `bodies` are its events, without a queue. Of several changes with one `key` only the first is recorded.
    """

    bodies: tuple[Body, ...]
    action: str
    subject: str
    operator: str = SLUICE
    note: str = ""
    key: str | None = None


def record_control(connection: Transaction, change: ControlChange, now: float) -> CreatedRun:
    """Record a change in a control run of its own, and the action in the operators' audit.

    If its key was used before, records nothing and returns the earlier run. The caller announces `CreatedRun.events`.
    """
    run = NewRun(
        run_id=new_run_id(),
        kind="control",
        corpus=CONTROL_CORPUS,
        request_sha256=hashlib.sha256(f"control:{change.key}".encode()).hexdigest(),
        owner=SLUICE,
        query=f"{change.action} {change.subject}" + (f": {change.note}" if change.note else ""),
        idempotency_key=change.key,
        traceparent=current_traceparent(),
    )
    created = create(connection, run, (), now)
    if not created.created:
        return created
    row = take(connection, run.run_id)

    make = partial(own_event, row, now=now)
    written = write(connection, row, [Entry(make(body)) for body in change.bodies], now)
    written += finish(connection, row, "finished", make, now)
    record(connection, now, change.operator, change.action, [change.subject], change.note)
    return CreatedRun(run.run_id, True, "finished", tuple(written))


class KeyRecord(ApiKey):
    """A key as the ledger has it."""

    hash: str


_ALL = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
_BY_ID = select(api_keys).where(api_keys.c.id == bindparam("of_key"))
_CHANGE = update(api_keys).where(api_keys.c.id == bindparam("of_key"), api_keys.c.revoked_at.is_(None))


class KeysTable(LedgerPart):
    """Insert, list, change and revoke keys."""

    def insert(
        self,
        key_id: str,
        key_hash: str,
        name: str,
        role: str,
        corpora: Sequence[str] = (),
        expires_at: datetime | None = None,
        requests_per_minute: int | None = None,
        operator: str = SLUICE,
    ) -> None:
        """Record a key, made by `operator`. Raises `Conflict` if its id or its hash is recorded already."""
        row = {
            "id": key_id,
            "hash": key_hash,
            "name": name,
            "role": role,
            "corpora": json.dumps(list(corpora)),
            "created_at": self._clock(),
            "expires_at": expires_at and expires_at.timestamp(),
            "requests_per_minute": requests_per_minute,
        }
        with self._database.writing() as connection:
            if not connection.insert_once(api_keys, row):
                raise Conflict(f"key {key_id} is recorded already")
            record(connection, self._clock(), operator, "key_made", [f"key:{key_id}"])

    def list(self) -> Sequence[KeyRecord]:
        """Return every key, revoked ones too, oldest first."""
        return [_record(row) for row in self._database.read(_ALL)]

    def one(self, key_id: str) -> KeyRecord | None:
        """Return a key by its id, a revoked one too; None if there is no such key."""
        row = self._database.read(_BY_ID, {"of_key": key_id}).first()
        return None if row is None else _record(row)

    def agents(self) -> frozenset[str]:
        """Return the ids of the agents' keys in force."""
        now = moment(self._clock())
        return frozenset(one.id for one in self.list() if one.role == "agent" and one.is_in_force(now))

    def revoke(self, key_id: str, operator: str = SLUICE) -> bool:
        """Revoke a key; return False when it was revoked before. Raises `NotFound` if there is no such key."""
        return self.change(key_id, {"revoked_at": self._clock()}, operator, "key_revoked")

    def change(self, key_id: str, columns: Mapping[str, float | None], operator: str, action: str) -> bool:
        """Change a key that is not revoked; return whether it was one. Raises `NotFound` if there is no such key."""
        with self._database.writing() as connection:
            if connection.execute(_CHANGE.values(columns), {"of_key": key_id}).rowcount == 1:
                record(connection, self._clock(), operator, action, [f"key:{key_id}"])
                return True
            connection.select(api_keys, {"id": key_id}).found(f"key {key_id}")
            return False


def _record(row: AnyRow) -> KeyRecord:
    return KeyRecord.model_construct(  # as it was recorded, whatever may be made today
        id=row.id,
        hash=row.hash,
        name=row.name,
        role=row.role,
        corpora=tuple(json.loads(row.corpora)),
        created_at=moment(row.created_at),
        revoked_at=perhaps_moment(row.revoked_at),
        expires_at=perhaps_moment(row.expires_at),
        requests_per_minute=row.requests_per_minute,
    )


_SESSION = (
    select(api_keys, console_sessions.c.seen_at, console_sessions.c.expires_at.label("ends_at"))
    .join(api_keys, api_keys.c.id == console_sessions.c.key_id)
    .where(console_sessions.c.hash == bindparam("of_session"))
)
_PAST_SESSIONS = delete(console_sessions).where(console_sessions.c.expires_at <= bindparam("moment"))
MOST_DIGITS = 18
"""Digits of the greatest number of a row."""
SEEN_EVERY_SECONDS = 60.0
"""How exactly it is known when a session was last used: each look would be a write else."""


class ConsoleTable(LedgerPart):
    """Sessions of the console, under the hash of their secret; and what was looked at there."""

    def begin(self, session_hash: str, key_id: str, seconds: float) -> None:
        """Record a session of a key, which ends after `seconds` at the latest. Sessions that are past go."""
        now = self._clock()
        times = {"made_at": now, "seen_at": now, "expires_at": now + seconds}
        with self._database.writing() as connection:
            connection.execute(_PAST_SESSIONS, {"moment": now})
            connection.insert(console_sessions, {"hash": session_hash, "key_id": key_id, **times})
            record(connection, now, key_id, "signed_in", [f"key:{key_id}"])

    def find(self, session_hash: str, idle_seconds: float) -> KeyRecord | None:
        """Return the key of a session that goes on: neither it nor its key has ended, and it was used lately."""
        row, now = self._database.read(_SESSION, {"of_session": session_hash}).first(), self._clock()
        if row is None or now >= min(row.ends_at, row.seen_at + idle_seconds):
            return None
        if now - row.seen_at > SEEN_EVERY_SECONDS:
            with suppress(Unavailable), self._database.holding() as connection:  # a full disk signs nobody out
                connection.update(console_sessions, {"hash": session_hash}, {"seen_at": now})
        key = _record(row)
        return key if key.is_in_force(moment(now)) else None

    def end(self, session_hash: str, key_id: str) -> None:
        """End a session."""
        with self._database.writing() as connection:
            if connection.delete(console_sessions, {"hash": session_hash}):
                record(connection, self._clock(), key_id, "signed_out", [f"key:{key_id}"])

    def actions(self, wanted: ActionPage) -> list[RecordedAction]:
        """Return actions, the latest first. Raises `InvalidInput` if the page's position is malformed."""
        has = operator_actions.c
        if wanted.cursor is not None and not (wanted.cursor.isdecimal() and len(wanted.cursor) <= MOST_DIGITS):
            raise InvalidInput("before", f"{wanted.cursor!r} is no position", "the `position` of the last one")
        before = int(wanted.cursor) if wanted.cursor is not None else 10**MOST_DIGITS
        query = select(operator_actions).where(has.seq < before).order_by(has.seq.desc()).limit(wanted.limit)
        for column in (has.operator, has.action, has.subject):
            if (value := getattr(wanted, column.name)) is not None:
                query = query.where(column == value)
        return [
            RecordedAction(
                at=moment(row.at),
                operator=row.operator,
                action=row.action,
                note=row.note,
                position=str(row.seq),
                subject=row.subject,
            )
            for row in self._database.read(query)
        ]

    def record(self, operator: str, action: str, subjects: Sequence[str], note: str = "") -> None:
        """Record what an operator does that no other transaction records: he looks at what is shown to few, say."""
        with self._database.writing() as connection:
            record(connection, self._clock(), operator, action, subjects, note)
