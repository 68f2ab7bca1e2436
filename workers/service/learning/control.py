"""Changes what steers the gate: feature flags and steps back. Each change is recorded in a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from sluice.contracts.api import DefenceView
from sluice.contracts.errors import Conflict, InvalidSetting, NotFound
from sluice.contracts.learning.control import DefenceName, FlagAction, FlagName, FlagResult, FlagState
from sluice.contracts.learning.events import DefenceHealed
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.evaluation.defence import DefenceState, heal
from sluice.ledger.events.control_runs import ControlChange
from sluice.ledger.learning.defences import DefenceRow
from sluice.ledger.ledger import CreatedRun, Ledger
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.runtime.flag_rules import NAMES
from sluice.workers.service.caller import Caller


def announce_control(context: Context, created: CreatedRun) -> None:
    """Tell those who follow the run; without a broker there is nobody."""
    with suppress(InvalidSetting):
        context.transport.announce(created.events)


class FlagDesk:
    """What can be asked about flags, and done to them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def states(self, caller: Caller) -> Sequence[FlagState]:
        """Every flag as it stands, and who decides it; which operator, when and why, is for operators."""
        states = self._context.flags.states()
        if caller.role == "operator":
            return states
        return [FlagState(name=one.name, enabled=one.enabled, decided_by=one.decided_by) for one in states]

    def history(self, name: str) -> Sequence[OperatorAction]:
        """What operators did to a flag, in order.

        Raises:
            NotFound: there is no such flag.
        """
        return self._context.ledger.flags.history(known_flag(name))

    def change(self, name: str, action: FlagAction, caller: Caller, note: str) -> FlagResult:
        """Change a flag. Where search or crawl is off then, what waits for it is cancelled, and its runs go on without.

        Raises:
            Forbidden: the caller is no operator of the whole instance.
            NotFound: there is no such flag.
            Conflict: it is killed, and must be reset before it is switched on.
        """
        caller.may_operate_instance()
        known = known_flag(name)
        flags, ledger = self._context.flags, self._context.ledger
        change = ledger.flags.change(known, action, caller.owner, note, lambda stored: flags.resolve(known, stored))
        if change.run is not None:
            metrics.PURGED_DIRECTIVES.labels(known).inc(change.purged)
            announce_control(self._context, change.run)
            with suppress(InvalidSetting):  # no broker is known; the reconciler finds what is ready
                self._context.transport.publish(change.emitted)
        return FlagResult(state=change.state, run_id=change.run.run_id if change.run else None, purged=change.purged)


def known_flag(name: str) -> FlagName:
    """The name, known to be a flag's.

    Raises:
        NotFound: it is none.
    """
    if name not in NAMES:
        raise NotFound(f"no flag {name!r}: there are {', '.join(NAMES)}")
    return name


_ATTEMPTS = 5
"""The look of another process may come between reading and writing; it takes milliseconds."""


def list_defences(ledger: Ledger) -> list[DefenceView]:
    """Every defence that has looked at something: by name and profile."""
    _, rows = ledger.defences.rows()
    return [_view(row) for row in rows]


def lift_defence(
    context: Context, name: DefenceName, operator: str, profile: str | None = None, note: str = ""
) -> Sequence[DefenceView]:
    """End a step back of one profile, or of all where none is named. Its windows begin anew. Recorded and audited.

    Raises:
        NotFound: none of that name stands.
        Conflict: other processes changed the steps back all the time; nothing was lifted.
    """
    ledger = context.ledger
    for _ in range(_ATTEMPTS):
        position, rows = ledger.defences.rows()
        standing = [row for row in rows if row.name == name and row.tripped_at and profile in (None, row.profile)]
        if not standing:
            of = "" if profile is None else f" of profile {profile!r}"
            raise NotFound(f"no step back {name!r}{of} stands; `sluice gate defences` tells which do")
        lifted = [_lifted(row, ledger.clock()) for row in standing]
        changes = [_change(row, operator, note) for row in standing]
        created = ledger.defences.write(position, position, lifted, changes)
        if created is not None:
            for run in created:
                announce_control(context, run)
            return [_view(row) for row in lifted]
    raise Conflict("the steps back changed meanwhile: try again")


def _lifted(row: DefenceRow, now: float) -> DefenceRow:
    state = heal(DefenceState.model_validate_json(row.state))
    if row.name == "cost":
        state = state.model_copy(update={"lifted_day": datetime.fromtimestamp(now, UTC).date().isoformat()})
    return DefenceRow(row.name, row.profile, state.model_dump_json(), None)


def _change(row: DefenceRow, operator: str, note: str) -> ControlChange:
    why = note or "lifted"
    healed = DefenceHealed.model_validate(
        {"name": row.name, "profile": row.profile, "by": "operator", "why": why, "operator": operator}
    )
    return ControlChange((healed,), "defence_lift", f"defence:{row.name}:{row.profile}", operator, note)


def _view(row: DefenceRow) -> DefenceView:
    state = DefenceState.model_validate_json(row.state)
    windows = tuple(
        f"{datetime.fromtimestamp(one.closed_at, UTC):%Y-%m-%d %H:%M} {one.verdict}: {one.why}" for one in state.closed
    )
    facts = {"name": row.name, "profile": row.profile, "stands": state.tripped, "windows": windows}
    return DefenceView.model_validate(
        facts | {"configuration": state.configuration, "falls_back_to": state.falls_back_to}
    )
