"""Reads what steers one decision beside its profile, at the time of the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from sluice.contracts.errors import Corrupted, InvalidInput, NotFound
from sluice.contracts.gate import GateRequested, PolicyState
from sluice.contracts.learning.control import Control
from sluice.gate.learned.model import GateModel
from sluice.gate.learned.rollout import draw
from sluice.gate.profile import Profile, choose_profile
from sluice.gate.veto import MEMORY_POLICY, policy_of_corpus
from sluice.ledger.ledger import Ledger
from sluice.memory.qdrant_schema import is_memory_corpus
from sluice.otel import metrics
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.runtime.gate_control import GateModels, StandingDefences
from sluice.workers.settings import Settings
from sluice.workers.wiring.inject import Step

log = structlog.get_logger(__name__)

ASKED_ARMS = ("shadow", "canary", "promoted")
"""Arms whose decisions use the model. The control and the rest are decided without it."""


class Steered(NamedTuple):
    """Inputs of one decision: the profile, what steered it, the learned model if it takes part, and the policy."""

    profile: Profile
    control: Control
    model: GateModel | None
    policy: PolicyState


@dataclass(frozen=True, slots=True)
class Steering(Step):
    """Reads what steers decisions beside the requested profile: flags, the gate's steps back, a learned model.

    It reads anew for every decision, so what is switched or stopped counts from the next decision on.
    """

    settings: Settings
    policy: PolicyState
    profiles: Mapping[str, Profile]
    former_profiles: Mapping[str, Profile]
    standing_defences: StandingDefences
    flags: FlagReader
    gate_models: GateModels
    ledger: Ledger

    def of(self, run_id: str, corpus: str, request: GateRequested) -> Steered:
        """Return what decides a run of a corpus now. While the flag `gate_weights` is off, former profiles decide."""
        flags_off = self.flags.switched_off()
        profile = choose_profile(self.profiles, request.profile)
        if "gate_weights" in flags_off:
            profile = self.former_profiles.get(profile.name, profile)
        steps_back = self.standing_defences.of(run_id, profile)
        control = Control(
            observe=self.settings.gate.mode == "observe",
            flags_off=flags_off,
            defences=steps_back.defences,
            is_trickle=steps_back.is_trickle,
            fallback_from=steps_back.fallback_from,
        )
        control, model = self._join_model(control, request, run_id)
        own, policy = self.settings.trust.policy_of(corpus), self.policy
        if is_memory_corpus(corpus):  # memory asks nobody outside
            policy = MEMORY_POLICY
        policy = policy_of_corpus(policy, search=own.search, crawl=own.crawl)
        return Steered(steps_back.profile, control, model, policy)

    def _join_model(self, control: Control, request: GateRequested, run_id: str) -> tuple[Control, GateModel | None]:
        """Return `control` with the part that a model has in this run's decision, and the model if it is used.

        The flag `learned_gate` is off unless somebody has switched it on. A model that cannot be read decides nothing:
        the profile's weights do, as if there were none. Nor does a model decide a run for which an earlier
        configuration does (`Control.fallback_from`): that one had no such model.
        """
        if "learned_gate" in control.flags_off or control.fallback_from is not None:
            return control, None
        rollout = self.ledger.rollouts.active()
        if rollout is None or not self.flags.enabled_now("learned_gate"):
            return control, None
        use = draw(rollout, request, run_id)
        steered = control.model_copy(update={"model": use})
        if use.arm not in ASKED_ARMS:
            return steered, None
        try:
            return steered, self.gate_models.named(use.model_sha256)
        except (NotFound, InvalidInput, Corrupted) as error:
            metrics.GATE_MODEL_FAILURES.inc()
            log.error("gate_model_unreadable", model_version=use.version, error=str(error))
            return steered, None
