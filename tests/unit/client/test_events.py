"""A run's events over server-sent events: parsed, resumed, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2 as httpx
import pytest

from sluice.contracts.event import Event, Gap, GapFound, decode, encode
from sluice.contracts.index import RunFinished
from sluice_client import AsyncSluiceClient, SluiceClient
from sluice_client.errors import NotFound, Unavailable
from sluice_client.events import Stream

GAP = Event.of(GapFound(gap=Gap(stage="crawl", subject="x", reason="robots")), run_id="run_1", corpus="default")
END = Event.of(RunFinished(status="finished"), run_id="run_1", corpus="default")


def message(number: int, event: Event) -> str:
    return f"id: {number}\nevent: {event.kind}\ndata: {encode(event).decode()}\n\n"


def stream(handler: Callable[[httpx.Request], httpx.Response], after: str | None = None) -> list[Event]:
    """The events that the blocking client reads; the one for asyncio has to read the same, or fail alike."""
    transport = httpx.MockTransport(handler)
    with SluiceClient("http://test", transport=transport) as client:
        return [decode(event.model_dump_json()) for event in client.events("run_1", after)]


async def async_stream(handler: Callable[[httpx.Request], httpx.Response]) -> list[Event]:
    async with AsyncSluiceClient("http://test", transport=httpx.MockTransport(handler)) as client:
        return [decode(event.model_dump_json()) async for event in client.events("run_1")]


def test_an_event_arrives_whole_however_its_text_is_cut() -> None:
    reading = Stream("/v1/runs/run_1/events")
    reading.request(1.0)
    told = ": comment\n\n" + message(7, GAP) + "data: cut off\n"
    assert [data for character in told for data in reading.feed(character)] == [encode(GAP).decode()]
    assert reading.request(1.0)["headers"]["Last-Event-ID"] == "7"


def test_a_text_with_separators_of_its_own_arrives_whole() -> None:
    odd = Event.of(
        GapFound(gap=Gap(stage="crawl", subject="a\u2028b\u0085c", reason="robots")), run_id="run_1", corpus="default"
    )
    assert stream(lambda _: httpx.Response(200, text=message(1, odd) + message(2, END))) == [odd, END]


def test_a_stream_ends_with_the_connection_that_told_of_the_runs_end() -> None:
    found = stream(lambda _: httpx.Response(200, text=message(1, GAP) + message(2, END) + message(3, GAP)))
    assert found == [GAP, END, GAP]


def test_a_broken_stream_is_resumed_behind_the_last_event() -> None:
    asked: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        return httpx.Response(200, text=message(2, END) if asked[-1] == "1" else message(1, GAP))

    assert stream(handler) == [GAP, END]
    assert asked == [None, "1"]
    assert asyncio.run(async_stream(handler)) == [GAP, END]


def test_a_stream_that_follows_goes_on_behind_the_runs_end() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.query == b"follow=true"
        return httpx.Response(200, text=message(1, GAP) + message(2, END) + message(3, GAP))

    with SluiceClient("http://test", transport=httpx.MockTransport(handler)) as client:
        assert [event.kind for event in client.events("run_1", follow=True)] == ["GapFound", "RunFinished", "GapFound"]


def test_a_caller_may_begin_behind_an_event() -> None:
    asked: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        return httpx.Response(200, text=message(9, END))

    assert stream(handler, after="8") == [END]
    assert asked == ["8"]


def test_a_stream_that_brings_nothing_is_given_up() -> None:
    with pytest.raises(Unavailable, match="ended before"):
        stream(lambda _: httpx.Response(200, text=": nothing\n\n"))


def test_a_server_that_went_away_is_named() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(Unavailable, match="refused"):
        stream(handler)


def test_an_error_instead_of_a_stream_is_that_error() -> None:
    answer = httpx.Response(404, json={"code": "not_found", "message": "no run run_1"})
    with pytest.raises(NotFound, match="no run run_1"):
        stream(lambda _: answer)
