"""What no question may wait for is done in the background, and ends when memory is closed."""

from __future__ import annotations

import threading
import time

import pytest

from sluice.contracts.errors import Unavailable
from sluice.memory.upkeep import Upkeep


def test_a_step_is_repeated_until_it_is_done() -> None:
    left = [3]

    def step() -> bool:
        left[0] -= 1
        return left[0] > 0

    upkeep = Upkeep()
    upkeep.do("something", step)
    upkeep.wait()
    assert left == [0]


def test_a_step_that_fails_is_left_for_another_time_and_others_go_on() -> None:
    done: list[str] = []

    def failing() -> bool:
        done.append("failed")
        raise Unavailable("away")

    def other() -> bool:
        done.append("other")
        return False

    upkeep = Upkeep()
    upkeep.do("one", failing)
    upkeep.do("other", other)
    upkeep.wait()
    upkeep.do("one", failing)
    upkeep.wait()
    assert sorted(done) == ["failed", "failed", "other"]


def test_closing_waits_for_the_present_step_alone() -> None:
    began, may_end, steps = threading.Event(), threading.Event(), [0]

    def endless() -> bool:
        steps[0] += 1
        began.set()
        return may_end.wait(20)

    upkeep = Upkeep()
    upkeep.do("endless", endless)
    assert began.wait(20)
    closing = threading.Thread(target=upkeep.close)
    closing.start()
    may_end.set()
    closing.join(20)
    assert not closing.is_alive()
    after = steps[0]
    upkeep.do("more", endless)
    assert steps[0] == after


def test_closing_ends_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.memory.upkeep.RESTS_PER_STEP", 1e6)
    stepped = threading.Event()

    def step() -> bool:
        time.sleep(0.001)
        stepped.set()
        return True

    upkeep = Upkeep()
    upkeep.do("endless", step)
    assert stepped.wait(20)
    closing = threading.Thread(target=upkeep.close)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
