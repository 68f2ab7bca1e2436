"""The part that a learned model has in one decision: the draw of the active rollout, and the model itself.

Read for every decision, so a rollout that was stopped, or the flag `learned_gate` switched off, counts from the next
decision on. The flag is off unless somebody has switched it on. A model that cannot be read decides nothing: the
profile's weights do, as if there were none. Nor does a model decide a run for which an earlier configuration does
(`Control.fallback_from`): that one had no such model.
"""

from __future__ import annotations

import structlog

from sluice.contracts.errors import Corrupted, InvalidInput, NotFound
from sluice.contracts.gate import GateRequested
from sluice.contracts.learning.control import Control
from sluice.gate.learned.model import GateModel
from sluice.gate.learned.rollout import draw
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.runtime.gate_models import GateModels

log = structlog.get_logger(__name__)

ASKED_ARMS = ("shadow", "canary", "promoted")
"""The control and the rest are decided as if there were no model, so it is not asked for them."""


def join_learned_gate(
    control: Control, request: GateRequested, run_id: str, ledger: Ledger, models: GateModels, flags: FlagReader
) -> tuple[Control, GateModel | None]:
    """`control` with the part that a model has in the decision of this run, and the model where it is asked."""
    if "learned_gate" in control.flags_off or control.fallback_from is not None:
        return control, None
    rollout = ledger.rollouts.active()
    if rollout is None or not flags.enabled_now("learned_gate"):
        return control, None
    use = draw(rollout, request, run_id)
    steered = control.model_copy(update={"model": use})
    if use.arm not in ASKED_ARMS:
        return steered, None
    try:
        return steered, models.named(use.model_sha256)
    except (NotFound, InvalidInput, Corrupted) as error:
        metrics.GATE_MODEL_FAILURES.inc()
        log.error("gate_model_unreadable", model_version=use.version, error=str(error))
        return steered, None
