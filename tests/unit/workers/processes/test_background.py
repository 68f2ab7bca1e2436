"""A pool's children count as at work for as long as their events may take: a hung parent is noticed behind them."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from celery.worker import state

from sluice.workers.processes.background import CHILD_GRACE_SECONDS, child_limit_seconds, children_at_work
from sluice.workers.settings import Settings


def test_a_child_whose_event_is_beyond_its_limit_is_no_sign_that_the_parent_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings, now = Settings(), time.time()
    beyond = now - child_limit_seconds(settings) - CHILD_GRACE_SECONDS - 1
    requests = [SimpleNamespace(time_start=started) for started in (None, now - 1, beyond)]
    monkeypatch.setattr(state, "active_requests", requests)
    assert children_at_work(settings) == 2
