"""What an answer cites has changed: its run says so, and so does the stream of its events behind the run's end."""

from __future__ import annotations

import httpx
from starlette.testclient import TestClient

from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import STALE, answered
from tests.support.served import served
from tests.support.valkey import Valkey


def test_a_run_says_which_of_its_citations_are_stale_and_from_when(http: TestClient, ledger: Ledger) -> None:
    run_id = answered(ledger)
    assert "stale" not in http.get(f"/v1/runs/{run_id}").json()
    assert ledger.tell_stale(run_id, (STALE,)) is not None
    [told] = http.get(f"/v1/runs/{run_id}").json()["stale"]
    assert (told["citation"], told["what"], told["changed_at"]) == (1, "changed", "2031-05-06T00:00:00Z")
    assert ledger.tell_stale(run_id, (STALE,)) is None, "it is told once"


def test_a_stream_tells_what_was_recorded_behind_the_runs_end(http: TestClient, ledger: Ledger) -> None:
    """From the beginning, and after the id of the last event that was seen."""
    run_id = answered(ledger)
    path = f"/v1/runs/{run_id}/events"
    ids = [line[3:].strip() for line in http.get(path).text.splitlines() if line.startswith("id:")]
    ledger.tell_stale(run_id, (STALE,))
    assert "event: AnswerStale" in http.get(path).text
    assert "event: AnswerStale" in http.get(path, headers={"Last-Event-ID": ids[-1]}).text


def test_a_followed_stream_tells_of_it_as_it_happens(valkey: Valkey) -> None:
    """Behind a real socket: the test client waits for the end of a response."""
    with served(valkey.settings) as address, Ledger(valkey.settings.ledger_location) as ledger:
        run_id = answered(ledger)
        told: list[str] = []
        with httpx.stream("GET", f"{address}/v1/runs/{run_id}/events?follow=true", timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith("event: "):
                    told.append(line.removeprefix("event: "))
                if line == "event: RunFinished":
                    ledger.tell_stale(run_id, (STALE,))
                if line == "event: AnswerStale":
                    break
    assert told[-2:] == ["RunFinished", "AnswerStale"]
