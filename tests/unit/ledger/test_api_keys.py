"""Keys are found by their hash, listed, and revoked once."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from sluice.contracts.errors import Conflict, DiskFull, NotFound
from sluice.ledger.schema.tables import console_sessions, moment
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


def test_a_session_lasts_while_it_is_used_and_its_key_is_in_force(story: Story) -> None:
    sessions, keys, passes = story.ledger.console, story.ledger.keys, story.clock.passes
    keys.insert("key_1", "h1", "ann", "operator", ["docs"])
    sessions.begin("s1", "key_1", 1_000.0)
    found = sessions.find("s1", 100.0)
    assert found is not None
    assert (found.id, found.name, found.corpora) == ("key_1", "ann", ("docs",))
    assert sessions.find("s2", 100.0) is None
    for _ in range(9):
        passes(99.0)
        assert sessions.find("s1", 100.0)
    passes(99.0)
    assert sessions.find("s1", 100.0)
    passes(99.0)
    assert sessions.find("s1", 100.0) is None  # used all the time, and past its end

    sessions.begin("s3", "key_1", 1_000.0)
    passes(100.0)
    assert sessions.find("s3", 100.0) is None  # not used
    sessions.begin("s4", "key_1", 1_000.0)
    sessions.end("s4", "key_1")
    assert sessions.find("s4", 100.0) is None
    sessions.begin("s5", "key_1", 1_000.0)
    keys.revoke("key_1")
    assert sessions.find("s5", 100.0) is None


def test_a_session_ends_with_its_key_by_itself_and_past_ones_go(story: Story) -> None:
    sessions, keys = story.ledger.console, story.ledger.keys
    keys.insert("key_1", "h1", "ann", "operator", expires_at=moment(story.clock.now + 50))
    sessions.begin("s1", "key_1", 1_000.0)
    story.clock.passes(49.0)
    assert sessions.find("s1", 100.0)
    story.clock.passes(2.0)
    assert sessions.find("s1", 100.0) is None
    keys.insert("key_2", "h2", "ben", "agent")
    story.clock.passes(1_000.0)
    sessions.begin("s2", "key_2", 1_000.0)
    assert [row.hash for row in story.ledger.database.read(select(console_sessions))] == ["s2"]


def test_a_full_disk_signs_nobody_out(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.ledger.keys.insert("key_1", "h1", "ann", "operator")
    story.ledger.console.begin("s1", "key_1", 9_000.0)

    def full() -> None:
        raise DiskFull("the disk is full")

    monkeypatch.setattr(story.ledger.database, "holding", full)
    story.clock.passes(900.0)
    found = story.ledger.console.find("s1", 3_600.0)
    assert found is not None
    assert found.id == "key_1"
