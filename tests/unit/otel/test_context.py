"""Trace context across hops."""

from __future__ import annotations

import json
import re

import pytest
from structlog.contextvars import get_contextvars

from sluice.otel.context import current_traceparent, mark_failed, span
from sluice.otel.spans import SpanStore
from sluice.otel.start import flush

TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]")


def test_a_traceparent_makes_the_round_trip_from_one_span_into_the_next(store: SpanStore) -> None:
    with span("gate", run_id="run_1", kind="consumer"):
        carried = current_traceparent()
    assert carried
    assert TRACEPARENT.fullmatch(carried)
    with span("search", traceparent=carried, run_id="run_1"):
        assert str(current_traceparent()).split("-")[1] == carried.split("-")[1]
    flush()
    first, second = store.of_run("run_1")
    assert (second.trace_id, second.parent_id) == (first.trace_id, first.span_id)
    assert first.kind == "consumer"


def test_outside_any_span_there_is_no_traceparent() -> None:
    assert current_traceparent() is None


def test_a_malformed_traceparent_begins_a_new_trace_and_fails_nothing(store: SpanStore) -> None:
    with span("gate", traceparent="00-nonsense", run_id="run_1"):
        assert TRACEPARENT.fullmatch(str(current_traceparent()))
    flush()
    assert store.of_run("run_1")[0].parent_id is None


def test_before_telemetry_starts_ids_still_pass_through() -> None:
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with span("gate", traceparent=carried):
        assert current_traceparent() == carried


def test_an_exception_is_recorded_with_its_secrets_masked_and_goes_on(store: SpanStore) -> None:
    with pytest.raises(ValueError, match="hunter2"), span("crawl", run_id="run_1"):
        raise ValueError("cannot fetch http://me:hunter2@site.test/")
    flush()
    [failed] = store.of_run("run_1")
    assert failed.status == "error"
    assert failed.status_message == "ValueError: cannot fetch http://***@site.test/"
    [event] = failed.events
    assert event["attributes"]["exception.type"] == "ValueError"
    assert "hunter2" not in json.dumps(failed.events)


def test_a_failure_that_is_a_value_marks_the_span_too(store: SpanStore) -> None:
    with span("embed", run_id="run_1") as current:
        mark_failed(current, "endpoint overloaded")
    flush()
    [failed] = store.of_run("run_1")
    assert (failed.status, failed.status_message, failed.events) == ("error", "endpoint overloaded", ())


def test_ids_are_bound_for_log_lines_inside_and_gone_outside(store: SpanStore) -> None:
    with span("gate", run_id="run_1", event_id="evt_1"):
        outer = get_contextvars()
        with span("probe"):
            inner = get_contextvars()
    assert (outer["run_id"], outer["event_id"]) == ("run_1", "evt_1")
    assert (inner["run_id"], inner["event_id"], inner["trace_id"]) == ("run_1", "evt_1", outer["trace_id"])
    assert inner["span_id"] != outer["span_id"]
    assert "run_id" not in get_contextvars()


def test_attributes_links_and_the_inherited_run_reach_the_store(store: SpanStore) -> None:
    with span("original", run_id="run_1"):
        original = current_traceparent()
        with span("hop", traceparent=original, run_id="run_1", links=[original]):
            pass
    with (
        span("replay", run_id="run_1", event_id="evt_1", links=[original, None, "broken"]),
        span("inner", attributes={"plan": "search", "api_key": "sk-1", "none": None}),
    ):
        pass
    flush()
    first, hop, replay, inner = store.of_run("run_1")
    assert hop.links == (), "its own trace holds that span already"
    assert [(link.trace_id, link.span_id) for link in replay.links] == [(first.trace_id, first.span_id)]
    assert inner.attributes == {"plan": "search", "api_key": "***", "sluice.run_id": "run_1"}
    assert replay.attributes["sluice.event_id"] == "evt_1"
