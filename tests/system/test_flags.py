"""Flags of a running instance, changed without a restart; and a gate that only observes, beside a web that sees nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice_client import SluiceClient
from tests.support.instance import Instance
from tests.support.site import Site

pytestmark = pytest.mark.timeout(240)

QUESTION = "Which engine does the newest ferry of the harbour have?"
TEXT = "The newest ferry of the harbour has a hydrogen engine, built in the yard behind the church."


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    """A search engine and its one page, on loopback."""
    site = Site()
    row = {"url": site.url("/ferry.html"), "title": "Ferry", "content": TEXT}
    site.put("/search", json.dumps({"results": [row]}), Content_Type="application/json")
    site.html("/ferry.html", f"<html><body><main><p>{TEXT}</p></main></body></html>")
    site.put("/robots.txt", "User-agent: *\nAllow: /\n", Content_Type="text/plain")
    yield site
    site.close()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, web: Site) -> Iterator[Instance]:
    """It may search and crawl that web; it only observes until it is started again."""
    with Instance(tmp_path_factory.mktemp("flags"), **outside(web), GATE__MODE="observe") as running:
        yield running


def outside(web: Site) -> dict[str, str]:
    return {
        "SEARCH__ENABLED": "true",
        "SEARCH__PROVIDERS": '["searxng"]',
        "SEARCH__SEARXNG_URL": web.url("").rstrip("/"),
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "EGRESS__ALLOW": f'["search={web.address}", "crawl={web.address}"]',
    }


def changed(instance: Instance, *arguments: str) -> dict[str, Any]:
    done = instance.sluice("flags", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    time.sleep(1.1)  # what a process has read of the flags is a second old at most
    return result


def test_observing_it_decides_and_says_so_and_the_web_sees_no_request(instance: Instance, web: Site) -> None:
    run = instance.ask(QUESTION)
    assert run["decision"]["scored_plan"] == "full_loop"
    assert run["decision"]["plan"] == "retrieve"
    assert run["decision"]["control"] == {"observe": True}
    assert {veto["name"] for veto in run["decision"]["vetoes"]} == {"observe"}
    assert "observe" in {gap["reason"] for gap in run["answer"]["missing"]}
    assert web.paths() == []
    explained = instance.sluice("gate", "explain", run["run_id"], "--json")
    assert explained.returncode == 0, explained.stdout + explained.stderr


def test_a_flag_takes_effect_in_every_process_without_a_restart(tmp_path: Path, web: Site) -> None:
    with Instance(tmp_path, **outside(web)) as instance:
        before = dict(instance.processes)
        killed = changed(instance, "kill", "search", "--note", "the provider bills twice", "--operator", "ann")
        assert (killed["state"]["decided_by"], killed["state"]["operator"]) == ("kill_switch", "ann")
        run = instance.ask(QUESTION)
        assert run["decision"]["plan"] == "retrieve"
        assert run["decision"]["control"]["flags_off"] == ["search"]
        assert "flag_search" in {gap["reason"] for gap in run["answer"]["missing"]}
        assert web.paths() == []

        with SluiceClient(instance.url) as client:
            assert {state.name: state.enabled for state in client.flags()}["search"] is False
            assert client.reset_flag("search", note="settled").state.enabled
            assert client.set_flag("hybrid", False).state.decided_by == "stored"
        time.sleep(1.1)
        run = instance.ask(QUESTION)
        assert run["decision"]["plan"] == "full_loop"
        assert any(path.startswith("/search") for path in web.paths())
        assert "hydrogen" in run["answer"]["context"]
        found = instance.http.post("/v1/query", json={"query": QUESTION}).json()
        assert found["metadata"]["strategy"] == "vector"

        history = instance.http.get("/v1/flags/search/history").json()["data"]
        assert [one["action"] for one in history] == ["flag_kill", "flag_reset"]
        assert len(instance.http.get("/v1/runs", params={"kind": "control"}).json()["data"]) == 3
        assert 'sluice_flag_enabled{flag="hybrid"} 0.0' in instance.http.get("/metrics").text
        assert instance.processes == before, "no process was started anew"
