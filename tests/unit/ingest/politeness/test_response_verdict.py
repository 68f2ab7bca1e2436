"""What a site says about itself becomes one of the named outcomes, whatever it says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import NotFound, Overloaded, PolicyRefused, Unavailable
from sluice.ingest.politeness.hosts import DEFAULT_RETRY_SECONDS, MAX_RETRY_SECONDS, judge_status, retry_after_seconds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "https://site.example/"


@pytest.mark.parametrize(
    "header",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2024 99999999999999999999:00:00 GMT",
        "Mon, 01 Jan 2024 00:00:00 +99999999999999",
        "soon",
        "-5",
        "",
    ],
)
def test_a_moment_that_is_none_is_the_usual_pause(header: str) -> None:
    assert retry_after_seconds(header, NOW) == DEFAULT_RETRY_SECONDS


@given(st.text(max_size=60) | st.from_regex(r"Mon, [0-9]{1,4} Jan [0-9]{1,30} [0-9:]{1,30} [+-]?[0-9A-Z]{1,20}"))
def test_no_site_makes_us_wait_longer_than_an_hour(header: str) -> None:
    assert 0 <= retry_after_seconds(header, NOW) <= MAX_RETRY_SECONDS


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, Overloaded),
        (503, Overloaded),
        (304, Unavailable),
        (408, Unavailable),
        (500, Unavailable),
        (999, Unavailable),
        (401, PolicyRefused),
        (451, PolicyRefused),
        (204, NotFound),
        (302, NotFound),
        (404, NotFound),
    ],
)
def test_a_status_that_is_no_page_is_a_named_outcome(status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        judge_status(status, None, URL, NOW)
    judge_status(200, None, URL, NOW)
