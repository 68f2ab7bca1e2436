"""A failure that lasts does not flood the log."""

from __future__ import annotations

import json
import logging
from io import StringIO

import pytest
import structlog

from sluice.otel.logs import MOST_ALIKE, WINDOW_SECONDS, Repeats, configure
from sluice.otel.settings import TelemetrySettings


def record(told: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("sluice", level, __file__, 1, told, (), None)


def test_lines_alike_are_counted_and_told_in_the_next_minute() -> None:
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    lines = [record({"event": "tick_failed", "error": f"full after {n} ms"}) for n in range(100)]
    assert sum(map(repeats.filter, lines)) == MOST_ALIKE
    now[0] += WINDOW_SECONDS
    last = record({"event": "tick_failed", "error": "full after 7 ms"})
    assert repeats.filter(last)
    assert last.msg == {"event": "tick_failed", "error": "full after 7 ms", "left_out": 90}


def test_other_errors_other_events_and_what_is_no_trouble_are_written() -> None:
    repeats = Repeats(lambda: 0.0)
    assert all(repeats.filter(record({"event": "handler_failed", "error": f"page {'x' * n}"})) for n in range(100))
    assert all(repeats.filter(record({"event": "done"}, logging.INFO)) for _ in range(100))


@pytest.mark.usefixtures("own_logging")
def test_the_log_of_a_process_is_limited_whoever_writes_it() -> None:
    stream = StringIO()
    configure("sluice-test", TelemetrySettings(), stream)
    for _ in range(50):
        structlog.get_logger("ours").error("disk_full", error="no room")
        logging.getLogger("theirs").warning("no room for %s", "x")
    lines = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert lines.count("disk_full") == MOST_ALIKE
    assert lines.count("no room for x") == MOST_ALIKE
