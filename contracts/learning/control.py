"""What steers the gate beside its profile: flags, its own steps back, a learned model, a judge.

`Control` is recorded in each decision that anything of it took part in, so that the decision can be computed again.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluice.contracts.base import LaterText, Moment, Sha256, Switch, Value, is_empty, is_none
from sluice.contracts.plan import Plan

FlagName = Literal["gate_weights", "search", "crawl", "hybrid", "rerank", "learned_gate", "ragas", "graph", "memory"]
FlagSource = Literal["kill_switch", "policy", "environment", "stored", "default"]
"""Who decides a flag, the strongest first."""


FlagAction = Literal["on", "off", "kill", "reset"]
"""What an operator does to a flag. A killed one is off whatever else decides; `reset` takes back all that is stored."""


class FlagState(Value):
    """A feature flag as it stands, and which source decided it. `changed_at` is when an operator stored a value."""

    name: FlagName
    enabled: bool
    decided_by: FlagSource
    why: str = ""
    changed_at: Moment | None = None
    operator: str | None = None
    note: str = ""


DefenceName = Literal["satisfaction", "freshness", "latency", "cost"]
Step = Literal["previous_configuration", "lower_plan", "retrieve_only"]
"""How the gate steps back: to the configuration before, by one plan, or to the local corpus alone."""


class Defence(Value):
    """A step back that stands: what tripped it, with the figures, and what will end it."""

    name: DefenceName
    step: Step
    profile: str
    since: Moment
    why: str
    lifted_by: str


Arm = Literal["shadow", "canary", "control", "default", "promoted"]
"""What a model is to one run: it decides beside (`shadow`), or for it (`canary`, `promoted`); or the run is of those
that the canary is compared with (`control`), or of the rest (`default`)."""


class ModelUse(Value):
    """The part that a learned model had in one decision.

    `bucket` in [0, 1) is the draw of `unit`; `propensity` the share of units that get this arm. `probability` is the
    model's, calibrated, that the corpus answers the question, and `plan` the plan that follows from it; both are None
    where the model was not asked. `model_sha256` names the model's file among the blobs.
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
    """What a judge said, in its own words, to whether the passages answer the question; and what asking it cost."""

    verdict: Literal["sufficient", "insufficient", "unsure"]
    words: Annotated[str, Field(max_length=4_000)]
    model: str
    usd: Annotated[float, Field(ge=0)] = 0.0
    milliseconds: Annotated[float, Field(ge=0)] = 0.0


class Control(Value):
    """What steered one decision beside its profile.

    `observe`: the gate decides and records, and never goes outside. `flags_off` are the features that a flag switched
    off. `is_trickle`: the run is one of the few that ignore the steps back, so that an improvement can be seen.
    `fallback_from` is the hash of the configuration that the decision would have been made by.
    """

    observe: Switch = False
    flags_off: Annotated[tuple[FlagName, ...], Field(exclude_if=is_empty)] = ()
    defences: Annotated[tuple[Defence, ...], Field(exclude_if=is_empty)] = ()
    is_trickle: Switch = False
    fallback_from: LaterText = None
    model: Annotated[ModelUse | None, Field(exclude_if=is_none)] = None


NO_CONTROL = Control()
"""Nothing but the profile steers the gate."""


class FlagRequest(Value):
    """`PUT /v1/flags/{name}`: store whether it is on; or with `kill`, hold it off whatever else decides."""

    enabled: bool
    kill: bool = False
    note: Annotated[str, Field(max_length=4_000)] = ""

    @model_validator(mode="after")
    def _killed_is_off(self) -> FlagRequest:
        if self.kill and self.enabled:
            raise ValueError("kill switches off: send enabled false with it")
        return self

    @property
    def action(self) -> FlagAction:
        """What is asked for."""
        return "kill" if self.kill else "on" if self.enabled else "off"


class FlagResult(Value):
    """The flag as it stands then. `run_id` is the control run that records the change; None where nothing changed.

    `purged` is how many directives were cancelled, because they waited for what is off now.
    """

    state: FlagState
    run_id: str | None = None
    purged: Annotated[int, Field(ge=0)] = 0
