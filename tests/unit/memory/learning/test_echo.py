"""An echo says what memory had printed; whatever brings a fact of its own is none."""

from __future__ import annotations

import pytest

from bench.memory.echo.cases import cases
from sluice.memory.learning.echo import is_echo, without_frame

LINES = (
    "“The auth middleware expects a User object, not a userId” (seen in iteration 3, observed 2 times, source Auto; "
    "verify before relying)",
    "Test error at src/auth.py:12, met in iterations 2 and 3: “TypeError: 'NoneType' object is not subscriptable”",
    "“Run migrations before the integration tests” (seen in iteration 1, source Agent; verify before relying)",
    "“Set the timeout to 30 seconds for uploads” (seen in iteration 2, source Agent; verify before relying)",
)


@pytest.mark.parametrize(
    "text",
    [
        "The auth middleware expects a User object, not a userId",
        "As noted in memory: the auth middleware expects a User object, not a userId.",
        "Seen in iteration 3: auth middleware expects a User object, not a userId (verify before relying)",
        LINES[0],
        "Before the integration tests, run migrations",
        "Remember to run the migrations before the integration tests",
        "Set the timeout to 30 seconds for uploads. Run migrations before the integration tests!",
        "TypeError: 'NoneType' object is not subscriptable in src/auth.py",
        "According to the memory, set the timeout to 30 seconds",
    ],
)
def test_what_repeats_a_printed_line_is_an_echo(text: str) -> None:
    assert is_echo(text, LINES)


@pytest.mark.parametrize(
    "text",
    [
        "The auth middleware expects a userId, not a User object",
        "The auth middleware does not expect a User object",
        "Run migrations after the integration tests",
        "Run integration tests before the migrations",
        "Set the timeout to 60 seconds for uploads",
        "Set the timeout to 30 seconds for downloads of tarballs",
        "TypeError: 'NoneType' object is not subscriptable in src/session.py",
        "The timeout for uploads is set to 30 seconds. nginx closes the connection after that",
        "Use pnpm instead of npm",
    ],
)
def test_what_says_something_new_is_none(text: str) -> None:
    assert not is_echo(text, LINES)


@pytest.mark.parametrize("place", ["seen in iteration 3", "observed in iterations 2 and 3", "written on 2026-03-02"])
def test_where_a_printed_learning_came_from_is_no_part_of_it(place: str) -> None:
    assert without_frame(f"Use pnpm ({place}, source Human; verify before relying)") == "Use pnpm"


def test_without_printed_lines_nothing_is_an_echo() -> None:
    assert not is_echo("The auth middleware expects a User object", ())


@pytest.mark.parametrize("group", ["chosen", "checked"])
def test_the_published_rates_of_error_hold(group: str) -> None:
    """A false echo costs a fact, a missed one costs a line: at most 1 % and 8 %, also on pairs nothing was chosen on."""
    wrong = {True: 0, False: 0}
    total = {True: 0, False: 0}
    for case in cases(group):
        total[case.is_echo] += 1
        wrong[case.is_echo] += is_echo(case.text, case.lines) is not case.is_echo
    assert wrong[False] <= 0.01 * total[False]
    assert wrong[True] <= 0.08 * total[True]
