"""Feature flags as operators have stored them, and the one transaction that changes one.

Promises: a change, its event, its audit entry and the resulting purge are recorded
together or not at all. A change without effect records nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import bindparam, select

from sluice.contracts.errors import Conflict
from sluice.contracts.event import Body, Event, Gap
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.learning.control import FlagAction, FlagName, FlagState
from sluice.contracts.learning.events import FlagChanged, PendingPurged
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.ledger.database import LedgerPart
from sluice.ledger.dead_letters.audit import actions_on
from sluice.ledger.events.control_runs import ControlChange, record_control
from sluice.ledger.events.purge import Purged, purge
from sluice.ledger.runs import CreatedRun
from sluice.ledger.schema.columns import moment
from sluice.ledger.schema.tables import AnyRow, flags
from sluice.ledger.transaction import Transaction

DIRECTIVES: Mapping[FlagName, type[Body]] = {"search": SearchDirected, "crawl": CrawlDirected}
"""Directives of each feature, which are purged when it is switched off."""
_NOUNS = {"search": ("search", "searches"), "crawl": ("page", "pages")}


@dataclass(frozen=True, slots=True)
class StoredFlag:
    """The stored part of a flag. `enabled` is None where no value is stored; the flag may be killed all the same."""

    name: str
    enabled: bool | None = None
    killed: bool = False
    changed_at: datetime | None = None
    operator: str | None = None
    note: str = ""


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


def flag_gap(name: FlagName, subject: str, detail: str = "") -> Gap:
    """Return the gap of a run for a flag that is off."""
    told = detail or f"the flag {name} is off"
    return Gap(stage=name, subject=subject, reason=f"flag_{name}", detail=told, lifted_by=f"sluice flags {name} --on")


class Flags(LedgerPart):
    """The stored flags of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def all(self) -> dict[str, StoredFlag]:
        """Return the stored flags, by name."""
        with self._database.reading() as connection:
            return {row.name: _stored(row) for row in connection.execute(_ALL)}

    def history(self, name: FlagName) -> Sequence[OperatorAction]:
        """Return the operators' actions on a flag, in order."""
        with self._database.reading() as connection:
            return actions_on(connection, f"flag:{name}")

    def change(self, name: FlagName, action: FlagAction, operator: str, note: str, resolve: Resolve) -> FlagChange:
        """Change a flag; if it is then off, purge the feature's waiting directives.

        Raises `Conflict` if the flag is killed: it must be reset before it is switched on.
        """
        with self._database.writing() as connection:
            return _change(connection, name, action, operator, note, resolve, self._clock())


def _change(
    connection: Transaction, name: FlagName, action: FlagAction, operator: str, note: str, resolve: Resolve, now: float
) -> FlagChange:
    connection.insert_once(flags, {"name": name, "changed_at": now, "operator": operator, "note": note})
    before = _stored(connection.execute(_ONE, {"of_name": name}).one())
    after = _applied(before, action)
    was, state = resolve(before), resolve(replace(after, changed_at=moment(now), operator=operator, note=note))
    bodies: list[Body] = []
    if after != before:
        facts = {"enabled": None if after.enabled is None else int(after.enabled), "killed": int(after.killed)}
        connection.update(flags, {"name": name}, {**facts, "changed_at": now, "operator": operator, "note": note})
        bodies.append(
            FlagChanged(
                name=name,
                action=action,
                was_enabled=was.enabled,
                enabled=state.enabled,
                decided_by=state.decided_by,
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


def _applied(stored: StoredFlag, action: FlagAction) -> StoredFlag:
    match action:
        case "on" if stored.killed:
            raise Conflict(
                f"the flag {stored.name} was killed by {stored.operator}: `sluice flags {stored.name} --reset` first"
            )
        case "on" | "off":
            return replace(stored, enabled=action == "on")
        case "kill":
            return replace(stored, killed=True)
        case "reset":
            return replace(stored, enabled=None, killed=False)


def _purged(connection: Transaction, name: FlagName, now: float) -> Purged:
    if name not in DIRECTIVES:
        return Purged()

    def gap_for(count: int) -> Gap:
        noun = _NOUNS[name][count != 1]
        return flag_gap(name, f"{count} {noun}", f"the flag {name} was switched off before {count} {noun}")

    return purge(connection, DIRECTIVES[name], f"the flag {name} is off", gap_for, now)


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
    return StoredFlag(row.name, enabled, bool(row.killed), moment(row.changed_at), row.operator, row.note)
