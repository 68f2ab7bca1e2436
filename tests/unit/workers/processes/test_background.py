"""A pool's children count as at work for as long as their events may take: a hung parent is noticed behind them."""

from __future__ import annotations

import time
from weakref import WeakSet

import pytest
from celery.worker import state

from sluice.workers.processes.background import CHILD_GRACE_SECONDS, child_limit_seconds, children_at_work
from sluice.workers.settings import Settings


class Request:
    """What Celery's set of active requests holds, as far as it is read here."""

    def __init__(self, time_start: float | None) -> None:
        self.time_start = time_start


def test_a_child_whose_event_is_beyond_its_limit_is_no_sign_that_the_parent_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, now = Settings(), time.time()
    beyond = now - child_limit_seconds(settings) - CHILD_GRACE_SECONDS - 1
    requests = [Request(started) for started in (None, now - 1, beyond)]
    monkeypatch.setattr(state, "active_requests", WeakSet(requests))
    assert children_at_work(settings) == 2


def test_children_are_counted_although_a_request_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    active: WeakSet[Request] = WeakSet()

    class Ending(Request):
        """One that the main thread takes out of the set while another thread counts."""

        @property
        def time_start(self) -> float | None:  # type: ignore[override]
            active.discard(self)
            return None

        @time_start.setter
        def time_start(self, value: float | None) -> None:
            pass

    requests = [Ending(None) for _ in range(3)]
    active.update(requests)
    monkeypatch.setattr(state, "active_requests", active)
    assert children_at_work(Settings()) == 3
