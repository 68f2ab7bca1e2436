"""Feature flags as operators have stored them, and the one transaction that changes one.

Promises: a change, its event, its audit entry and the resulting purge are recorded
together or not at all. A change without effect records nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from sqlalchemy import bindparam, select, update

from sluice.contracts.errors import Conflict
from sluice.contracts.event import Body, Event, Gap, GapFound
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.learning.control import FlagAction, FlagName, FlagState
from sluice.contracts.learning.events import FlagChanged, PendingPurged
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.ledger.audit import ControlChange, actions_on, record_control
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.attempts import count_retrying
from sluice.ledger.events.finish import close_if_done
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.events.reservations import Balance
from sluice.ledger.runs import CreatedRun, take
from sluice.ledger.schema.tables import IS_OPEN, AnyRow, events, flags, moment
from sluice.ledger.transaction import Transaction

DIRECTIVES: Mapping[FlagName, type[Body]] = {"search": SearchDirected, "crawl": CrawlDirected}
"""Directives of each feature, which are purged when it is switched off."""
_NOUNS = {"search": ("search", "searches"), "crawl": ("page", "pages")}


@dataclass(frozen=True, slots=True)
class StoredFlag:
    """The stored part of a flag. `enabled` is None where no value is stored; the flag may be killed all the same.
    `share` of the runs have a flag that is on; None: all of them."""

    name: str
    enabled: bool | None = None
    killed: bool = False
    changed_at: datetime | None = None
    operator: str | None = None
    note: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class FlagChange:
    """The result of a change. `run` is its control run, None where nothing changed.

    `emitted` are the events of runs that lost directives; the caller publishes them.
    """

    state: FlagState
    run: CreatedRun | None = None
    purged: int = 0
    emitted: tuple[Event, ...] = ()


Resolve = Callable[[StoredFlag | None], FlagState]
"""Resolves the state of a flag from its stored part."""

_ALL = select(flags)
_ONE = select(flags).where(flags.c.name == bindparam("of_name")).with_for_update()
_IS_PENDING = (
    events.c.status.in_(("ready", "waiting")),
    IS_OPEN,
    events.c.queue == bindparam("of_stage"),
    events.c.kind == bindparam("of_kind"),
)
_PENDING_RUNS = select(events.c.run_id).distinct().where(*_IS_PENDING).order_by(events.c.run_id)
_CANCEL = (
    update(events)
    .where(events.c.run_id == bindparam("of_run"), *_IS_PENDING)
    .values(status="cancelled", due_at=None, settled_at=bindparam("moment"), why=bindparam("because"))
    .returning(*events.c)
)
_LET_GO = (
    update(events)
    .where(events.c.run_id == bindparam("of_run"), events.c.status == "cancelled", events.c.reserved_on.is_not(None))
    .values(reserved_on=None)
)


@dataclass(slots=True)
class Purged:
    """The cancelled events and their runs, and the emitted events, which are to be published."""

    event_ids: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)
    emitted: list[Event] = field(default_factory=list)


def flag_gap(name: FlagName, subject: str, detail: str = "") -> Gap:
    """Return the gap of a run for a flag that is off."""
    told = detail or f"the flag {name} is off"
    return Gap(stage=name, subject=subject, reason=f"flag_{name}", detail=told, lifted_by=f"sluice flags {name} --on")


class Flags(LedgerPart):
    """The stored flags of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def all(self) -> dict[str, StoredFlag]:
        """Return the stored flags, by name."""
        return {row.name: _stored(row) for row in self._database.read(_ALL)}

    def history(self, name: FlagName) -> Sequence[OperatorAction]:
        """Return the operators' actions on a flag, in order."""
        with self._database.reading() as connection:
            return actions_on(connection, f"flag:{name}")

    def change(
        self, name: FlagName, action: FlagAction, operator: str, note: str, resolve: Resolve, share: float | None = None
    ) -> FlagChange:
        """Change a flag; if it is then off, purge the feature's waiting directives. `share` is of one switched on.

        Raises `Conflict` if the flag is killed: it must be reset before it is switched on.
        """
        with self._database.writing() as connection:
            return _change(connection, name, action, operator, note, resolve, self._clock(), share)


def _change(
    connection: Transaction,
    name: FlagName,
    action: FlagAction,
    operator: str,
    note: str,
    resolve: Resolve,
    now: float,
    share: float | None,
) -> FlagChange:
    connection.insert_once(flags, {"name": name, "changed_at": now, "operator": operator, "note": note})
    before = _stored(connection.execute(_ONE, {"of_name": name}).one())
    after = _applied(before, action, share)
    was, state = resolve(before), resolve(replace(after, changed_at=moment(now), operator=operator, note=note))
    bodies: list[Body] = []
    if after != before:
        enabled = None if after.enabled is None else int(after.enabled)
        facts = {"enabled": enabled, "killed": int(after.killed), "share": after.share}
        connection.update(flags, {"name": name}, {**facts, "changed_at": now, "operator": operator, "note": note})
        bodies.append(
            FlagChanged(
                name=name,
                action=action,
                was_enabled=was.enabled,
                enabled=state.enabled,
                decided_by=state.decided_by,
                share=state.share,
                operator=operator,
                note=note,
            )
        )
    else:
        state = was
    if after.enabled is None and not after.killed:
        connection.delete(flags, {"name": name})
        state = resolve(None)
    purged = Purged() if state.enabled else _purged(connection, name, now)
    if purged.event_ids:
        bodies.append(_told(name, purged))
    if not bodies:
        return FlagChange(state)
    change = ControlChange(tuple(bodies), f"flag_{action}", f"flag:{name}", operator, note)
    run = record_control(connection, change, now)
    return FlagChange(state, run, len(purged.event_ids), tuple(purged.emitted))


def _applied(stored: StoredFlag, action: FlagAction, share: float | None) -> StoredFlag:
    match action:
        case "on" if stored.killed:
            raise Conflict(
                f"the flag {stored.name} was killed by {stored.operator}: `sluice flags {stored.name} --reset` first"
            )
        case "on" | "off":
            return replace(stored, enabled=action == "on", share=share)
        case "kill":
            return replace(stored, killed=True)
        case "reset":
            return replace(stored, enabled=None, killed=False, share=None)


def _purged(connection: Transaction, name: FlagName, now: float) -> Purged:
    """Cancel every waiting directive of the feature.

    A run that loses directives gets one gap with the reason, and ends as if they had been carried out. An event that a
    worker has claimed is left alone. Locks rows in the order of every other transaction, all runs before the first day.
    """
    purged = Purged()
    if name not in DIRECTIVES:
        return purged
    pending = {"of_stage": DIRECTIVES[name].queue, "of_kind": DIRECTIVES[name].kind}
    lost: list[tuple[AnyRow, int, Balance]] = []
    for run_id in connection.execute(_PENDING_RUNS, pending).scalars():
        run, balance = take(connection, run_id), Balance()
        facts = {**pending, "of_run": run_id, "moment": now, "because": f"the flag {name} is off"}
        cancelled = sorted(connection.execute(_CANCEL, facts).all(), key=lambda row: int(row.seq))
        if not cancelled:
            continue
        for row in cancelled:
            balance.free(row)
        if failed := sum(bool(row.attempts or row.deaths) for row in cancelled):
            count_retrying(connection, run_id, -failed)
        if balance.freed:
            connection.execute(_LET_GO, {"of_run": run_id})
        purged.event_ids += [row.id for row in cancelled]
        purged.run_ids.append(run_id)
        lost.append((run, len(cancelled), balance))
    for run, count, _ in lost:
        told = f"{count} {_NOUNS[name][count != 1]}"
        gap = flag_gap(name, told, f"the flag {name} was switched off before {told}")
        purged.emitted += _close(connection, run, gap, now)
    for run, _, balance in lost:
        balance.carry_out(connection, run, now)
    return purged


def _told(name: FlagName, purged: Purged) -> PendingPurged:
    directive = DIRECTIVES[name]
    return PendingPurged(
        flag=name,
        stage=directive.queue or "gate",
        directive=directive.kind,
        count=len(purged.event_ids),
        event_ids=tuple(purged.event_ids),
        run_ids=tuple(purged.run_ids),
    )


def _stored(row: AnyRow) -> StoredFlag:
    enabled = None if row.enabled is None else bool(row.enabled)
    return StoredFlag(row.name, enabled, bool(row.killed), moment(row.changed_at), row.operator, row.note, row.share)


def _close(connection: Transaction, run: AnyRow, gap: Gap, now: float) -> list[Event]:
    make = partial(own_event, run, now=now)
    emitted = write(connection, run, [Entry(make(GapFound(gap=gap)))], now)
    return emitted + close_if_done(connection, run, emitted, make, now)
