"""The end of a worker process: a drain is short, a retirement waits for what is in hand, and a signal hurries both."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

from sluice.workers.processes import shutdown
from sluice.workers.processes.kernel import RETIRE
from sluice.workers.processes.shutdown import Shutdown
from tests.support.waiting import until

DRAIN_SECONDS = 0.2


class Ended:
    """What the process would have ended with."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.taking: list[bool] = []

    @property
    def begun(self) -> bool:
        return bool(self.taking)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ended:
    found = Ended()
    monkeypatch.setattr(shutdown.os, "_exit", found.codes.append)
    monkeypatch.setattr(shutdown, "end_descendants", lambda: None)
    monkeypatch.setattr(shutdown, "STOP_SECONDS", 60.0)
    monkeypatch.setattr(threading, "Timer", lambda *_: threading.Thread(target=lambda: None))
    return found


def ending(ended: Ended, in_hand: Callable[[], int] = lambda: 1) -> Shutdown:
    return Shutdown(DRAIN_SECONDS, lambda: ended.taking.append(False), in_hand, lambda died: None)


def test_a_drain_ends_what_takes_too_long(ended: Ended) -> None:
    ending(ended).heard(signal.SIGTERM)
    assert ended.begun
    until(lambda: ended.codes == [0], 5)


def test_a_retirement_waits_and_a_signal_makes_a_drain_of_it_and_the_next_a_stop(ended: Ended) -> None:
    one = ending(ended)
    one.heard(RETIRE)
    assert one.has_begun
    threading.Event().wait(3 * DRAIN_SECONDS)
    assert ended.codes == [], "whatever it has in hand may finish"
    one.heard(signal.SIGTERM)
    assert ended.codes == []
    one.heard(signal.SIGTERM)
    assert ended.codes == [128 + signal.SIGTERM]
    assert len(ended.taking) == 1, "it has stopped taking once"


def test_a_retirement_does_not_prolong_a_drain(ended: Ended) -> None:
    one = ending(ended)
    one.heard(signal.SIGTERM)
    one.heard(RETIRE)
    until(lambda: ended.codes == [0], 5)


def test_an_event_that_hangs_ends_a_retirement_with_its_own_code(ended: Ended) -> None:
    one = ending(ended)
    one.heard(RETIRE)
    one.hang("evt_1")
    until(lambda: ended.codes == [shutdown.HUNG], 5)


def test_a_drain_with_nothing_in_hand_does_not_wait_for_its_limit(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "IDLE_SECONDS", DRAIN_SECONDS)
    Shutdown(3_600, lambda: None, lambda: 0, lambda died: None).heard(signal.SIGTERM)
    until(lambda: ended.codes == [0], 5)
