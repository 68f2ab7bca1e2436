"""Ids sort by the time they were made, and tell it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sluice.contracts.event import made_at, new_event_id, new_run_id


def test_an_id_tells_when_it_was_made() -> None:
    assert abs(made_at(new_run_id()) - datetime.now(UTC)) < timedelta(seconds=5)


def test_ids_differ_and_name_their_kind() -> None:
    ids = [new_event_id() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert all(one.startswith("evt_") for one in ids)
    assert [one[:16] for one in ids] == sorted(one[:16] for one in ids)
