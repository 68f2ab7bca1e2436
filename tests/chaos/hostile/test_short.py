"""A taste of the hostile world: nothing inside is reached, nothing lasts, nothing is left.

The whole is `python -m tests.chaos.hostile`. Each check runs in a network namespace in which every address is this machine.
"""

from __future__ import annotations

import pytest

from tests.chaos.hostile.names import PUBLIC, answer
from tests.chaos.hostile.wire import is_forbidden
from tests.chaos.hostile.world import run_inside, why_not
from tests.chaos.report import Result

pytestmark = pytest.mark.timeout(600)


def _run(name: str) -> dict[str, Result]:
    """The results by check; all have to have passed."""
    if reason := why_not():
        pytest.skip(reason)
    results = run_inside(name, "--short")
    for one in results:
        assert one.problems == (), one.check
        assert one.passed, one.check
    return {one.check: one for one in results}


def test_no_spelling_of_an_inner_address_is_reached_by_any_way_and_the_control_is() -> None:
    results = _run("ssrf") | _run("ssrf-unguarded")
    assert all(
        one.figures["packets"] == one.figures["connections"] == 0 for one in results.values() if "tries" in one.done
    )


@pytest.mark.smoke
def test_a_name_that_changes_its_meaning_leads_nowhere_inside() -> None:
    results = _run("rebinding")
    assert results["changing names, over HTTP"].figures["names looked up"] > 0


def test_what_wants_to_hold_or_eat_the_worker_is_stopped_and_the_next_page_is_read() -> None:
    _run("zoo")


def test_no_process_of_a_killed_browser_is_left() -> None:
    _run("kills")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:a00:1::", "224.0.0.1"],
)
def test_the_wire_knows_what_is_inside(address: str) -> None:
    assert is_forbidden(address)
    assert not is_forbidden(PUBLIC)


def test_a_name_that_turns_is_inner_every_second_time() -> None:
    meant = [answer("turn-7f000001.x.org", 1, times)[0][2] for times in (1, 2, 3, 4)]
    assert meant == [bytes([93, 184, 216, 34]), bytes([127, 0, 0, 1])] * 2
