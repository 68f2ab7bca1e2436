"""A pool's share for one tenant: one child is left for others as soon as an agent has a key."""

from __future__ import annotations

import pytest

from sluice.workers.processes import worker_process
from sluice.workers.processes.worker_process import share_of_pool
from sluice.workers.service.api_keys import ApiKeys
from tests.support.ledger_story import Story


def test_an_operator_alone_uses_every_child_and_beside_agents_one_is_left(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "AGENTS_SECONDS", -1.0)
    most = share_of_pool(3, story.ledger)
    assert most() is None
    ApiKeys(story.ledger).create("an operator", "operator", ())
    assert most() is None
    ApiKeys(story.ledger).create("an agent", "agent", ("docs",))
    assert (most(), share_of_pool(1, story.ledger)()) == (2, 1)
