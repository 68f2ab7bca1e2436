"""When a schedule runs next: by an interval or a cron text, in its time zone, and once for all times that were missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.workers.schedules import next_time

NOW = datetime(2031, 3, 28, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        (timedelta(0), timedelta(hours=1)),
        (timedelta(minutes=59), timedelta(minutes=1)),
        (timedelta(hours=1), timedelta(hours=1)),
        (timedelta(days=3, minutes=10), timedelta(minutes=50)),
    ],
)
def test_an_interval_keeps_its_pace_and_leaves_out_what_was_missed(missed: timedelta, expected: timedelta) -> None:
    assert next_time(timedelta(hours=1), None, "UTC", NOW, NOW - missed) == NOW + expected


@pytest.mark.parametrize(
    ("cron", "time_zone", "expected"),
    [
        ("0 6 * * *", "UTC", "2031-03-29T06:00"),
        ("0 6 * * *", "Europe/Berlin", "2031-03-29T05:00"),
        ("0 6 30 * *", "Europe/Berlin", "2031-03-30T04:00"),
        ("30 2 30 3 *", "Europe/Berlin", "2031-03-30T01:00"),
        ("0 9 * * MON-FRI", "America/New_York", "2031-03-31T13:00"),
        ("0 0 29 2 *", "UTC", "2032-02-29T00:00"),
    ],
    ids=["utc", "winter", "summer", "an hour that is left out", "weekdays", "leap day"],
)
def test_a_cron_text_means_the_clock_of_its_zone(cron: str, time_zone: str, expected: str) -> None:
    assert next_time(None, cron, time_zone, NOW) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "time_zone", "field"),
    [
        ("61 * * * *", "UTC", "cron"),
        ("* * * * * *", "UTC", "cron"),
        ("0 0 30 2 *", "UTC", "cron"),
        ("every day", "UTC", "cron"),
        ("0 6 * * *", "Europe/Atlantis", "time_zone"),
        ("0 6 * * *", "../../etc/passwd", "time_zone"),
    ],
)
def test_what_cannot_be_read_is_named(cron: str, time_zone: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        next_time(None, cron, time_zone, NOW)
    assert refused.value.field == field
