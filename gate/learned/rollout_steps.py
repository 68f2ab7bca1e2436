r"""How a rollout goes from one state to the next: values in, a value out.

    shadow ----> canary 10 % -> 50 % ----> promoted
       \             |                        |
        +------------+--------> stopped <-----+          a stopped one may begin anew

What may not follow raises `Conflict`. Each step is kept with who took it, why, and the verdict that led to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sluice.contracts.errors import Conflict
from sluice.contracts.learning.events import RolloutChanged
from sluice.contracts.learning.rollout import Rollout, RolloutStatus, RolloutStep, Unit, VerdictKind

MOST_STEPS = 100
"""Steps that are kept; the events have all of them."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Who changes a rollout, when and why; and the verdict on the canary's stage, with the sizes of its arms."""

    at: datetime
    operator: str
    why: str = ""
    verdict: VerdictKind | None = None
    canary_runs: int = 0
    control_runs: int = 0


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
    """A model's shadow, or with `stages` its canary in the first of them.

    Raises:
        Conflict: the model is in the same state already, or decides more than it would then.
    """
    status: RolloutStatus = "canary" if stages else "shadow"
    if was is not None and was.status in ("canary", "promoted"):
        raise Conflict(f"model {model_version} is {_told(was)} already; `sluice gate canary stop` ends that first")
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


def advance(was: Rollout, cause: Cause, *, share: float | None = None) -> Rollout:
    """A canary at `share`, else in its next stage; a share of 1 is promotion, and so is what follows a shadow.

    Raises:
        Conflict: the model has no part in decisions, or is promoted already.
    """
    if was.status not in ("shadow", "canary"):
        raise Conflict(f"model {was.model_version} is {was.status}: only a shadow or a canary can be promoted")
    reached = was.next_share if share is None else share
    status: RolloutStatus = "promoted" if reached == 1 else "canary"
    return _with_step(was, cause, status=status, share=reached, stage_began_at=cause.at)


def stop(was: Rollout, cause: Cause) -> Rollout:
    """The model has no part in decisions any more: the profile's weights decide.

    Raises:
        Conflict: it has none already.
    """
    if not was.is_active:
        raise Conflict(f"model {was.model_version} is stopped already")
    return _with_step(was, cause, status="stopped", share=0.0)


def note_verdict(was: Rollout, cause: Cause) -> Rollout:
    """The same state, with a verdict that changes nothing but is to be known: the stage is inconclusive."""
    return _with_step(was, cause)


def event_of(becomes: Rollout, was: Rollout | None) -> RolloutChanged:
    """What tells of the latest step."""
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
    step = RolloutStep(
        at=cause.at,
        status=rollout.status,
        share=rollout.share,
        operator=cause.operator,
        verdict=cause.verdict,
        why=cause.why,
        canary_runs=cause.canary_runs,
        control_runs=cause.control_runs,
    )
    return rollout.model_copy(update={"history": (*rollout.history, step)[-MOST_STEPS:]})


def _told(rollout: Rollout) -> str:
    return f"a canary of {rollout.share:.0%}" if rollout.status == "canary" else rollout.status
