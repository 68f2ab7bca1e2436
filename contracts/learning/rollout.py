"""The rollout of a learned model into the gate: shadow, canary, promoted or stopped."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import Moment, Sha256, Value

RolloutStatus = Literal["shadow", "canary", "promoted", "stopped"]
"""The model decides beside the gate; for a share of the units; for all; or no longer."""
ACTIVE: frozenset[RolloutStatus] = frozenset({"shadow", "canary", "promoted"})
"""The states in which a model has a part in decisions."""

Unit = Literal["run", "session"]
"""The unit of the random draw: each run alone, or all runs of an agent's session together."""

VerdictKind = Literal["promote", "stop", "continue", "inconclusive"]

Share = Annotated[float, Field(ge=0, le=1)]
ModelVersion = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]


class Cause(Value):
    """Operator, time and reason of a rollout's change; and the verdict on the canary's stage, with its arms' sizes."""

    at: Moment
    operator: str
    verdict: VerdictKind | None = None
    why: str = ""
    canary_runs: Annotated[int, Field(ge=0)] = 0
    control_runs: Annotated[int, Field(ge=0)] = 0


class RolloutStep(Cause):
    """One change of a rollout, to a new state and share. `verdict` is that of the previous stage."""

    status: RolloutStatus
    share: Share


class Rollout(Value):
    """The current rollout of one model.

    The model decides `share` of the units, and as many are its control; `stages` are the shares that a canary goes
    through. `began_at` is when its latest trial began (the canary's first stage, or the shadow), `stage_began_at` when
    it got its present share. `expected_runs` is the most gate runs that each stage takes.
    """

    model_version: ModelVersion
    model_sha256: Sha256
    unit: Unit = "session"
    status: RolloutStatus
    stages: tuple[Share, ...] = ()
    expected_runs: tuple[int, ...] = ()
    share: Share
    began_at: Moment
    stage_began_at: Moment
    changed_at: Moment
    operator: str
    history: tuple[RolloutStep, ...] = ()

    @property
    def is_active(self) -> bool:
        """Return whether the model has a part in decisions."""
        return self.status in ACTIVE

    @property
    def stage(self) -> int | None:
        """Return the number of the current stage from 0; None if the canary is in no stage."""
        return self.stages.index(self.share) if self.status == "canary" and self.share in self.stages else None

    @property
    def next_share(self) -> float:
        """Return the share after the current one; 1 after the last."""
        return next((share for share in self.stages if share > self.share), 1.0)


class RolloutRequest(Value):
    """`POST /v1/rollouts`: an action on a model. `version` may be omitted while one model is active."""

    action: Literal["shadow", "canary", "stop", "promote", "rollback"]
    version: ModelVersion | None = None
    stages: tuple[Share, ...] = (0.1, 0.5, 1.0)
    unit: Unit = "session"
    note: Annotated[str, Field(max_length=1_000)] = ""
