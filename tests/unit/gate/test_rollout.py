"""Who is drawn for a canary: the same in every process, nested stages, a control of equal size, sessions unsplit."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.gate import Message
from sluice.contracts.learning.control import Cause, Rollout, RolloutStatus
from sluice.gate.learned.rollout import (
    advance,
    arm_of,
    begin,
    bucket_of,
    check_stages,
    draw,
    propensity_of,
    stop,
    unit_of,
)
from tests.unit.gate.samples import asked

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CAUSE = Cause(at=NOW, operator="ann", why="to see")
STAGES = (0.1, 0.5, 1.0)


def rollout(status: RolloutStatus = "canary", share: float = 0.1) -> Rollout:
    begun = begin(None, "m1", "0" * 64, CAUSE, stages=STAGES, expected_runs=(100, 20))
    return begun.model_copy(update={"status": status, "share": share})


def test_the_bucket_is_the_one_that_the_rule_says() -> None:
    digest = hashlib.sha256(b"rollout:m1:s1").hexdigest()
    assert bucket_of("m1", "s1") == int(digest[:16], 16) / 2**64
    assert bucket_of("m1", "s1") != bucket_of("m2", "s1")


def test_units_are_spread_evenly_and_a_tenth_and_another_tenth_are_drawn() -> None:
    arms = Counter(arm_of(bucket_of("m1", f"unit-{number}"), 0.1) for number in range(20_000))
    assert arms["canary"] == pytest.approx(2_000, abs=150)
    assert arms["control"] == pytest.approx(2_000, abs=150)
    assert set(Counter(arm_of(bucket_of("m1", str(number)), 0.5) for number in range(1_000))) == {"canary", "control"}


@given(st.floats(0, 1, exclude_max=True), st.sampled_from([0.01, 0.1, 0.3, 0.5]), st.sampled_from([0.1, 0.4, 0.5]))
def test_what_an_arm_holds_it_holds_in_every_later_stage(bucket: float, share: float, later: float) -> None:
    if share <= later and (arm := arm_of(bucket, share)) != "default":
        assert arm_of(bucket, later) == arm


def test_the_propensities_of_the_arms_are_those_of_the_draw() -> None:
    assert [propensity_of(arm, 0.1) for arm in ("canary", "control")] == [0.1, 0.1]
    assert propensity_of("default", 0.1) == pytest.approx(0.8)
    assert propensity_of("shadow", 0.0) == propensity_of("promoted", 1.0) == 1.0


def test_a_session_is_drawn_once_by_its_id_or_by_what_its_user_said_first() -> None:
    said = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="hello"),
        Message(role="user", content="and now?"),
    )
    assert unit_of(asked(session_id="a"), "run_1", "session") == ("session", "a")
    by_words = unit_of(asked(session=said), "run_1", "session")
    assert by_words == unit_of(asked("another", session=said[:2]), "run_2", "session")
    assert by_words != unit_of(asked(session=(*said[:1], said[2])), "run_1", "session")
    assert unit_of(asked(session=said[:1]), "run_1", "session") == ("run", "run_1")
    assert unit_of(asked(session_id="a"), "run_1", "run") == ("run", "run_1")


def test_a_decision_says_how_its_arm_was_drawn() -> None:
    use = draw(rollout(), asked(session_id="a"), "run_1")
    assert (use.version, use.unit, use.bucket) == ("m1", "session", bucket_of("m1", "a"))
    assert use.arm == arm_of(use.bucket, 0.1)
    assert draw(rollout("shadow", 0.0), asked(), "run_1").arm == "shadow"
    assert draw(rollout("promoted", 1.0), asked(), "run_1").arm == "promoted"


@pytest.mark.parametrize("stages", [(), (1.0,), (0.5, 0.1, 1.0), (0.1, 0.5), (0.0, 1.0), (0.1, 0.75, 1.0), (0.1, 1.2)])
def test_stages_that_do_not_grow_to_all_with_a_control_beside_them_are_refused(stages: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="stages"):
        check_stages(stages)


def test_a_canary_goes_from_stage_to_stage_and_may_be_stopped_and_begun_anew() -> None:
    first = rollout()
    second = advance(first, CAUSE)
    promoted = advance(second, CAUSE)
    assert [(one.status, one.share, one.stage) for one in (first, second, promoted)] == [
        ("canary", 0.1, 0),
        ("canary", 0.5, 1),
        ("promoted", 1.0, None),
    ]
    stopped = stop(promoted, CAUSE)
    assert (stopped.status, stopped.share) == ("stopped", 0.0)
    assert [step.status for step in begin(stopped, "m1", "0" * 64, CAUSE).history] == [
        "canary",
        "canary",
        "promoted",
        "stopped",
        "shadow",
    ]
    for refused in (
        lambda: advance(promoted, CAUSE),
        lambda: stop(stopped, CAUSE),
        lambda: begin(first, "m1", "", CAUSE),
    ):
        with pytest.raises(Conflict):
            refused()
