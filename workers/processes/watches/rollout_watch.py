"""Looks at the canary of a learned model, and moves it on or stops it by the verdict on its stage.

Of all processes of an instance one does so: whoever gets a lease in the ledger. A step is one transaction, which takes
place only from the state that was looked at; a process that is killed has taken it whole or not at all, and the next
look finds the rollout as it stands.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.errors import Conflict
from sluice.contracts.learning.rollout import Rollout
from sluice.gate.learned.rollout import Cause, advance, note_verdict, stop
from sluice.ledger.dead_letters.audit import SLUICE
from sluice.otel import metrics
from sluice.workers.service.learning.rollouts import JudgedStage, change_rollout, judge_rollout

if TYPE_CHECKING:
    from sluice.workers.context import Context

log = structlog.get_logger(__name__)

LOOK_SECONDS = 60.0
"""Between two looks of all processes together. The test holds at every look, so it may be looked at any time."""
LEASE = "rollout_watch"
REST = 20.0
"""A look that takes long, of a canary with many runs, is followed by a rest of so many times as long."""


class RolloutWatch:
    """The watch of one process."""

    def __init__(self, context: Context, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._context, self._monotonic = context, monotonic
        self._rests_until = 0.0
        self._holder = secrets.token_hex(8)
        self._shown: set[tuple[str, str]] = set()
        """Labels of the gauge that were set."""

    def look(self) -> None:
        """Judge the canary's stage, where there is a canary, and do what the verdict says.

        Raises:
            Unavailable: the ledger does not answer; the next look tries again.
        """
        ledger = self._context.ledger
        active = ledger.rollouts.active()
        measure(active, self._shown)
        began = self._monotonic()
        if began < self._rests_until or active is None or active.status != "canary":
            return
        if not ledger.lease(LEASE, self._holder, LOOK_SECONDS / 2):
            return
        rollout = ledger.rollouts.find(active.model_version)
        if rollout is None or rollout.status != "canary":
            return
        try:
            self._follow(rollout, judge_rollout(self._context, rollout))
        except Conflict:  # an operator was faster
            log.info("rollout_changed_meanwhile", model_version=rollout.model_version)
        self._rests_until = self._monotonic() + REST * (self._monotonic() - began)

    def _follow(self, rollout: Rollout, judged: JudgedStage) -> None:
        verdict = judged.verdict
        cause = Cause(
            datetime.fromtimestamp(self._context.ledger.clock(), UTC),
            SLUICE,
            verdict.why,
            verdict.kind,
            verdict.canary_runs,
            verdict.control_runs,
        )
        match verdict.kind:
            case "promote":
                becomes = advance(rollout, cause)
            case "stop":
                becomes = stop(rollout, cause)
            case "inconclusive" if rollout.history[-1].verdict != "inconclusive" and judged.is_worth_telling:
                becomes = note_verdict(rollout, cause)
            case _:
                return
        change_rollout(self._context, becomes, rollout, verdict.kind)
        metrics.GATE_ROLLOUT_VERDICTS.labels(verdict.kind).inc()
        measure(becomes, self._shown)
        log.warning("rollout_changed", model_version=rollout.model_version, verdict=verdict.kind, why=verdict.why)


def measure(rollout: Rollout | None, shown: set[tuple[str, str]]) -> None:
    """Set the gauge of the model that is active and of its share; those `shown` before stand at 0 from now on."""
    now = {(rollout.model_version, rollout.status)} if rollout is not None and rollout.is_active else set()
    for labels in shown - now:
        metrics.GATE_MODEL_VERSION.labels(*labels).set(0)
    for labels in now:
        metrics.GATE_MODEL_VERSION.labels(*labels).set(rollout.share if rollout else 0)
    shown |= now
