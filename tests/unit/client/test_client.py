"""The Python client, against a server that is played."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx2 as httpx
import pytest

from sluice_client import AsyncSluiceClient, SluiceClient, client, errors
from sluice_client.models import RunAccepted, RunView
from tests.support.played_server import ACCEPTED, RETRIEVAL, RUN, Server, reply


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_SECONDS", 0)


def test_a_finished_run_comes_back_when_waited_for() -> None:
    server = Server(reply(RUN))
    found = server.client().gate("how does heapq work", corpus="python", seeds=("https://docs.python.org/3/",))
    assert isinstance(found, RunView)
    assert json.loads(server.requests[0].content) == {
        "query": "how does heapq work",
        "corpus": "python",
        "wait": True,
        "seeds": ["https://docs.python.org/3/"],
    }


def test_an_accepted_run_comes_back_when_not_waited_for() -> None:
    assert isinstance(Server(reply(ACCEPTED, 202)).client().gate("why", wait=False), RunAccepted)


def test_waiting_outlasts_the_runs_deadline() -> None:
    server = Server(reply(RUN))
    server.client(timeout_seconds=5).gate("why", deadline_seconds=120)
    assert server.requests[0].extensions["timeout"]["read"] == 125


def test_a_call_that_is_tried_again_carries_the_same_key() -> None:
    server = Server(httpx.ReadError("reset"), httpx.ConnectError("refused"), reply(RUN))
    server.client().gate("why")
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    assert (len(server.requests), len(keys)) == (3, 1)


def test_what_might_count_twice_is_tried_again_only_where_it_cannot_have_arrived() -> None:
    lost = Server(httpx.ReadError("reset"))
    with pytest.raises(errors.Unavailable):
        lost.client().replay_dead_letter("dlq_1")
    refused = Server(
        httpx.ConnectError("refused"), reply({"dead_letter_id": "dlq_1", "event_id": "evt_1", "run_id": "run_1"}, 202)
    )
    assert refused.client().replay_dead_letter("dlq_1").event_id == "evt_1"


def test_an_older_client_outlives_a_newer_server() -> None:
    told = RUN | {"kind": "dream", "colour": "red", "spend": {"pages": 1, "naps": 2}}
    run = Server(reply(told)).client().run("run_1")
    assert (run.kind, run.model_dump(exclude_unset=True)["colour"]) == ("dream", "red")


def test_the_client_for_asyncio_sends_and_answers_the_same() -> None:
    server = Server(httpx.ReadError("reset"), reply(RUN), reply({"code": "not_found", "message": "gone"}, 404))

    async def calls() -> None:
        async with AsyncSluiceClient("http://test", "secret", transport=httpx.MockTransport(server)) as client:
            assert isinstance(await client.gate("why"), RunView)
            with pytest.raises(errors.NotFound, match="gone"):
                await client.run("run_2")

    asyncio.run(calls())
    first, second, _ = server.requests
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer secret"}


def test_two_calls_carry_two_keys_and_a_given_key_is_used() -> None:
    server = Server(reply(RUN), reply(RUN), reply(RUN))
    client = server.client()
    client.gate("why")
    client.gate("why")
    client.gate("why", idempotency_key="mine")
    first, second, third = (request.headers["Idempotency-Key"] for request in server.requests)
    assert first != second
    assert third == "mine"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(httpx.ConnectError("refused"), errors.Unavailable), (httpx.ReadTimeout("late"), errors.TimedOut)],
)
def test_a_server_that_does_not_answer_is_unavailable(failure: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        Server(failure, failure, failure).client().run("run_1")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (422, "invalid_input", errors.InvalidInput),
        (404, "not_found", errors.NotFound),
        (409, "conflict", errors.Conflict),
        (403, "forbidden", errors.Forbidden),
        (403, "policy_refused", errors.PolicyRefused),
        (429, "budget_exhausted", errors.BudgetExhausted),
        (507, "disk_full", errors.DiskFull),
        (429, "overloaded", errors.Overloaded),
        (503, "unavailable", errors.Unavailable),
        (504, "timed_out", errors.TimedOut),
        (500, "corrupted", errors.Corrupted),
        (418, "something_new", errors.InvalidInput),
    ],
)
def test_a_problem_is_the_error_it_was(status: int, code: str, kind: type[Exception]) -> None:
    problem = {"code": code, "message": "what is wrong", "field": "corpus"}
    with pytest.raises(kind, match="what is wrong") as raised:
        Server(reply(problem, status)).client().query("why")
    assert type(raised.value) is kind


def test_a_problem_keeps_its_field_and_remedy() -> None:
    problem = {"code": "invalid_input", "message": "not known", "field": "profile", "remedy": "one of default, code"}
    with pytest.raises(errors.InvalidInput) as raised:
        Server(reply(problem, 422)).client().gate("why")
    assert (raised.value.field, raised.value.message, raised.value.remedy) == (
        "profile",
        "not known",
        "one of default, code",
    )


def test_an_overloaded_server_says_when_to_come_back() -> None:
    problem = {"code": "overloaded", "message": "full"}
    with pytest.raises(errors.Overloaded) as raised:
        Server(reply(problem, 429, **{"Retry-After": "7"})).client().gate("why")
    assert raised.value.retry_after_seconds == 7


@pytest.mark.parametrize(
    ("status", "kind"), [(502, errors.Unavailable), (401, errors.Forbidden), (400, errors.InvalidInput)]
)
def test_an_error_without_a_problem_goes_by_its_status(status: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="<html>"):
        Server(httpx.Response(status, text="<html>")).client().run("run_1")


def test_an_answer_that_is_no_answer_is_refused() -> None:
    with pytest.raises(errors.Unavailable, match="RunView"):
        Server(reply({"hello": "world"})).client().run("run_1")


def test_the_key_travels_as_a_bearer_token() -> None:
    server = Server(reply(RUN))
    server.client(api_key="secret").run("run_1")
    assert server.requests[0].headers["Authorization"] == "Bearer secret"


Call = Callable[[SluiceClient], object]


@pytest.mark.parametrize(
    ("call", "answer", "line"),
    [
        (lambda client: client.run("run 1/x"), reply(RUN), "GET /v1/runs/run%201%2Fx"),
        (lambda client: client.query("why", top_k=3), reply(RETRIEVAL), "POST /v1/query"),
        (
            lambda client: client.add_documents([{"url": "https://a.example"}]),
            reply(ACCEPTED, 202),
            "POST /v1/documents",
        ),
        (lambda client: client.add_documents([{"id": "a", "text": "b"}]), reply(ACCEPTED, 202), "POST /v1/documents"),
        (
            lambda client: client.delete_document("https://a.example/x?y#z", "notes"),
            reply(ACCEPTED, 202),
            "DELETE /v1/documents/https%3A%2F%2Fa.example%2Fx%3Fy%23z?corpus=notes",
        ),
        (lambda client: client.forget("notes", url="https://a.example/"), reply(ACCEPTED, 202), "DELETE /v1/documents"),
        (
            lambda client: client.release_quarantined("qtn_1", "a manual"),
            reply({"id": "qtn_1", "run_id": None, "waits_for": "the next crawl"}, 202),
            "POST /v1/quarantine/qtn_1/release?note=a+manual",
        ),
        (
            lambda client: client.feedback("run_1", outcome="success"),
            reply({"run_id": "run_1"}, 202),
            "POST /v1/feedback",
        ),
        (lambda client: client.is_alive(), reply({"ok": True}), "GET /livez"),
        (lambda client: client.readiness(), reply({"ok": True, "version": "0", "checks": {}}), "GET /readyz"),
        (lambda client: client.health(), reply({"ok": False, "version": "0", "checks": {}}, 503), "GET /healthz"),
    ],
)
def test_every_call_goes_to_its_route(call: Call, answer: httpx.Response, line: str) -> None:
    server = Server(answer)
    call(server.client())
    (request,) = server.requests
    assert f"{request.method} {request.url.raw_path.decode()}" == line


def test_events_come_from_the_runs_stream() -> None:
    answer = httpx.Response(404, json={"code": "not_found", "message": "no run"})
    server = Server(answer)
    with pytest.raises(errors.NotFound):
        list(server.client().events("run_1", after="3"))
    assert server.requests[0].headers["Last-Event-ID"] == "3"
