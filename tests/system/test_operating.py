"""As an operator works: a pool is resized while it crawls, killed, the instance restarted, looked at and ended."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import Instance
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)

SLOW_SECONDS = 6.0
"""Longer than the three seconds in which an instance that ends lets running events finish."""


class SlowSite(BaseHTTPRequestHandler):
    """One page, which takes its time."""

    asked: list[str] = []  # noqa: RUF012 - of this test alone

    def do_GET(self) -> None:
        if self.path != "/robots.txt":
            self.asked.append(self.path)
            time.sleep(SLOW_SECONDS)
        raw = b"" if self.path == "/robots.txt" else b"<title>Page</title><h1>Page</h1><p>Pebbles lie in the sand.</p>"
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def site() -> Any:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowSite)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    SlowSite.asked.clear()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def stage(instance: Instance, name: str) -> dict[str, Any]:
    stages = instance.http.get("/v1/overview").json()["stages"]
    return next(dict(one) for one in stages if one["stage"] == name)


def test_a_pool_is_resized_killed_and_kept_over_a_restart(tmp_path: Path, site: str) -> None:
    settings = {"CRAWL__ENABLED": "true", "CRAWL__RENDER": "never", "EGRESS__ALLOW": json.dumps([site])}
    with Instance(tmp_path, **settings) as instance:
        assert instance.sluice("status").returncode == 0

        # the one that crawls is replaced while it has a page in hand: it finishes that, and the page is asked for once
        body = {"documents": [{"url": f"http://{site}/page"}], "create_corpus": True}
        run = instance.http.post("/v1/documents", json=body).json()["run_id"]
        until(lambda: SlowSite.asked == ["/page"], 30)
        before = instance.processes["crawl-1"]
        resized = instance.sluice("stages", "crawl", "--scale", "6", "--why", "a test")
        assert "crawl: 6 at once from now on; sluice up starts and stops" in resized.stdout, resized.stderr
        until(lambda: "crawl-2" in instance.processes and "crawl-1" not in instance.processes, 30)
        assert not Path(f"/proc/{before}").exists()
        until(lambda: instance.http.get(f"/v1/runs/{run}").json()["status"] == "finished", 60)
        assert SlowSite.asked == ["/page"]
        told = [
            json.loads(line) for line in instance.sluice("logs", run, "--json", *where(instance)).stdout.splitlines()
        ]
        crawled = [line for line in told if line.get("kind") == "CrawlDirected" and line["event"] == "event_handled"]
        assert [(line["outcome"], line["attempt"]) for line in crawled] == [("Done", 1)]
        assert crawled[0]["url"] == f"http://{site}/page"

        # a killed pool comes back in the size that was asked for
        until(lambda: stage(instance, "crawl")["workers"] == 6, 30)
        os.kill(instance.processes["crawl-2"], signal.SIGKILL)
        until(lambda: stage(instance, "crawl")["workers"] == 6 and instance.sluice("status").returncode == 0, 60)

        # none of a stage is well; of one that is wanted it would not be
        instance.sluice("stages", "graph", "--scale", "0")
        until(lambda: stage(instance, "graph")["workers"] == 0, 30)
        assert instance.http.get("/healthz").status_code == 200
        story = instance.sluice("logs", run, *where(instance)).stdout
        [seconds] = re.findall(rf"crawl   fetched http://{site}/page in ([\d.]+) s", story)
        assert float(seconds) >= SLOW_SECONDS

        ended = instance.sluice("down", "--json")
        assert ended.returncode == 0, ended.stdout
        assert json.loads(ended.stdout)["left"] == {}
        assert instance.sluice("status").returncode == 3
        assert instance.sluice("down").returncode == 3
    shown = (tmp_path / "up.log").read_text()
    assert f"fetched http://{site}/page" in shown
    assert "faiss" not in shown
    assert '{"' not in shown, "people read it"

    with Instance(tmp_path, **settings) as instance:
        assert (stage(instance, "crawl")["workers_wanted"], stage(instance, "graph")["workers_wanted"]) == (6, 0)
        assert "crawl 6 (usually 4)" in (tmp_path / "up.log").read_text()
        assert instance.sluice("stages", "crawl", "--as-set").returncode == 0
        until(lambda: stage(instance, "crawl")["workers"] == 4, 30)


def where(instance: Instance) -> tuple[str, str]:
    """The instances of tests keep their log files beside the data."""
    return "--log-dir", str(instance.folder / "logs")
