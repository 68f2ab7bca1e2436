"""Where a run ends that is too slow, too much or not wanted any more: cancel, deadlines and full queues, as a whole."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.contracts.event import QUEUES, Queue
from sluice.ledger.ledger import Ledger
from tests.support.instance import Instance
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)

LANE_LIMIT = 12
HANG_SECONDS = 60.0


class Site(BaseHTTPRequestHandler):
    """Quick pages, and some below `/slow` that nobody has the patience for."""

    gone = threading.Event()

    def do_GET(self) -> None:
        if self.path.startswith("/slow"):
            self.gone.wait(HANG_SECONDS)
        words = " ".join(f"pebble{self.path.strip('/')} stone{i}" for i in range(60))
        raw = f"<html><title>{self.path}</title><body><h1>Pebbles</h1><p>{words}</p></body></html>".encode()
        try:
            self.send_response(404 if self.path == "/robots.txt" else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
        except OSError:
            return  # whoever asked has left

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    Site.gone.set()
    server.shutdown()


@pytest.fixture(scope="module")
def silence() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Limited(Instance):
    """An instance that asks for keys, and its ledger beside it."""

    keys: dict[str, dict[str, str]]
    ledger: Ledger

    def key_of(self, owner: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[owner]['key']}"}

    def post(self, path: str, body: dict[str, Any], owner: str = "agent") -> httpx.Response:
        return self.http.post(path, json=body, headers=self.key_of(owner))

    def add(self, corpus: str, owner: str, number: int) -> httpx.Response:
        document = {"id": f"{owner}-{number}", "text": f"The kingfisher number {number} of {owner} dives."}
        body = {"corpus": corpus, "create_corpus": True, "documents": [document]}
        return self.post("/v1/documents", body, owner)

    def claimed(self, stage: Queue) -> int:
        return self.ledger.queue_stats()[stage].claimed


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, site: str, silence: str) -> Iterator[Limited]:
    folder: Path = tmp_path_factory.mktemp("limits")
    settings = {
        "SEARCH__ENABLED": "true",
        "SEARCH__PROVIDERS": '["searxng"]',
        "SEARCH__SEARXNG_URL": f"http://{silence}",
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "50",
        "EGRESS__ALLOW": f'["{site}", "search={silence}"]',
        "POOLS__CRAWL": "2",
        "DELIVERY__MAX_READY_EVENTS_PER_LANE": str(LANE_LIMIT),
    }
    with Limited(folder, **settings) as running:
        made = (
            running.sluice("keys", "create", owner, "--role", "operator", "--json") for owner in ("agent", "feeder")
        )
        running.keys = dict(zip(("agent", "feeder"), (json.loads(one.stdout) for one in made), strict=True))
        running.http.headers.update(running.key_of("agent"))
        running.ledger = Ledger(f"sqlite:///{running.data_dir / 'ledger.sqlite'}")
        for corpus in ("cancelled", "quick", "queued"):
            running.http.post("/v1/corpora", json={"name": corpus}).raise_for_status()
        yield running
        running.ledger.close()


def test_a_cancelled_run_lets_go_of_everything_and_its_workers_do_other_work(instance: Limited, site: str) -> None:
    seeds = [f"http://{site}/slow{number}" for number in range(6)]
    body = {"query": "pebbles", "corpus": "cancelled", "plan": "full_loop", "seeds": seeds, "deadline_seconds": 300}
    run_id = instance.post("/v1/gate", body).json()["run_id"]
    until(lambda: instance.claimed("crawl") == 2)
    assert instance.ledger.budget_left(run_id).run.pages == 0
    cancelled_at = time.monotonic()
    view = instance.http.delete(f"/v1/runs/{run_id}").json()
    assert (view["status"], view["open_events"]) == ("cancelled", 0)
    left = instance.ledger.budget_left(run_id).run
    assert (left.pages, left.bytes) == (8, 8 * 10_000_000)
    told = [event["kind"] for event in instance.events(run_id)]
    assert told[-1] == "RunFinished"

    quick = {"documents": [{"url": f"http://{site}/quick"}], "corpus": "quick", "limits": {"max_depth": 0}}
    other = instance.wait(instance.post("/v1/documents", quick).json()["run_id"])
    seconds = time.monotonic() - cancelled_at
    assert (other["status"], other["spend"]["pages"]) == ("finished", 1)
    assert seconds < HANG_SECONDS - 5, "the workers waited for the slow pages"
    assert [event["kind"] for event in instance.events(run_id)] == told, "something late was recorded"
    assert instance.sluice("cancel", run_id, "--json").returncode == 0


def test_a_run_is_cancelled_from_the_command_line_and_queued_work_with_it(instance: Limited, site: str) -> None:
    instance.ledger.pause("crawl", "a test", operator="test")
    seeds = [f"http://{site}/queued{number}" for number in range(4)]
    body = {"query": "pebbles", "corpus": "queued", "plan": "full_loop", "seeds": seeds, "deadline_seconds": 300}
    run_id = instance.post("/v1/gate", body).json()["run_id"]
    until(lambda: instance.ledger.queue_stats()["crawl"].ready == 4)
    told = json.loads(instance.sluice("cancel", run_id, "--json").stdout)
    assert (told["status"], told["open_events"]) == ("cancelled", 0)
    assert instance.ledger.queue_stats()["crawl"].ready == 0
    instance.ledger.resume("crawl", operator="test")


def test_an_answer_at_its_deadline_has_what_is_there_and_names_what_is_not(instance: Limited, site: str) -> None:
    instance.wait(instance.add("late", "agent", 1).json()["run_id"])
    instance.ledger.pause("chunk", "a test", operator="test")
    seeds = [f"http://{site}/slow-late", f"http://{site}/quick-late"]
    body = {"query": "kingfisher", "corpus": "late", "plan": "full_loop", "seeds": seeds, "deadline_seconds": 8}
    asked_at = time.monotonic()
    response = instance.post("/v1/gate", {**body, "wait": True})
    seconds = time.monotonic() - asked_at
    assert response.status_code == 200, response.text
    run = response.json()
    assert run["status"] == "finished"
    assert seconds < HANG_SECONDS - 20  # the pages that never come were not waited for
    assert [chunk["document_id"] for chunk in run["answer"]["chunks"]] == ["agent-1"]
    late = {gap["stage"]: gap for gap in run["answer"]["missing"] if gap["reason"] == "deadline"}
    assert set(late) == {"search", "crawl", "chunk"}
    assert late["chunk"]["detail"] == "the stage is paused: a test"
    assert late["crawl"]["detail"] == "still going on"
    instance.ledger.resume("chunk", operator="test")
    assert instance.http.delete(f"/v1/runs/{run['run_id']}").status_code == 202


def test_a_full_lane_is_told_to_come_back_and_nothing_accepted_is_lost(instance: Limited) -> None:
    instance.ledger.pause("chunk", "a test", operator="test")
    with ThreadPoolExecutor(6) as feeders:
        responses = list(feeders.map(lambda number: instance.add("full", "feeder", number), range(4 * LANE_LIMIT)))
    accepted = [response.json()["run_id"] for response in responses if response.status_code == 202]
    refused = [response for response in responses if response.status_code != 202]
    assert LANE_LIMIT <= len(accepted) <= LANE_LIMIT + 6
    assert {response.status_code for response in refused} == {429}
    assert {response.json()["code"] for response in refused} == {"overloaded"}
    assert all(1 <= int(response.headers["Retry-After"]) <= 60 for response in refused)
    assert "max_ready_events_per_lane" in refused[0].json()["message"]

    other = instance.add("full", "agent", 1)
    assert other.status_code == 202, "another key's request still gets in"
    instance.ledger.resume("chunk", operator="test")
    runs = [instance.wait(run_id) for run_id in (*accepted, other.json()["run_id"])]
    assert {run["status"] for run in runs} == {"finished"}
    recorded = instance.ledger.runs(limit=500, owner=instance.keys["feeder"]["id"])
    assert {run.run_id for run in recorded} == set(accepted)
    until(lambda: instance.add("full", "feeder", 999).status_code == 202)
    until(lambda: sum(instance.ledger.queue_stats()[stage].waiting for stage in QUEUES) == 0)
