"""An operator meets what goes wrong, and mends all of it in the console, in a sandboxed browser, on a whole instance.

What cannot be mended there is done to the world outside by the test: a disk gets room, a site and a provider come back.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.console import watched_page
from tests.support.instance import Instance
from tests.support.openai_endpoint import OpenAIEndpoint
from tests.support.small_disk import SmallDisk
from tests.support.troubled_world import World
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)

PATIENCE = 45_000
"""Milliseconds: long, as the machine may be busy."""
LETTERS, DOCUMENTS = 4, 40
"""Fewer letters than failures that open the provider's own circuit; more documents than the stage's breaker wants."""


class Operator:
    """Somebody with a browser."""

    def __init__(self, page: Page, instance: Instance) -> None:
        self.page, self.instance = page, instance
        page.on("dialog", lambda dialog: dialog.accept())

    def opens(self, path: str = "") -> None:
        self.page.goto(f"{self.instance.url}/console{path}")

    def clicks(self, button: str, said: str, **fields: str) -> None:
        """Fill the form of a button, send it, and wait until the page says what was done."""
        for name, text in fields.items():
            self.page.fill(f"#{button}-{name}", text)
        self.page.click(f"#{button}-do")
        expect(self.page.locator("#said")).to_contain_text(said, timeout=PATIENCE)

    def sees(self, place: str, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator(place).first).to_contain_text(text, timeout=PATIENCE)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.ends()


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    endpoint = OpenAIEndpoint()
    yield endpoint
    endpoint.dies()


@pytest.fixture
def instance(tmp_path: Path, small_disk: SmallDisk, world: World, endpoint: OpenAIEndpoint) -> Iterator[Instance]:
    """Lives on a disk of its own, may reach that world alone, and asks an endpoint for embeddings."""
    settings = {f"EMBED__{name.upper()}": str(value) for name, value in endpoint.settings.items()}
    settings |= {
        "DATA_DIR": str(small_disk.folder / "data"),
        "EMBED__FALLBACK": "none",
        "SEARCH__ENABLED": "true",
        "SEARCH__PROVIDERS": '["searxng"]',
        "SEARCH__SEARXNG_URL": f"http://{world.place}",
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "EGRESS__ALLOW": json.dumps([f"search={world.place}", f"crawl={world.place}"]),
        "DELIVERY__RETRY_BASE_SECONDS": "0.2",
        "DELIVERY__LEASE_SECONDS": "3",
    }
    running = Instance(tmp_path, **settings)
    running.data_dir = small_disk.folder / "data"
    with running:
        yield running


def test_an_operator_mends_all_of_it(
    chromium: Browser, instance: Instance, world: World, endpoint: OpenAIEndpoint, small_disk: SmallDisk
) -> None:
    with watched_page(chromium) as page:
        operator = Operator(page, instance)
        for step, does in {
            "a worker is killed": lambda: a_worker_is_killed(operator, world),
            "a page kills its worker": lambda: a_page_kills_its_worker(operator, world),
            "letters are edited and replayed": lambda: letters_are_edited_and_replayed(operator, world),
            "a stuck run is found": lambda: a_stuck_run_is_found_and_cancelled(operator, world),
            "the breaker paused a stage": lambda: the_breaker_paused_a_stage(operator, endpoint),
            "the broker stops": lambda: the_broker_stops(operator),
            "the disk is full": lambda: the_disk_is_full(operator, small_disk),
        }.items():
            began = time.monotonic()
            does()
            print(f"{step}: {time.monotonic() - began:.1f} s")


def crawl_pool(instance: Instance) -> int:
    return next(pid for name, pid in instance.processes.items() if "crawl" in name)


def crawls(operator: Operator, world: World, path: str, corpus: str) -> str:
    """Begin a run that reads one page; its id."""
    body = {"query": f"pebble and stone of {corpus}", "corpus": corpus, "create_corpus": True, "plan": "full_loop"}
    body |= {"seeds": [f"http://{world.place}{path}"], "deadline_seconds": 90}
    return str(operator.instance.http.post("/v1/gate", json=body).raise_for_status().json()["run_id"])


def a_worker_is_killed(operator: Operator, world: World) -> None:
    """Nothing is to be done: the run says which worker died, and ends well."""
    run_id = crawls(operator, world, "/slow1", "killed")
    operator.opens(f"/runs/{run_id}")
    operator.sees("#waterfall tr:has(.works):has-text('still')", re.compile("crawl|Crawl"))
    os.kill(crawl_pool(operator.instance), signal.SIGKILL)
    operator.sees("#waterfall .doing.died", "worker died")
    operator.sees("#figures dl", "finished")
    operator.opens()
    operator.sees("#stage-crawl", "runs")


def a_page_kills_its_worker(operator: Operator, world: World) -> None:
    """The event is parked as poison; once the page is harmless, its letter is replayed, and the run says what came."""
    world.deadly_to = lambda: os.kill(crawl_pool(operator.instance), signal.SIGKILL)
    run_id = crawls(operator, world, "/deadly", "poisoned")
    operator.instance.wait(run_id)
    operator.opens("/dead?reason=poison")
    operator.sees("#figures tbody", "workers died while they handled this event")
    operator.page.get_by_role("link", name="Example").click()
    operator.sees("main table", "died")
    world.deadly_to = None
    operator.clicks("replay", "is ready again", note="the page is harmless now")
    operator.opens(f"/runs/{run_id}")
    operator.sees("#figures", "What was missing and came later")


def letters_are_edited_and_replayed(operator: Operator, world: World) -> None:
    """A provider failed: one letter's query is changed and it goes alone, the others go together."""
    world.is_search_broken = True
    asked = [{"query": f"what is basalt {n}", "plan": "search", "corpus": "rocks"} for n in range(LETTERS)]
    for one in asked:
        operator.instance.ask(**one, deadline_seconds=60)
    world.is_search_broken = False
    operator.opens("/dead?stage=search&each=1")
    expect(operator.page.locator("#figures tbody tr")).to_have_count(LETTERS, timeout=PATIENCE)
    operator.page.locator("#figures tbody th a").first.click()
    operator.page.get_by_role("link", name="Show the payload").click()
    payload = operator.page.input_value("#edit-payload")
    operator.clicks("edit", "The payload is replaced", payload=payload.replace("basalt", "granite"), note="misspelt")
    operator.clicks("replay", "is ready again")
    operator.opens("/dead?stage=search&each=1")
    expect(operator.page.locator("#figures tbody tr")).to_have_count(LETTERS - 1, timeout=PATIENCE)
    operator.page.get_by_role("link", name="Replay all of these").click()
    operator.clicks("replay-many", f"brings back {LETTERS - 1} letters", typed=str(LETTERS - 1), per_second="50")
    operator.sees("#state", "done")
    operator.sees("#brought-back", str(LETTERS - 1))


def a_stuck_run_is_found_and_cancelled(operator: Operator, world: World) -> None:
    """A stage is paused for long: the run says that it waits, and for what; it is cancelled, and the stage goes on."""
    operator.opens()
    operator.clicks("pause-crawl", "crawl is paused", why="the site asked for a rest")
    run_id = crawls(operator, world, "/quick", "stuck")
    operator.opens("/runs?tab=open&q=stuck")
    operator.page.get_by_role("link", name=run_id).click()
    operator.sees("#waterfall", "the site asked for a rest")
    operator.clicks("cancel", "The run is cancelled")
    operator.sees("#figures dl", "cancelled")
    operator.opens()
    operator.clicks("resume-crawl", "crawl goes on")


def the_breaker_paused_a_stage(operator: Operator, endpoint: OpenAIEndpoint) -> None:
    """The overview says which stage the breaker paused and why; the endpoint is back, and the operator does not wait."""
    http = operator.instance.http
    operator.opens()
    endpoint.dies()
    documents = [[{"id": f"d{n}", "text": f"Box {n} holds a fossil."}] for n in range(DOCUMENTS)]
    sent = [http.post("/v1/documents", json={"documents": one}).json()["run_id"] for one in documents]
    operator.sees("#stage-embed", "by the instance itself")
    endpoint.starts()
    operator.page.get_by_role("link", name="Resume embed").click()
    operator.clicks("resume-embed", "embed goes on")
    assert {operator.instance.wait(one)["status"] for one in sent} == {"finished"}
    operator.sees("#stage-embed", "runs")


def the_broker_stops(operator: Operator) -> None:
    """It hangs, and later it dies: the overview says so, what the ledger knows stays in sight, a pause is recorded."""
    operator.opens()
    broker = psutil.Process(operator.instance.processes["broker"])
    broker.suspend()
    operator.sees("#sick-broker", "broker")
    operator.clicks("pause-graph", "graph is paused", why="while the broker is away")
    with suppress(psutil.NoSuchProcess):  # who hangs for long is killed by the instance itself
        broker.resume()
    operator.sees("#f-health", "every part answers")
    operator.opens()
    operator.clicks("resume-graph", "graph goes on")
    broker = psutil.Process(operator.instance.processes["broker"])
    broker.kill()
    operator.sees("#f-health", "every part answers")
    until(lambda: operator.instance.processes["broker"] != broker.pid)


def the_disk_is_full(operator: Operator, disk: SmallDisk) -> None:
    """The overview says how little is left, and that the stages which fill the disk rest; they go on with the room."""
    operator.opens()
    disk.fill()
    operator.sees("#sick-disk", "MB left")
    operator.sees("#stage-chunk", "short of room by the instance itself")
    operator.opens("/runs")
    operator.sees("h1", "Runs")
    operator.opens()
    disk.make_room()
    operator.sees("#f-health", "every part answers")
    operator.sees("#stage-chunk", "runs")
    operator.opens()
    operator.clicks("pause-graph", "graph is paused", why="there is room to record it")
    operator.clicks("resume-graph", "graph goes on")
