"""What steers the gate: its defences (steps back), the configurations to fall back to, and rollouts of learned models.

`evaluation.defence` owns the content of a row's `state`. All rows change together with the position up to which runs
were examined, in one transaction that also records what tripped or healed. That transaction names the position that it
started from; where another process was faster, nothing is written. So a run counts once, and a process that dies at any
point leaves either all of an examination or nothing of it.

At most one model is active at a time. A change of a rollout is one transaction with its event and the audit entry, and
it applies only to the state that the caller read: of two concurrent changes, one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import bindparam, or_, select

from sluice.contracts.errors import Conflict
from sluice.contracts.event import decode
from sluice.contracts.gate import GateDecided
from sluice.contracts.learning.control import ACTIVE, Pin, Rollout, RolloutStep
from sluice.ledger.audit import ControlChange, record_control
from sluice.ledger.database import LedgerPart
from sluice.ledger.runs import CreatedRun
from sluice.ledger.schema.tables import AnyRow, configurations, defences, events, moment, outcomes, rollouts
from sluice.ledger.transaction import Transaction

WHOLE_INSTANCE = "*"
"""Profile, corpus or owner of the rows that concern every one."""
_POSITION, _TRICKLE = "position", "trickle"
"""Names of rows that are no defences: the position in the runs; a profile's trickle runs on its latest day."""

_HAS = defences.c
_KEY = ("name", "profile", "corpus", "owner")
_ONE = select(defences).where(*(_HAS[name] == bindparam(f"of_{name}") for name in _KEY))
_ALL = select(defences).where(_HAS.name.not_in((_POSITION, _TRICKLE))).order_by(*(_HAS[name] for name in _KEY))
_STANDING = _ALL.where(or_(_HAS.tripped_at.is_not(None), _HAS.pin.is_not(None)))


@dataclass(frozen=True, slots=True)
class DefenceRow:
    """One defence of a profile, in a corpus, for an owner. `tripped_at` (seconds since the epoch) is None while it has
    not tripped, `pin` None unless an operator holds it `on` or `off`."""

    name: str
    profile: str
    state: str
    tripped_at: float | None
    corpus: str = WHOLE_INSTANCE
    owner: str = WHOLE_INSTANCE
    pin: Pin | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether it has tripped, or an operator holds it."""
        return self.tripped_at is not None or self.pin is not None


@dataclass(frozen=True, slots=True)
class Position:
    """The last run that was examined, in the order of decisions; and the number of writes so far."""

    decided_at: float = 0.0
    run_id: str = ""
    writes: int = 0


class Defences(LedgerPart):
    """The defences of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def rows(self) -> tuple[Position, tuple[DefenceRow, ...]]:
        """Return the position in the runs, and every defence of every scope."""
        with self._database.reading() as connection:
            position = connection.execute(_ONE, _named(_POSITION)).first()
            rows = connection.execute(_ALL).all()
        return _position_in(position), tuple(map(_row_of, rows))

    def standing(self) -> tuple[DefenceRow, ...]:
        """Return the defences that have tripped, and those that an operator holds."""
        return tuple(map(_row_of, self._database.read(_STANDING).all()))

    def write(
        self, seen: Position, position: Position, rows: Iterable[DefenceRow], changes: Sequence[ControlChange] = ()
    ) -> tuple[CreatedRun, ...] | None:
        """Move on from `seen`, writing the rows and recording the changes; None where another process moved meanwhile.

        Returns the control runs, which the caller announces.
        """
        now = self._clock()
        with self._database.writing() as connection:
            if not _move(connection, seen, position, now):
                return None
            for row in rows:
                _put(connection, row, now)
            return tuple(record_control(connection, change, now) for change in changes)

    def take_trickle(self, profile: str, day: str, most: int, owner: str = WHOLE_INSTANCE) -> bool:
        """Let one more of the owner's runs ignore the profile's step back that day; False if `most` have done so."""
        with self._database.writing() as connection:
            found = connection.execute(_ONE.with_for_update(), _named(_TRICKLE, profile, owner)).first()
            taken = json.loads(found.state) if found else {}
            runs = int(taken.get("runs", 0)) if taken.get("day") == day else 0
            if runs >= most:
                return False
            state = json.dumps({"day": day, "runs": runs + 1})
            _put(connection, DefenceRow(_TRICKLE, profile, state, None, owner=owner), self._clock())
            return True


def _move(connection: Transaction, seen: Position, position: Position, now: float) -> bool:
    becomes = _told(Position(position.decided_at, position.run_id, seen.writes + 1))
    where = {"name": _POSITION, **dict.fromkeys(_KEY[1:], WHOLE_INSTANCE)}
    if seen.writes:
        written = {"state": becomes, "changed_at": now}
        return connection.update(defences, {**where, "state": _told(seen)}, written) == 1
    row = {**where, "state": becomes, "tripped_at": None, "changed_at": now}
    return connection.insert_once(defences, row)


def _put(connection: Transaction, row: DefenceRow, now: float) -> None:
    facts = {**asdict(row), "changed_at": now}
    connection.put(defences, facts, _KEY, ("state", "tripped_at", "pin", "changed_at"))


def _named(name: str, profile: str = WHOLE_INSTANCE, owner: str = WHOLE_INSTANCE) -> dict[str, str]:
    return {"of_name": name, "of_profile": profile, "of_corpus": WHOLE_INSTANCE, "of_owner": owner}


def _told(position: Position) -> str:
    return json.dumps([position.decided_at, position.run_id, position.writes])


def _position_in(row: AnyRow | None) -> Position:
    return Position(*json.loads(row.state)) if row is not None else Position()


def _row_of(row: AnyRow) -> DefenceRow:
    return DefenceRow(row.name, row.profile, row.state, row.tripped_at, row.corpus, row.owner, row.pin)


_DECIDED_BY = configurations.c
_OLDEST_FIRST = select(configurations).order_by(_DECIDED_BY.first_decided_at, _DECIDED_BY.config_hash)
_OF_PROFILE = (
    select(_DECIDED_BY.config_hash, _DECIDED_BY.first_decided_at)
    .where(_DECIDED_BY.profile == bindparam("of_profile"))
    .order_by(_DECIDED_BY.first_decided_at.desc(), _DECIDED_BY.config_hash)
)


class Configurations(LedgerPart):
    """Configurations by which the gate has decided, and since when: the gate falls back to earlier ones.

    A configuration is named by the hash of a profile, whose canonical bytes are stored as the blob of that name; with a
    learned model, the model's version follows after a "+". Every method is one transaction and may raise `Unavailable`.
    """

    def record(self, profile: str, config_hash: str, decided_at: float) -> bool:
        """Record that the profile decided by this configuration; return whether that is new. The first time stays."""
        row = {"profile": profile, "config_hash": config_hash, "first_decided_at": decided_at}
        with self._database.writing() as connection:
            return connection.insert_once(configurations, row)

    def before(self, profile: str, config_hash: str, without: Collection[str] = ()) -> str | None:
        """Return the profile's latest earlier configuration not in `without`; None if none is, or this is unknown."""
        rows = self._database.read(_OF_PROFILE, {"of_profile": profile}).all()
        since = next((row.first_decided_at for row in rows if row.config_hash == config_hash), None)
        if since is None:
            return None
        earlier = (row.config_hash for row in rows if row.first_decided_at < since)
        return next((one for one in earlier if one not in without), None)

    def all(self) -> list[tuple[str, str, float]]:
        """Return profile, configuration and the time of its first decision, in seconds since 1970; the oldest first."""
        return [tuple(row) for row in self._database.read(_OLDEST_FIRST)]


_IN = rollouts.c
_IS_ACTIVE = _IN.status.in_(sorted(ACTIVE))
_ACTIVE = select(*(column for column in _IN if column.name != "history")).where(_IS_ACTIVE)
_EVERY_ROLLOUT = select(rollouts).order_by(_IN.changed_at.desc(), _IN.model_version)
_ASKED = ("canary", "promoted", "shadow")
_DECISIONS = (
    select(events.c.payload)
    .join(outcomes, outcomes.c.run_id == events.c.run_id)
    .where(
        outcomes.c.model_version == bindparam("of_version"),
        outcomes.c.arm.in_(_ASKED),
        outcomes.c.decided_at >= bindparam("since"),
        events.c.kind == GateDecided.kind,
    )
    .order_by(outcomes.c.decided_at.desc())
    .limit(bindparam("most"))
)
_history = TypeAdapter(tuple[RolloutStep, ...])


class Rollouts(LedgerPart):
    """The rollouts of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def active(self) -> Rollout | None:
        """Return the model that takes part in decisions, without its history, or None. Read for each decision."""
        row = self._database.read(_ACTIVE).first()
        return None if row is None else _rollout(row)

    def list(self) -> Sequence[Rollout]:
        """Return every model that was tried, the latest changed first."""
        return [_rollout(row) for row in self._database.read(_EVERY_ROLLOUT).all()]

    def find(self, model_version: str) -> Rollout | None:
        """Return the rollout of a model; None where it was never tried."""
        with self._database.reading() as connection:
            row = connection.select(rollouts, {"model_version": model_version}).first()
        return None if row is None else _rollout(row)

    def decisions(self, model_version: str, since: float, most: int) -> Sequence[GateDecided]:
        """Return the latest decisions that queried a model, since a moment, in seconds since 1970."""
        rows = self._database.read(_DECISIONS, {"of_version": model_version, "since": since, "most": most}).all()
        return [decode(row.payload).body_as(GateDecided) for row in rows]

    def change(self, becomes: Rollout, was: Rollout | None, change: ControlChange) -> CreatedRun:
        """Store `becomes` as its model's rollout and record `change`; the caller announces `CreatedRun.events`.

        `was` is the rollout as the caller read it; None where the model was never tried. Raises `Conflict` if it was
        changed since, or another model is active.
        """
        with self._database.writing() as connection:
            _refuse_second(connection, becomes)
            row = _rollout_row(becomes)
            if was is None:
                changed = connection.insert_once(rollouts, row)
            else:
                seen = {"status": was.status, "share": was.share, "changed_at": was.changed_at.timestamp()}
                changed = connection.update(rollouts, {"model_version": becomes.model_version, **seen}, row) == 1
            if not changed:
                raise Conflict(f"the rollout of model {becomes.model_version} was changed meanwhile; look at it again")
            return record_control(connection, change, self._clock())


def _refuse_second(connection: Transaction, becomes: Rollout) -> None:
    if not becomes.is_active:
        return
    row = connection.execute(_ACTIVE).first()
    if row is not None and row.model_version != becomes.model_version:
        told = f"model {row.model_version} is active already ({row.status})"
        raise Conflict(f"{told}; one model is tried at a time: `sluice gate rollout --rollback` ends its part first")


_SAME = ("model_version", "model_sha256", "unit", "status", "share", "operator")
_MOMENTS = ("began_at", "stage_began_at", "changed_at")


def _rollout_row(rollout: Rollout) -> dict[str, Any]:
    return {
        **{name: getattr(rollout, name) for name in _SAME},
        **{name: getattr(rollout, name).timestamp() for name in _MOMENTS},
        "stages": json.dumps([rollout.stages, rollout.expected_runs]),
        "history": _history.dump_json(rollout.history).decode(),
        "active": 1 if rollout.is_active else None,
    }


def _rollout(row: AnyRow) -> Rollout:
    stages, expected_runs = json.loads(row.stages)
    return Rollout(
        stages=stages,
        expected_runs=expected_runs,
        history=_history.validate_json(row.history) if hasattr(row, "history") else (),
        **{name: getattr(row, name) for name in _SAME},
        **{name: moment(getattr(row, name)) for name in _MOMENTS},
    )
