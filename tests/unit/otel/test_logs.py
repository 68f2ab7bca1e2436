"""Log lines: their fields, and one chain for every library's logger."""

from __future__ import annotations

import io
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.otel.context import span
from sluice.otel.logs import configure, get_logger
from sluice.otel.settings import TelemetrySettings
from sluice.otel.spans import SpanStore

pytestmark = pytest.mark.usefixtures("own_logging")


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_inside_a_span_carries_run_trace_span_service_and_utc_time(store: SpanStore) -> None:
    stream = io.StringIO()
    configure("worker.crawl", TelemetrySettings(), stream)
    with span("crawl", run_id="run_1", event_id="evt_1"):
        get_logger("sluice.ingest.crawl.crawler").info("page_crawled", status=200)
    [line] = _lines(stream)
    assert line | {"event": "page_crawled", "status": 200, "level": "info", "service": "worker.crawl"} == line
    assert line | {"run_id": "run_1", "event_id": "evt_1", "logger": "sluice.ingest.crawl.crawler"} == line
    assert (len(line["trace_id"]), len(line["span_id"])) == (32, 16)
    written = datetime.fromisoformat(line["timestamp"])
    assert written.tzinfo is not None
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60


@pytest.mark.parametrize("name", ["celery", "uvicorn.access", "somebody.else"])
def test_the_standard_librarys_loggers_go_through_the_same_chain(name: str) -> None:
    logging.getLogger(name).addHandler(logging.NullHandler())
    stream = io.StringIO()
    configure("api", TelemetrySettings(), stream)
    logging.getLogger(name).warning("connected to %s", "redis://:hunter2@host", extra={"api_key": "sk-1"})
    [line] = _lines(stream)
    assert (line["event"], line["api_key"], line["service"]) == ("connected to redis://***@host", "***", "api")


def test_a_traceback_is_one_field_and_is_masked() -> None:
    stream = io.StringIO()
    configure("api", TelemetrySettings(), stream)
    try:
        raise ValueError("https://me:hunter2@a.test")
    except ValueError:
        get_logger("api").exception("failed", password="hunter2")
    [line] = _lines(stream)
    assert "Traceback" in line["exception"]
    assert "hunter2" not in stream.getvalue()


def test_the_level_is_obeyed_and_configuring_again_adds_no_second_line() -> None:
    stream = io.StringIO()
    configure("api", TelemetrySettings(), stream)
    configure("api", TelemetrySettings(log_level="warning"), stream)
    get_logger("api").info("quiet")
    get_logger("api").warning("loud")
    assert [line["event"] for line in _lines(stream)] == ["loud"]


def test_the_console_format_is_for_people() -> None:
    stream = io.StringIO()
    configure("api", TelemetrySettings(log_format="console"), stream)
    try:
        raise ValueError("broken")
    except ValueError:
        get_logger("api").exception("page_crawled", url="https://a.test")
    assert "page_crawled" in stream.getvalue()
    assert "ValueError: broken" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_a_web_address_loses_its_user_its_query_and_its_fragment_wherever_it_stands() -> None:
    stream = io.StringIO()
    configure("worker.crawl", TelemetrySettings(), stream)
    url = "https://me:hunter2@a.test/p?q=my+illness#access=1"
    get_logger("crawl").info("event_handled", url=url, why=f"GET {url} failed", passed={"by": [url]})
    [line] = _lines(stream)
    shown = "https://***@a.test/p"
    assert (line["url"], line["why"], line["passed"]) == (shown, f"GET {shown} failed", {"by": [shown]})
    get_logger("api").info("https://" * 20_000)  # in a time that grows with its length alone
