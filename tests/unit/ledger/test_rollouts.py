"""Rollouts in the ledger: one active model, changes from the state that was seen, each with its event or not at all."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.errors import Conflict
from sluice.contracts.learning.control import Cause, Rollout
from sluice.contracts.learning.events import RolloutChanged
from sluice.gate.learned.rollout import advance, begin, event_of, stop
from sluice.ledger import audit
from sluice.ledger.audit import ControlChange
from sluice.ledger.learning import controls as rollouts_module
from tests.support.ledger_story import Story

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)
CAUSE = Cause(at=NOW, operator="ann", why="to see")


def canary(version: str = "m1") -> Rollout:
    return begin(None, version, "0" * 64, CAUSE, stages=(0.1, 0.5, 1.0), expected_runs=(100, 20))


def change(becomes: Rollout, was: Rollout | None = None) -> ControlChange:
    return ControlChange((event_of(becomes, was),), "rollout_canary", f"model:{becomes.model_version}", "ann")


def test_a_rollout_is_found_again_as_it_was_written_and_its_event_stands_in_a_finished_run(story: Story) -> None:
    rollouts, begun = story.ledger.rollouts, canary()
    made = rollouts.change(begun, None, change(begun))
    assert rollouts.find("m1") == begun
    assert rollouts.active() == begun.model_copy(update={"history": ()})
    assert rollouts.find("m2") is None
    [event] = story.ledger.events_of_kind(made.run_id, RolloutChanged.kind)
    assert event.body_as(RolloutChanged).share == 0.1
    assert story.ledger.status_of(made.run_id) == "finished"


def test_of_two_changes_from_the_same_state_one_is_refused(story: Story) -> None:
    rollouts, begun = story.ledger.rollouts, canary()
    rollouts.change(begun, None, change(begun))
    later = CAUSE.model_copy(update={"at": NOW + timedelta(seconds=1)})
    stopped = stop(begun, later)
    rollouts.change(stopped, begun, change(stopped, begun))
    advanced = advance(begun, later)
    with pytest.raises(Conflict, match="changed meanwhile"):
        rollouts.change(advanced, begun, change(advanced, begun))
    assert rollouts.find("m1") == stopped
    assert rollouts.active() is None


def test_one_model_is_active_at_a_time(story: Story) -> None:
    rollouts, begun, other = story.ledger.rollouts, canary(), canary("m2")
    rollouts.change(begun, None, change(begun))
    with pytest.raises(Conflict, match="model m1 is active already"):
        rollouts.change(other, None, change(other))
    stopped = stop(begun, CAUSE.model_copy(update={"at": NOW + timedelta(seconds=1)}))
    rollouts.change(stopped, begun, change(stopped, begun))
    rollouts.change(other, None, change(other))
    assert [one.model_version for one in rollouts.list()] == ["m1", "m2"]
    assert rollouts.active() == other.model_copy(update={"history": ()})


def test_a_process_killed_between_the_change_and_its_event_has_changed_nothing(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts, begun = story.ledger.rollouts, canary()
    rollouts.change(begun, None, change(begun))
    advanced = advance(begun, CAUSE.model_copy(update={"at": NOW + timedelta(seconds=1)}))
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(rollouts_module, "record_control", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        rollouts.change(advanced, begun, change(advanced, begun))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert rollouts.find("m1") == begun
    monkeypatch.setattr(rollouts_module, "record_control", audit.record_control)
    rollouts.change(advanced, begun, change(advanced, begun))
    assert rollouts.find("m1") == advanced
