"""Feature flags, for operators of the whole instance."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sluice.contracts.errors import InvalidSetting, NotFound
from sluice.contracts.learning.control import FlagName, FlagState
from sluice.contracts.learning.events import FlagAction
from sluice.contracts.learning.flags import FlagResult
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.runtime.flag_rules import NAMES
from sluice.workers.service.caller import Caller
from sluice.workers.service.learning.control_events import announce_control


class FlagDesk:
    """What can be asked about flags, and done to them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def states(self, caller: Caller) -> Sequence[FlagState]:
        """Every flag as it stands, and who decides it; which operator, when and why, is for operators."""
        states = self._context.flags.states()
        return states if caller.role == "operator" else [_bare(state) for state in states]

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
                self._context.transport.announce(change.emitted)
        return FlagResult(state=change.state, run_id=change.run.run_id if change.run else None, purged=change.purged)


def _bare(state: FlagState) -> FlagState:
    return FlagState(name=state.name, enabled=state.enabled, decided_by=state.decided_by)


def known_flag(name: str) -> FlagName:
    """The name, known to be a flag's.

    Raises:
        NotFound: it is none.
    """
    if name not in NAMES:
        raise NotFound(f"no flag {name!r}: there are {', '.join(NAMES)}")
    return name
