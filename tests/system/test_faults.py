"""What goes wrong around a run: killed pools, dead providers and sites, forbidden addresses, many agents at once."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench.demo.web import DemoWeb
from sluice.contracts.event import QUEUES
from tests.support.instance import Instance, free_port
from tests.support.online import outside
from tests.support.pdf_files import ENDLESS, pdf_of, pdf_of_entries

pytestmark = pytest.mark.timeout(300)


class SlowSite(BaseHTTPRequestHandler):
    """Pages that take a while, so that a kill falls into the middle of a run."""

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            return self._send(404, "no rules")
        if self.path == "/private":
            return self._send(200, "<p>private</p>")
        time.sleep(0.3)
        number = self.path.strip("/")
        words = " ".join(f"pebble{number} stone{i}" for i in range(60))
        return self._send(
            200, f"<html><title>Page {number}</title><body><h1>Page {number}</h1><p>{words}</p></body></html>"
        )

    def _send(self, status: int, body: str) -> None:
        raw = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture(scope="module")
def site() -> Any:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowSite)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, site: str) -> Any:
    """May crawl the slow site; its search provider is dead, and so is one of its neighbours."""
    dead = free_port()
    settings = {
        "SEARCH__ENABLED": "true",
        "SEARCH__PROVIDERS": '["searxng"]',
        "SEARCH__SEARXNG_URL": f"http://127.0.0.1:{dead}",
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "CRAWL__MAX_PAGES": "12",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "50",
        "EGRESS__ALLOW": f'["{site}", "search=127.0.0.1:{dead}", "crawl=127.0.0.1:{dead}"]',
        "DELIVERY__RETRY_BASE_SECONDS": "0.2",
        "DELIVERY__LEASE_SECONDS": "3",
    }
    with Instance(tmp_path_factory.mktemp("faults"), **settings) as running:
        running.dead_address = f"127.0.0.1:{dead}"  # type: ignore[attr-defined]
        yield running


@pytest.mark.parametrize("stage", QUEUES)
def test_a_run_survives_kill_9_of_a_pool_and_says_nothing_twice(instance: Instance, site: str, stage: str) -> None:
    corpus = f"killed-{stage}"
    seeds = [f"http://{site}/{stage}{number}" for number in range(4)]
    accepted = instance.http.post(
        "/v1/gate",
        json={
            "query": "pebble and stone",
            "corpus": corpus,
            "create_corpus": True,
            "plan": "full_loop",
            "seeds": seeds,
            "deadline_seconds": 90,
        },
    ).json()
    time.sleep(0.5)
    [pool] = (name for name in instance.processes if stage in name.removesuffix("-1").split("+"))
    os.kill(instance.processes[pool], signal.SIGKILL)
    run = instance.wait(accepted["run_id"])
    assert run["status"] == "finished", run
    events = instance.events(run["run_id"])
    kinds = Counter(event["kind"] for event in events)
    assert kinds["AnswerReady"] == kinds["RunFinished"] == kinds["GateDecided"] == 1
    pages = Counter(event["body"]["url"] for event in events if event["kind"] == "PageCrawled")
    assert pages == Counter(seeds)
    chunks = [chunk["chunk_id"] for chunk in query(instance, "pebble stone", corpus, top_k=50)["chunks"]]
    assert len(chunks) == len(set(chunks)) > 0
    assert {c["url"] for c in query(instance, "pebble stone", corpus, top_k=50)["chunks"]} == set(seeds)


def test_a_dead_provider_is_a_visible_failure_and_never_an_empty_result(instance: Instance) -> None:
    run = instance.ask("what is granite", corpus="dead-provider", plan="search", deadline_seconds=30)
    assert run["status"] == "finished"
    (gap,) = [gap for gap in run["missing"] if gap["stage"] == "search"]
    assert "searxng" in gap["detail"]
    assert "SearchCompleted" not in {event["kind"] for event in instance.events(run["run_id"])}
    letters = instance.http.get("/v1/dead-letters", params={"run_id": run["run_id"]}).json()["data"]
    assert [letter["reason"] for letter in letters] in (["exhausted"], []), "[]: its breaker had opened before"


def test_a_dead_letter_can_be_looked_at_and_replayed(instance: Instance) -> None:
    letter = instance.http.get("/v1/dead-letters", params={"stage": "search"}).json()["data"][0]
    shown = instance.http.get(f"/v1/dead-letters/{letter['id']}").json()
    assert "SearchDirected" in shown["payload"]["text"]
    assert shown["stack"]
    replayed = instance.http.post(f"/v1/dead-letters/{letter['id']}/replay", params={"note": "again"})
    assert replayed.status_code == 202
    listed = instance.sluice("dead", "list", "--json", "--all", "--each")
    assert letter["id"] in listed.stdout


def test_a_dead_site_a_refusal_and_a_forbidden_address_are_named_gaps(instance: Instance, site: str) -> None:
    dead = instance.dead_address  # type: ignore[attr-defined]
    seeds = [
        f"http://{dead}/page",
        "http://127.0.0.1:9/inside",
        "http://169.254.169.254/latest/meta-data/",
        f"http://{site}/good",
    ]
    run = instance.ask("pebble and stone", corpus="gaps", plan="full_loop", seeds=seeds, deadline_seconds=40)
    assert run["status"] == "finished"
    missing = {gap["subject"]: gap["reason"] for gap in run["missing"]}
    assert missing[f"http://{dead}/page"] == "robots_unreachable"
    assert missing["http://127.0.0.1:9/inside"] == "egress"
    assert missing["http://169.254.169.254/latest/meta-data/"] == "egress"
    assert {citation["url"] for citation in run["answer"]["citations"]} == {f"http://{site}/good"}


def test_robots_refuse_and_the_answer_says_so(tmp_path: Path, web: DemoWeb) -> None:
    with Instance(tmp_path / "robots", **outside(web), CRAWL__RENDER="never") as running:
        seed = f"{web.search_url}/topic?key=LAMBDAS"
        run = running.ask("lambdas", corpus="robots", plan="full_loop", seeds=[seed], deadline_seconds=40)
        assert {gap["reason"] for gap in run["missing"] if gap["subject"].startswith(f"{web.search_url}/topic")} == {
            "robots"
        }


def test_thirty_two_agents_at_once_are_all_answered(instance: Instance, site: str) -> None:
    instance.ask(
        "pebble and stone", corpus="shared", plan="full_loop", seeds=[f"http://{site}/shared"], deadline_seconds=40
    )

    def ask(number: int) -> dict[str, Any]:
        return instance.ask(f"pebble stone number {number}", corpus="shared", plan="retrieve", deadline_seconds=60)

    with ThreadPoolExecutor(32) as agents:
        runs = list(agents.map(ask, range(32)))
    assert {run["status"] for run in runs} == {"finished"}
    assert all(run["answer"]["citations"] for run in runs)
    assert len({run["run_id"] for run in runs}) == 32


def test_the_broker_may_die_and_lose_everything(instance: Instance, site: str) -> None:
    seeds = [f"http://{site}/broker{number}" for number in range(3)]
    body = {"query": "pebble", "corpus": "broker", "create_corpus": True, "plan": "full_loop", "seeds": seeds}
    accepted = instance.http.post("/v1/gate", json={**body, "deadline_seconds": 90}).json()
    time.sleep(0.2)
    os.kill(instance.processes["broker"], signal.SIGKILL)
    for file in (instance.data_dir / "broker").glob("appendonlydir/*"):
        file.unlink(missing_ok=True)
    run = instance.wait(accepted["run_id"])
    assert run["status"] == "finished"
    assert {c["url"] for c in run["answer"]["chunks"]} == set(seeds)


def query(instance: Instance, text: str, corpus: str, **fields: Any) -> dict[str, Any]:
    """What is found; asked again while the broker that a test killed is on its way back."""
    until = time.monotonic() + 60
    while True:
        response = instance.http.post("/v1/query", json={"query": text, "corpus": corpus, **fields})
        if response.status_code != 503 or time.monotonic() > until:
            break
        time.sleep(0.5)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_a_file_without_end_is_a_gap_and_the_others_are_found(instance: Instance, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "endless.pdf").write_bytes(pdf_of_entries(2_000, ENDLESS))
    (folder / "paper.pdf").write_bytes(pdf_of("A lease is renewed by a heartbeat", title="Leases"))
    ingested = instance.sluice("ingest", str(folder), "--corpus", "papers", "--json")
    (gap,) = json.loads(ingested.stdout)["missing"]
    assert gap["subject"] == "papers/endless.pdf"
    assert "takes more than 5 s to read" in gap["detail"]
    assert [chunk["title"] for chunk in query(instance, "lease heartbeat", "papers")["chunks"]] == ["Leases"]


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        instance = Instance(tmp_path / "taken")
        instance.folder.mkdir(parents=True)
        instance.environment["SLUICE_HTTP_PORT"] = str(taken.getsockname()[1])
        ended = instance.sluice("up", timeout=60)
    assert ended.returncode != 0
    assert "http_port" in ended.stderr


def test_an_address_beyond_this_machine_needs_a_key(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "exposed", HTTP_HOST="0.0.0.0")
    instance.folder.mkdir(parents=True)
    ended = instance.sluice("up", timeout=60)
    assert ended.returncode == 2
    assert "sluice keys NAME --create" in ended.stderr
