"""A short learning in another construction is a duplicate; what turns, limits or orders it otherwise is none."""

from __future__ import annotations

import pytest

from sluice.memory.learning.polarity.compare import compare
from sluice.memory.learning.polarity.restated import is_restated

SAME = [
    ("Umlauts are shown wrongly by the old viewer", "The old viewer shows umlauts wrongly"),
    ("The scheduler writes the lock file", "The lock file is written by the scheduler"),
    ("Wheels are built with maturin", "Maturin builds the wheels"),
    ("The parser crashes on empty input", "Empty input makes the parser crash"),
    ("Restart the daemon after changing the unit", "The daemon must be restarted once the unit was changed"),
]
OTHER = [
    ("The client waits for the server", "The server is waiting for the client"),
    ("Status 204 comes with an empty body", "A body comes with status 204 unless it is empty"),
    ("Only the scheduler writes the lock file", "The scheduler writes the lock file only"),
    ("Wheels are built with maturin", "Wheels are not built by maturin"),
    ("The parser crashes on empty input", "Input makes the parser crash"),
    ("Restart the daemon after changing the unit", "The unit is changed once the daemon was restarted"),
    ("The page size is capped at 50", "50 is the minimum of the page size"),
    ("Clients may retry after 30 s", "Clients retry after 30 s"),
    ("Run the job until the queue is empty", "The job is run when the queue is empty"),
    ("X is deprecated; use Y", "Y is deprecated, use X instead"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_another_construction_says_the_same_in_both_directions(one: str, other: str) -> None:
    assert compare(one, other).same or is_restated(one, other, compare(one, other))
    assert compare(other, one).same or is_restated(other, one, compare(other, one))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_turns_limits_or_orders_it_otherwise_keeps_it_apart(one: str, other: str) -> None:
    assert not compare(one, other).same
    assert not is_restated(one, other, compare(one, other))
    assert not is_restated(other, one, compare(other, one))
