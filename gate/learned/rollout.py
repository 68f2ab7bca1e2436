r"""The share of runs that a model decides during its rollout: a draw by salted hash, the same in every process.

    bucket = first 8 bytes of SHA-256("rollout:" + model version + ":" + unit) / 2^64

    0        share                    1 - share        1
    |--canary--|------- default -------|---- control ----|

The canary and its control are of equal size and never overlap; at a share of one half they are all there is. As the
share grows both only grow, so a unit that the model decides is decided by it in all later stages. Each model version
has its own salt, so no unit is always among the first; every other draw of Sluice has its own salt too.

The unit is the agent's session if there is one, so that no session is split, else the run. A session is identified by
the request's `session_id`; without it by the user's first message in the request's session. If an agent sends no
`session_id`, a session's first question has no messages and is drawn as a run, and two sessions that begin with the
same words are one unit: an agent should send its `session_id` if it can.

Plain functions move a rollout from one state to the next, values in, a value out:

    shadow ----> canary 10 % -> 50 % ----> promoted
       \             |                        |
        +------------+--------> stopped <-----+          a stopped one may begin again

A forbidden transition raises `Conflict`. Each step records its operator, its reason and the verdict that led to it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.gate import GateRequested
from sluice.contracts.learning.control import Arm, Cause, ModelUse, Rollout, RolloutStatus, RolloutStep, Unit
from sluice.contracts.learning.events import RolloutChanged

LARGEST_SHARE_WITH_CONTROL = 0.5
SALT = "rollout"
_BELOW_ONE = math.nextafter(1.0, 0.0)


def bucket_of(subject: str, unit: str) -> float:
    """Return the draw of a unit for a subject (a model's version, a flag), in [0, 1)."""
    digest = hashlib.sha256(f"{SALT}:{subject}:{unit}".encode()).digest()
    return min(int.from_bytes(digest[:8]) / 2**64, _BELOW_ONE)


def arm_of(bucket: float, share: float) -> Arm:
    """Return the arm of a unit by its draw, at a canary's share in (0, 0.5]."""
    if bucket < share:
        return "canary"
    return "control" if bucket >= 1 - share else "default"


def propensity_of(arm: Arm, share: float) -> float:
    """Return the share of the units that get this arm."""
    match arm:
        case "canary" | "control":
            return share
        case "default":
            return 1 - 2 * share
        case "shadow" | "promoted":
            return 1.0


def unit_of(request: GateRequested, run_id: str, wanted: Unit) -> tuple[Unit, str]:
    """Return the unit of the draw and its name: the session if `wanted` names it and there is one, else the run."""
    if wanted == "session":
        if request.session_id is not None:
            return "session", request.session_id
        said = next((message.content for message in request.session if message.role == "user"), None)
        if said is not None:
            return "session", hashlib.sha256(said.encode()).hexdigest()
    return "run", run_id


def draw(rollout: Rollout, request: GateRequested, run_id: str) -> ModelUse:
    """Return the model's part in the decision of a run, by an active rollout; the model is not run yet."""
    unit, name = unit_of(request, run_id, rollout.unit)
    bucket = bucket_of(rollout.model_version, name)
    arm = arm_of(bucket, rollout.share) if rollout.status == "canary" else _ARM_OF[rollout.status]
    return ModelUse(
        version=rollout.model_version,
        model_sha256=rollout.model_sha256,
        arm=arm,
        unit=unit,
        bucket=bucket,
        propensity=propensity_of(arm, rollout.share),
    )


_ARM_OF: dict[RolloutStatus, Arm] = {"shadow": "shadow", "promoted": "promoted"}
"""States in which all units have the same arm."""


def check_stages(stages: Sequence[float]) -> tuple[float, ...]:
    """Return the shares of a canary. Raises `InvalidInput` unless they grow to 1, each but the last with room for a
    control of equal size."""
    growing = all(before < after for before, after in pairwise(stages))
    if len(stages) < 2 or not growing or stages[0] <= 0 or stages[-1] != 1:
        raise InvalidInput("stages", f"{_told(stages)} do not grow to 100 %", "for instance 10,50,100")
    if stages[-2] > LARGEST_SHARE_WITH_CONTROL:
        problem = f"{stages[-2]:.0%} leaves no room for a control of equal size"
        raise InvalidInput("stages", problem, "50 at most before 100")
    return tuple(stages)


def _told(stages: Sequence[float]) -> str:
    return ", ".join(f"{share * 100:g} %" for share in stages) or "no stages"


MOST_STEPS = 100
"""Steps kept in the rollout; the events record all of them."""


def begin(
    was: Rollout | None,
    model_version: str,
    model_sha256: str,
    cause: Cause,
    *,
    stages: tuple[float, ...] = (),
    expected_runs: tuple[int, ...] = (),
    unit: Unit = "session",
) -> Rollout:
    """Begin a model's shadow, or with `stages` the first stage of its canary. Raises `Conflict` if the model is in the
    same state already, or decides more runs than it would then."""
    status: RolloutStatus = "canary" if stages else "shadow"
    if was is not None and was.status in ("canary", "promoted"):
        raise Conflict(
            f"model {model_version} is {_state_of(was)} already; `sluice gate rollout --stop` ends that first"
        )
    if was is not None and was.status == status:
        raise Conflict(f"model {model_version} is in its shadow already")
    begun = Rollout(
        model_version=model_version,
        model_sha256=model_sha256,
        unit=unit,
        status=status,
        stages=stages,
        expected_runs=expected_runs,
        share=stages[0] if stages else 0.0,
        began_at=cause.at,
        stage_began_at=cause.at,
        changed_at=cause.at,
        operator=cause.operator,
        history=was.history if was else (),
    )
    return _with_step(begun, cause)


def advance(was: Rollout, cause: Cause) -> Rollout:
    """Move a canary to its next stage; after the last, and from a shadow, the model decides every run.
    Raises `Conflict` if the model has no part in decisions, or is promoted already."""
    if was.status not in ("shadow", "canary"):
        raise Conflict(f"model {was.model_version} is {was.status}: only a shadow or a canary can be promoted")
    status: RolloutStatus = "promoted" if was.next_share == 1 else "canary"
    return _with_step(was, cause, status=status, share=was.next_share, stage_began_at=cause.at)


def stop(was: Rollout, cause: Cause) -> Rollout:
    """Stop the model: the profile's weights decide again. Raises `Conflict` if it is stopped already."""
    if not was.is_active:
        raise Conflict(f"model {was.model_version} is stopped already")
    return _with_step(was, cause, status="stopped", share=0.0)


def note_verdict(was: Rollout, cause: Cause) -> Rollout:
    """Record a verdict that leaves the state as it is: the stage is inconclusive."""
    return _with_step(was, cause)


def event_of(becomes: Rollout, was: Rollout | None) -> RolloutChanged:
    """Return the event of the latest step."""
    step = becomes.history[-1]
    return RolloutChanged(
        model_version=becomes.model_version,
        model_sha256=becomes.model_sha256,
        was_status=was.status if was else None,
        was_share=was.share if was else 0.0,
        status=becomes.status,
        share=becomes.share,
        verdict=step.verdict,
        why=step.why,
        operator=becomes.operator,
    )


def _with_step(was: Rollout, cause: Cause, **changes: Any) -> Rollout:
    rollout = was.model_copy(update={"changed_at": cause.at, "operator": cause.operator, **changes})
    step = RolloutStep(**dict(cause), status=rollout.status, share=rollout.share)
    return rollout.model_copy(update={"history": (*rollout.history, step)[-MOST_STEPS:]})


def _state_of(rollout: Rollout) -> str:
    return f"a canary of {rollout.share:.0%}" if rollout.status == "canary" else rollout.status
