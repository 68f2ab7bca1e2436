"""When the client tries again, what its errors hold, and whose connections it uses."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2 as httpx
import pytest

from sluice_client import AsyncSluiceClient, SluiceClient, client, errors
from sluice_client.testing import FakeServer
from tests.support.played_server import ACCEPTED, RETRIEVAL, RUN, Server, reply


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which take no time here."""
    told: list[float] = []
    monkeypatch.setattr(client.time, "sleep", told.append)
    return told


def problem(status: int, **fields: object) -> httpx.Response:
    told = {"code": "unavailable", "detail": "not now", "status": status, **fields}
    return httpx.Response(status, json=told, headers={"X-Request-Id": "req-1"})


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_be_repeated_is_tried_twice_more(status: int, waits: list[float]) -> None:
    server = Server(httpx.Response(status), httpx.Response(status), reply(RETRIEVAL))
    assert server.client().query("lease").generation == "g1"
    assert len(server.requests) == 3
    assert waits[1] > waits[0] > 0


def test_a_run_is_begun_under_one_key_however_often_it_is_tried(waits: list[float]) -> None:
    server = Server(problem(503), httpx.ConnectError("gone"), reply(RUN))
    server.client().gate("why")
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1


def test_what_would_count_twice_is_sent_once(waits: list[float]) -> None:
    server = Server(problem(503))
    with pytest.raises(errors.Unavailable):
        server.client().replay_dead_letter("dl_1")
    assert len(server.requests) == 1


def test_what_a_second_try_to_remove_does_not_find_is_removed(waits: list[float]) -> None:
    gone = problem(404, code="not_found")
    assert Server(httpx.Response(204)).client().delete_webhook("wh_1") is None  # type: ignore[func-returns-value]
    server = Server(httpx.ReadError("reset"), gone)
    server.client().delete_webhook("wh_1")
    assert len(server.requests) == 2
    for first_try in (Server(gone).client().delete_webhook, Server(httpx.ReadError("reset"), gone).client().webhook):
        with pytest.raises(errors.NotFound):
            first_try("wh_1")


@pytest.mark.parametrize(("retryable", "tries"), [(True, 3), (False, 1)])
@pytest.mark.parametrize("status", [409, 429, 503])
def test_the_problem_says_whether_a_later_try_can_help(
    status: int, retryable: bool, tries: int, waits: list[float]
) -> None:
    server = Server(problem(status, retryable=retryable))
    with pytest.raises(errors.SluiceError) as caught:
        server.client().query("lease")
    assert len(server.requests) == tries
    assert caught.value.is_retryable is retryable


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 501])
def test_what_no_later_try_changes_is_told_at_once(status: int, waits: list[float]) -> None:
    server = Server(httpx.Response(status))
    with pytest.raises(errors.SluiceError):
        server.client().query("lease")
    assert len(server.requests) == 1


def test_retry_after_is_kept_to_as_number_and_as_date(waits: list[float]) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    server = Server(
        httpx.Response(429, headers={"Retry-After": "7"}),
        httpx.Response(503, headers={"Retry-After": later}),
        reply(RETRIEVAL),
    )
    server.client().query("lease")
    assert waits[0] == 7
    assert 25 < waits[1] <= 30


def test_a_server_that_wants_a_long_wait_is_not_asked_again(waits: list[float]) -> None:
    server = Server(httpx.Response(429, headers={"Retry-After": "3600"}))
    with pytest.raises(errors.Overloaded) as caught:
        server.client().query("lease")
    assert (caught.value.retry_after_seconds, len(server.requests)) == (3600, 1)


def test_a_client_may_try_more_or_not_again(waits: list[float]) -> None:
    for retries in (0, 4):
        server = Server(problem(503))
        with pytest.raises(errors.Unavailable):
            server.client(max_retries=retries).query("lease")
        assert len(server.requests) == retries + 1


def test_an_error_holds_all_of_its_problem(waits: list[float]) -> None:
    wrong = [
        {"detail": "is blank", "pointer": "/documents/0/url"},
        {"detail": "is none", "parameter": "corpus", "did_you_mean": "docs"},
    ]
    server = Server(problem(422, code="invalid_input", errors=wrong, remedy="see /openapi.json", retryable=False))
    with pytest.raises(errors.InvalidInput) as caught:
        server.client().add_documents([{}])
    error = caught.value
    assert (error.field, error.remedy, error.request_id) == ("documents.0.url", "see /openapi.json", "req-1")
    assert error.errors == wrong
    assert "is blank; corpus: is none" in str(error)
    assert error.problem["status"] == 422


def test_the_client_for_asyncio_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_SECONDS", 0)
    server = Server(problem(503), reply(ACCEPTED, 202))

    async def ask() -> object:
        async with AsyncSluiceClient("http://test", transport=httpx.MockTransport(server)) as sluice:
            return await sluice.gate("why", wait=False)

    assert asyncio.run(ask())
    assert len(server.requests) == 2


def test_a_client_for_asyncio_that_is_not_closed_warns() -> None:
    async def ask(*, close: bool) -> None:
        sluice = FakeServer({"a": "b"}).async_client()
        await sluice.query("b")
        if close:
            await sluice.close()

    with pytest.warns(ResourceWarning, match="was not closed"):
        _collected(ask(close=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _collected(ask(close=True))


def _collected(work: Coroutine[object, object, None]) -> None:
    asyncio.run(work)
    gc.collect()


def test_each_loop_and_each_process_has_its_own_connections() -> None:
    sluice = FakeServer({"a": "b"}).async_client()

    async def pool() -> object:
        await sluice.query("b")
        return sluice._http  # noqa: SLF001 - what it uses cannot be seen from outside

    first, second = asyncio.run(pool()), asyncio.run(pool())
    assert first is not second
    asyncio.run(sluice.close())

    blocking = SluiceClient("http://test")
    ours = id(blocking._http)  # noqa: SLF001
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, b"own" if id(blocking._http) != ours else b"shared")  # noqa: SLF001
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"own"


def test_a_server_for_tests_answers_as_the_real_one() -> None:
    server = FakeServer({"heapq": "A heap is a list.", "lease": "A lease is renewed."})
    with server.client(max_retries=0) as sluice:
        run = sluice.gate("what is a heap")
        assert run.answer.citations[0].source == "heapq"
        assert [event.kind for event in sluice.events(run.run_id)] == ["RunFinished"]
        assert sluice.run(run.run_id).status == "finished"
        sluice.add_documents([{"id": "fence", "text": "A fence refuses what is late."}])
        assert sluice.query("fence late").chunks[0].document_id == "fence"
        assert sluice.document_text("fence").text == "A fence refuses what is late."
        assert len(list(sluice.runs())) == 2
        server.fails("POST /v1/query", 429)
        with pytest.raises(errors.Overloaded):
            sluice.query("fence")
        assert sluice.query("fence").chunks
        with pytest.raises(errors.NotFound):
            sluice.run("run_none")
        assert server.requests[-1].url.path == "/v1/runs/run_none"
