"""Keys are found by their hash, listed, and revoked once."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import Conflict, NotFound
from tests.support.ledger_story import Story


def test_a_key_is_listed_with_what_it_may_do(story: Story) -> None:
    keys = story.ledger.keys
    keys.insert("key_1", "h1", "ci", "agent", ["docs", "code"])
    [found] = keys.list()
    assert (found.id, found.hash, found.name, found.role, found.corpora, found.revoked_at) == (
        "key_1",
        "h1",
        "ci",
        "agent",
        ("docs", "code"),
        None,
    )
    with pytest.raises(Conflict):
        keys.insert("key_1", "h9", "again", "agent")


def test_a_revoked_key_is_still_listed_and_says_since_when(story: Story) -> None:
    keys = story.ledger.keys
    keys.insert("key_1", "h1", "ci", "agent")
    story.clock.passes(1.0)
    keys.insert("key_2", "h2", "ann", "operator")
    assert keys.revoke("key_1")
    assert not keys.revoke("key_1")
    assert [(key.id, key.revoked_at is None) for key in keys.list()] == [("key_1", False), ("key_2", True)]
    with pytest.raises(NotFound):
        keys.revoke("key_9")
