"""Recording that what steers the gate was changed: by an operator, or by Sluice itself."""

from __future__ import annotations

from contextlib import suppress

from sluice.contracts.errors import InvalidSetting
from sluice.contracts.event import Body
from sluice.ledger.dead_letters.audit import SLUICE
from sluice.ledger.events.control_runs import ControlChange
from sluice.ledger.ledger import CreatedRun
from sluice.workers.context import Context


def record(
    context: Context,
    *bodies: Body,
    operator: str = SLUICE,
    action: str,
    subject: str,
    note: str = "",
    key: str | None = None,
) -> CreatedRun:
    """Record `bodies` in a control run that is finished at once, audit the action, and announce the events.

    `action` and `subject` are for the operators' actions (`flag_off`, `flag:search`). With a `key` that was used before
    nothing is recorded (`created` is False), and the run is the one of then. Where a change of a table and its event
    must stand or fall together, call `ledger.events.control_runs.record_control` in the transaction of the change, and
    `announce_control` with what it returns.
    """
    created = context.ledger.record_control(ControlChange(bodies, action, subject, operator, note, key))
    announce_control(context, created)
    return created


def announce_control(context: Context, created: CreatedRun) -> None:
    """Tell those who follow the run; without a broker there is nobody."""
    with suppress(InvalidSetting):
        context.transport.announce(created.events)
