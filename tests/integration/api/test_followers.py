"""How many runs one API key may follow at once: each costs looks into the ledger, which everybody waits for."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from sluice.contracts.api import ENDED, RunStatus
from sluice.contracts.event import Body, Event, Next, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.ledger.ledger import Ledger, NewRun
from sluice.workers.service import runs
from sluice.workers.service.callers import ApiKeys
from tests.support.served import served
from tests.support.valkey import Valkey
from tests.support.waiting import until


def begun(ledger: Ledger) -> str:
    """A run that nobody works on."""
    run_id = new_run_id()
    event = Event.of(GateRequested(query="what is a lease?"), run_id=run_id, corpus="docs")
    ledger.create_run(NewRun(run_id, "gate", "docs", "0" * 64), [(event, Next(event.body))])
    return run_id


def test_a_key_follows_and_waits_for_so_many_runs_and_no_other_key_feels_it(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_FOLLOWED", 3)
    with Ledger(valkey.settings.ledger_location) as ledger:
        run_id = begun(ledger)
        keys = [ApiKeys(ledger).create(name, "agent", [])[1] for name in ("one", "other")]
    one, other = ({"Authorization": f"Bearer {key}"} for key in keys)
    with (
        served(valkey.settings) as address,
        httpx.Client(base_url=address, timeout=60) as http,
        ExitStack() as open_streams,
    ):
        events = f"/v1/runs/{run_id}/events"
        streams = [open_streams.enter_context(http.stream("GET", events, headers=one)) for _ in range(3)]
        assert [stream.status_code for stream in streams] == [200] * 3

        refused = http.get(events, headers=one)
        assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
        assert int(refused.headers["Retry-After"]) >= 1
        runs_before = len(http.get("/v1/runs", headers=one).json()["data"])
        waited_for = http.post("/v1/gate", json={"query": "what is a claim?", "wait": True}, headers=one)
        assert waited_for.status_code == 429
        assert len(http.get("/v1/runs", headers=one).json()["data"]) == runs_before, (
            "what is refused leaves nothing behind"
        )
        assert http.post("/v1/gate", json={"query": "what is a claim?"}, headers=one).status_code == 202
        with http.stream("GET", events, headers=other) as stream:
            assert stream.status_code == 200

        streams[0].close()

        def has_place() -> bool:
            with http.stream("GET", events, headers=one) as stream:
                return stream.status_code == 200

        until(has_place)


def test_a_stream_tells_the_end_that_came_between_two_of_its_reads(
    http: TestClient, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begun(ledger)
    status_of = ledger.status_of

    def of_a_run_that_ends_just_now(run_id: str) -> RunStatus:
        if status_of(run_id) not in ENDED:
            ledger.cancel(run_id)
        return status_of(run_id)

    read: Ledger = http.app.state.instance.context.ledger  # type: ignore[attr-defined]
    monkeypatch.setattr(read, "status_of", of_a_run_that_ends_just_now)
    assert "event: RunFinished" in http.get(f"/v1/runs/{run_id}/events").text


def test_the_stream_is_told_in_parts_as_json(http: TestClient, ledger: Ledger) -> None:
    run_id = begun(ledger)
    events, told = f"/v1/runs/{run_id}/events", list[Any]()
    part: dict[str, Any] = {"last_event_id": "0"}
    for _ in range(2):
        part = http.get(events, params={"format": "json", "after": part["last_event_id"]}).json()
        told += part["data"]
        ledger.cancel(run_id)
    assert [one["kind"] for one in told] == ["GateRequested", "RunFinished"]
    assert told[0]["body"]["query"] == "what is a lease?"
    assert part["has_ended"]
    again = http.get(events, params={"format": "json", "after": part["last_event_id"], "wait": 60}).json()
    assert (again["data"], again["last_event_id"], again["has_ended"]) == ([], part["last_event_id"], True)
    behind = http.get(events, headers={"Last-Event-ID": part["last_event_id"]}, params={"format": "json"})
    assert behind.json()["data"] == []


def test_a_part_waits_for_the_next_event_and_no_longer(http: TestClient, ledger: Ledger) -> None:
    run_id = begun(ledger)
    events, wanted = f"/v1/runs/{run_id}/events", {"format": "json", "after": "1000000", "wait": 0.2}
    late = http.get(events, params=wanted).json()
    assert (late["data"], late["has_ended"], late["last_event_id"]) == ([], False, "1000000")
    wrong = http.get(events, params={"format": "json", "after": "x"})
    assert (wrong.status_code, wrong.json()["errors"][0]["parameter"]) == (422, "after")


def test_the_description_knows_every_kind_of_event(http: TestClient) -> None:
    shapes = http.get("/openapi.json").json()["components"]["schemas"]
    kinds = {one["$ref"].rpartition("/")[2] for one in shapes["Event"]["oneOf"]}
    assert len(kinds) == len(Body.registry)
    assert shapes["RunFinishedEvent"]["properties"]["kind"]["const"] == "RunFinished"
    assert shapes["EventsPart"]["properties"]["data"]["items"] == {"$ref": "#/components/schemas/Event"}
