"""Controls of the gate beside its profile: flags, automatic fallbacks, a learned model and its rollout, a judge.

Each decision records the `Control` that took part in it, so that the decision can be recomputed. A learned model is
rolled out as shadow, then canary; in the end it is promoted or stopped.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluice.contracts.base import CorpusName, LaterText, Moment, Sha256, Switch, Value, is_empty, is_none
from sluice.contracts.plan import Plan

FlagName = Literal["gate_weights", "search", "crawl", "hybrid", "rerank", "learned_gate", "ragas", "graph", "memory"]
FlagSource = Literal["kill_switch", "policy", "environment", "stored", "default"]
"""The source that decides a flag, strongest first."""


FlagShare = Annotated[float | None, Field(gt=0, lt=1, exclude_if=is_none)]
"""The share of the runs that have a flag that is on, drawn by their ids; None: all of them."""
SHARED_FLAGS: frozenset[FlagName] = frozenset({"hybrid", "rerank", "graph"})
"""The flags of retrieval, which a share of the runs may have."""

FlagAction = Literal["on", "off", "kill", "reset"]
"""An operator's action on a flag. `kill` turns it off regardless of other sources; `reset` deletes stored values."""


class FlagState(Value):
    """The current state of a feature flag, and its source. `changed_at`: when an operator stored a value."""

    name: FlagName
    enabled: bool
    share: FlagShare = None
    decided_by: FlagSource
    why: str = ""
    changed_at: Moment | None = None
    operator: str | None = None
    note: str = ""


DefenceName = Literal["satisfaction", "freshness", "latency", "cost"]
Step = Literal["previous_configuration", "lower_plan", "retrieve_only"]
"""The gate's fallback: to the previous configuration, by one plan, or to the local corpus alone."""


class Defence(Value):
    """A fallback in force: its trigger with the figures, and the condition that ends it.

    It concerns the runs of `profile` in `corpus` by `owner` (an API key's id); None: of every corpus, of every owner.
    """

    name: DefenceName
    step: Step
    profile: str
    corpus: LaterText = None
    owner: LaterText = None
    since: Moment
    why: str
    lifted_by: str


Pin = Literal["on", "off"]


class DefencePin(Value):
    """`PUT /v1/defences/{name}`: hold a defence on or off, whatever the outcomes, until it is lifted.

    Of one profile or corpus, or of both together; without either it concerns the whole instance.
    """

    pin: Pin
    profile: Annotated[str | None, Field(max_length=32)] = None
    corpus: CorpusName | None = None
    note: Annotated[str, Field(max_length=1_000)] = ""


Arm = Literal["shadow", "canary", "control", "default", "promoted"]
"""A model's role in one run: it decides beside the gate (`shadow`) or for it (`canary`, `promoted`); or the run belongs
to the canary's comparison group (`control`), or to the rest (`default`)."""


class ModelUse(Value):
    """The part of a learned model in one decision.

    `bucket` in [0, 1) is the draw of `unit`; `propensity` the share of units that get this arm. `probability` is the
    model's calibrated probability that the corpus answers the question, `plan` the resulting plan; both are None if the
    model was not run. `model_sha256` names the model's file among the blobs.
    """

    version: str
    model_sha256: Sha256
    arm: Arm
    unit: Literal["run", "session"] = "run"
    bucket: Annotated[float, Field(ge=0, lt=1)]
    propensity: Annotated[float, Field(gt=0, le=1)]
    probability: Annotated[float | None, Field(ge=0, le=1)] = None
    plan: Plan | None = None


class Judgement(Value):
    """A judge's verdict on whether the passages answer the question, in its own words, and the cost of the call."""

    verdict: Literal["sufficient", "insufficient", "unsure"]
    words: Annotated[str, Field(max_length=4_000)]
    model: str
    usd: Annotated[float, Field(ge=0)] = 0.0
    milliseconds: Annotated[float, Field(ge=0)] = 0.0


class Control(Value):
    """The controls of one decision beside its profile. `observe`: the gate decides and records, and never goes outside.
    `flags_off` are the features that a flag switched off. `is_trickle`: the run is one of the few that ignore the
    fallbacks, so that an improvement can be seen. `fallback_from` is the hash of the configuration that would have
    decided without the fallback."""

    observe: Switch = False
    flags_off: Annotated[tuple[FlagName, ...], Field(exclude_if=is_empty)] = ()
    defences: Annotated[tuple[Defence, ...], Field(exclude_if=is_empty)] = ()
    is_trickle: Switch = False
    fallback_from: LaterText = None
    model: Annotated[ModelUse | None, Field(exclude_if=is_none)] = None


NO_CONTROL = Control()
"""The profile alone controls the gate."""


class FlagRequest(Value):
    """`PUT /v1/flags/{name}`: store whether it is on, and for which share of the runs (hybrid, rerank and graph alone);
    with `kill`, force it off regardless of other sources."""

    enabled: bool
    kill: bool = False
    share: FlagShare = None
    note: Annotated[str, Field(max_length=4_000)] = ""

    @model_validator(mode="after")
    def _killed_is_off(self) -> FlagRequest:
        if self.kill and self.enabled:
            raise ValueError("kill switches off: send enabled false with it")
        if self.share is not None and not self.enabled:
            raise ValueError("a share is of a flag that is on: send enabled true with it")
        return self

    @property
    def action(self) -> FlagAction:
        """Return the action that the request stands for."""
        return "kill" if self.kill else "on" if self.enabled else "off"


class FlagResult(Value):
    """The resulting flag. `run_id` is the control run that records the change; None where nothing changed. `purged` is
    the number of cancelled directives that were waiting for the feature now off."""

    state: FlagState
    run_id: str | None = None
    purged: Annotated[int, Field(ge=0)] = 0


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
