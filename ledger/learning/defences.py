"""The gate's steps back, as the ledger keeps them, a row for each defence of each profile; and what it falls back to.

What a row's `state` holds is the business of `evaluation.defence`. All rows change together with the position up to
which runs were looked at, in one transaction that also records what tripped or healed. That transaction names the
position that it started from; where another process was faster, nothing is written. So a run counts once, and a
process that dies at any point leaves either all of a look or nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, select

from sluice.ledger.database import LedgerPart
from sluice.ledger.events.control_runs import ControlChange, record_control
from sluice.ledger.runs import CreatedRun
from sluice.ledger.schema.tables import AnyRow, configurations, defences
from sluice.ledger.transaction import Transaction

WHOLE_INSTANCE = "*"
"""The profile of what concerns every profile."""
_POSITION, _TRICKLE = "position", "trickle"
"""Rows that are no defences: how far runs were looked at; the runs of a profile's trickle on its latest day."""

_HAS = defences.c
_IS_IT = (_HAS.name == bindparam("of_name"), _HAS.profile == bindparam("of_profile"))
_ONE = select(defences).where(*_IS_IT)
_ALL = select(defences).where(_HAS.name.not_in((_POSITION, _TRICKLE))).order_by(_HAS.name, _HAS.profile)
_STANDING = _ALL.where(_HAS.tripped_at.is_not(None))


@dataclass(frozen=True, slots=True)
class DefenceRow:
    """One defence of one profile. `tripped_at` is None while it only watches (seconds since the epoch)."""

    name: str
    profile: str
    state: str
    tripped_at: float | None


@dataclass(frozen=True, slots=True)
class Position:
    """The last run that was looked at, in the order of decisions; and how often anything was written."""

    decided_at: float = 0.0
    run_id: str = ""
    writes: int = 0


class Defences(LedgerPart):
    """The steps back of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def rows(self) -> tuple[Position, tuple[DefenceRow, ...]]:
        """How far runs were looked at, and every defence of every profile."""
        with self._database.reading() as connection:
            position = connection.execute(_ONE, {"of_name": _POSITION, "of_profile": WHOLE_INSTANCE}).first()
            rows = connection.execute(_ALL).all()
        return _position_in(position), tuple(map(_row_of, rows))

    def standing(self) -> tuple[DefenceRow, ...]:
        """Those that have tripped."""
        with self._database.reading() as connection:
            return tuple(map(_row_of, connection.execute(_STANDING).all()))

    def write(
        self, seen: Position, position: Position, rows: Iterable[DefenceRow], changes: Sequence[ControlChange] = ()
    ) -> tuple[CreatedRun, ...] | None:
        """Move on from `seen`, with these rows and what is to be recorded; None where another process moved meanwhile.

        Returns the control runs, to be announced.
        """
        now = self._clock()
        with self._database.writing() as connection:
            if not _move(connection, seen, position, now):
                return None
            for row in rows:
                _put(connection, row, now)
            return tuple(record_control(connection, change, now) for change in changes)

    def take_trickle(self, profile: str, day: str, most: int) -> bool:
        """Whether one more run of the profile may be of the trickle on that day; it is counted then."""
        with self._database.writing() as connection:
            found = connection.execute(_ONE.with_for_update(), {"of_name": _TRICKLE, "of_profile": profile}).first()
            taken = json.loads(found.state) if found else {}
            runs = int(taken.get("runs", 0)) if taken.get("day") == day else 0
            if runs >= most:
                return False
            state = json.dumps({"day": day, "runs": runs + 1})
            _put(connection, DefenceRow(_TRICKLE, profile, state, None), self._clock())
            return True


def _move(connection: Transaction, seen: Position, position: Position, now: float) -> bool:
    becomes = _told(Position(position.decided_at, position.run_id, seen.writes + 1))
    where = {"name": _POSITION, "profile": WHOLE_INSTANCE}
    if seen.writes:
        written = {"state": becomes, "changed_at": now}
        return connection.update(defences, {**where, "state": _told(seen)}, written) == 1
    row = {**where, "state": becomes, "tripped_at": None, "changed_at": now}
    return connection.insert_once(defences, row)


def _put(connection: Transaction, row: DefenceRow, now: float) -> None:
    facts = {**asdict(row), "changed_at": now}
    connection.put(defences, facts, ("name", "profile"), ("state", "tripped_at", "changed_at"))


def _told(position: Position) -> str:
    return json.dumps([position.decided_at, position.run_id, position.writes])


def _position_in(row: AnyRow | None) -> Position:
    return Position(*json.loads(row.state)) if row is not None else Position()


def _row_of(row: AnyRow) -> DefenceRow:
    return DefenceRow(row.name, row.profile, row.state, row.tripped_at)


_DECIDED_BY = configurations.c
_OLDEST_FIRST = select(configurations).order_by(_DECIDED_BY.first_decided_at, _DECIDED_BY.config_hash)
_OF_PROFILE = (
    select(_DECIDED_BY.config_hash, _DECIDED_BY.first_decided_at)
    .where(_DECIDED_BY.profile == bindparam("of_profile"))
    .order_by(_DECIDED_BY.first_decided_at.desc(), _DECIDED_BY.config_hash)
)


class Configurations(LedgerPart):
    """By which configurations the gate has decided, and since when: what it falls back to.

    A configuration is named by the hash of a profile, whose canonical bytes are kept as the blob of that name; where a
    learned model decides besides, its version stands behind a "+". Every method is one transaction and may raise
    `Unavailable`.
    """

    def record(self, profile: str, config_hash: str, decided_at: float) -> bool:
        """The profile decided by this configuration at a moment; whether that is new. Its first time stays."""
        row = {"profile": profile, "config_hash": config_hash, "first_decided_at": decided_at}
        with self._database.writing() as connection:
            return connection.insert_once(configurations, row)

    def before(self, profile: str, config_hash: str, without: Collection[str] = ()) -> str | None:
        """The configuration that the profile first decided by just before this one, leaving some out.

        None where there is none, or this one is not known.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_OF_PROFILE, {"of_profile": profile}).all()
        since = next((row.first_decided_at for row in rows if row.config_hash == config_hash), None)
        if since is None:
            return None
        earlier = (row.config_hash for row in rows if row.first_decided_at < since)
        return next((one for one in earlier if one not in without), None)

    def all(self) -> list[tuple[str, str, float]]:
        """Profile, configuration and when it first decided, in seconds since 1970; the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(_OLDEST_FIRST).all()
        return [(row.profile, row.config_hash, row.first_decided_at) for row in rows]
