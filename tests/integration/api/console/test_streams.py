"""Streams on a real server: one read a second for all who watch, and an end as soon as the server is told to stop.

Starlette's TestClient (1.10) reads an endless stream line by line and leaves it; older ones, and httpx's ASGITransport,
do not (starlette 1102, httpx 2186). What a stop or a lost connection does needs a server all the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
import starlette
from starlette.testclient import TestClient

from sluice.api.console import overview
from tests.support.instance import free_port
from tests.support.served import served
from tests.support.valkey import Valkey

SOON_SECONDS = 5.0
"""Far less than the ten seconds that the server would wait for an open stream."""
OVERVIEW = "/console/stream?page=overview"


@contextmanager
def followed(address: str, *paths: str, headers: dict[str, str] | None = None) -> Iterator[list[list[str]]]:
    """The lines that have come of each stream so far; at the end they have all ended."""
    lines: list[list[str]] = [[] for _ in paths]
    opened = [threading.Event() for _ in paths]

    def follow(path: str, into: list[str], open_: threading.Event) -> None:
        with httpx.stream("GET", address + path, headers=headers, timeout=60) as response:
            assert response.status_code == 200, response.read()
            open_.set()
            into.extend(response.iter_lines())
            into.append("END")

    threads = [threading.Thread(target=follow, args=one, daemon=True) for one in zip(paths, lines, opened, strict=True)]
    for thread in threads:
        thread.start()
    assert all(one.wait(30) for one in opened)
    yield lines
    for thread in threads:
        thread.join(SOON_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def test_the_test_client_is_the_one_that_was_looked_at() -> None:
    assert starlette.__version__.startswith("1.10.")


def test_open_streams_do_not_hold_up_the_stop(valkey: Valkey) -> None:
    with served(valkey.settings) as address:
        run_id = httpx.post(f"{address}/v1/gate", json={"query": "what stays open?"}, timeout=30).json()["run_id"]
        following = followed(address, OVERVIEW, OVERVIEW, f"/v1/runs/{run_id}/events")
        lines = following.__enter__()
        began = time.monotonic()
    assert time.monotonic() - began < SOON_SECONDS
    following.__exit__(None, None, None)
    assert all(one[-1] == "END" for one in lines)


def test_figures_are_read_once_for_all_who_watch_and_not_at_all_for_nobody(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[float] = []
    read = overview.look

    def counted(*arguments: object) -> object:
        reads.append(time.monotonic())
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(overview, "look", counted)
    with served(valkey.settings) as address:
        time.sleep(1.5)
        assert reads == []
        following = followed(address, *[OVERVIEW] * 8)
        lines = following.__enter__()
        began = time.monotonic()
        time.sleep(4)
        assert len(reads) <= time.monotonic() - began + 2
        httpx.post(f"{address}/v1/stages/crawl/pause", params={"why": "a change"}, timeout=30)
        deadline = time.monotonic() + 20
        while not all(any("a change" in line for line in one) for one in lines):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    following.__exit__(None, None, None)
    messages = [line for line in lines[0] if line.startswith("id:")]
    assert len(messages) == len(set(messages))  # nothing is sent that has not changed


def test_a_stream_goes_on_from_what_was_seen(serve: Callable[..., TestClient]) -> None:
    http = serve()
    with http.stream("GET", OVERVIEW) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        seen = next(line for line in response.iter_lines() if line.startswith("id:"))
    assert seen
    assert http.get("/console/stream?page=nothing").status_code == 404


SERVE = "from sluice.api.app import serve; from sluice.workers.settings import Settings; serve(Settings())"


def test_a_process_with_open_streams_ends_soon_after_a_signal(valkey: Valkey) -> None:
    port, data_dir = free_port(), str(valkey.settings.data_dir)
    env = {**os.environ, "SLUICE_DATA_DIR": data_dir, "SLUICE_HTTP_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-c", SERVE], env=env, stderr=subprocess.DEVNULL)
    try:
        address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
        while not is_answering(address):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        run_id = httpx.post(f"{address}/v1/gate", json={"query": "what stays open?"}, timeout=30).json()["run_id"]
        with followed(address, OVERVIEW, f"/v1/runs/{run_id}/events"):
            began = time.monotonic()
            process.terminate()
            process.wait(30)
            assert time.monotonic() - began < SOON_SECONDS
    finally:
        process.kill()
        process.wait()


def is_answering(address: str) -> bool:
    try:
        return httpx.get(f"{address}/livez", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
