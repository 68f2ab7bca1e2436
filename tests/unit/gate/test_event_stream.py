"""A run's events over server-sent events: parsed, resumed, ended."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from sluice.contracts.errors import NotFound, Unavailable
from sluice.contracts.event import Event, Gap, GapFound, encode
from sluice.contracts.index import RunFinished
from sluice.gate.event_stream import Frame, Stream, parse_frames, split_lines

GAP = Event.of(GapFound(gap=Gap(stage="crawl", subject="x", reason="robots")), run_id="run_1", corpus="default")
END = Event.of(RunFinished(status="finished"), run_id="run_1", corpus="default")


def message(number: int, event: Event) -> str:
    return f"id: {number}\nevent: {event.kind}\ndata: {encode(event).decode()}\n\n"


def stream(handler: Callable[[httpx.Request], httpx.Response], after: str | None = None) -> Stream:
    http = httpx.Client(base_url="http://test", transport=httpx.MockTransport(handler))
    return Stream(http, "/v1/runs/run_1/events", after)


def test_frames_join_data_lines_and_keep_the_last_id() -> None:
    told = [": comment", "id: 7", "data: a", "data:b", "", "data: c", "", "data: cut off"]
    assert list(parse_frames(told)) == [Frame("7", "a\nb"), Frame("7", "c")]


def test_lines_end_only_where_the_protocol_ends_them() -> None:
    chunks = ["a\u2028b\u0085c\x0cd\r", "\ne\rf", "g\n", "cut off"]
    assert list(split_lines(chunks)) == ["a\u2028b\u0085c\x0cd", "e", "fg"]


def test_a_text_with_separators_of_its_own_arrives_whole() -> None:
    odd = Event.of(
        GapFound(gap=Gap(stage="crawl", subject="a\u2028b\u0085c", reason="robots")), run_id="run_1", corpus="default"
    )
    assert list(stream(lambda _: httpx.Response(200, text=message(1, odd) + message(2, END)))) == [odd, END]


def test_a_stream_ends_with_the_run() -> None:
    found = list(stream(lambda _: httpx.Response(200, text=message(1, GAP) + message(2, END))))
    assert found == [GAP, END]


def test_a_broken_stream_is_resumed_behind_the_last_event() -> None:
    asked: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        return httpx.Response(200, text=message(2, END) if asked[-1] == "1" else message(1, GAP))

    assert list(stream(handler)) == [GAP, END]
    assert asked == [None, "1"]


def test_a_caller_may_begin_behind_an_event() -> None:
    asked: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        return httpx.Response(200, text=message(9, END))

    assert list(stream(handler, after="8")) == [END]
    assert asked == ["8"]


def test_a_stream_that_brings_nothing_is_given_up() -> None:
    with pytest.raises(Unavailable, match="ended before"):
        list(stream(lambda _: httpx.Response(200, text=": nothing\n\n")))


def test_a_server_that_went_away_is_named() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(Unavailable, match="refused"):
        list(stream(handler))


def test_an_error_instead_of_a_stream_is_that_error() -> None:
    answer = httpx.Response(404, json={"code": "not_found", "message": "no run run_1"})
    with pytest.raises(NotFound, match="no run run_1"):
        list(stream(lambda _: answer))
