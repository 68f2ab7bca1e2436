"""A direct query over HTTP: while it waits for its reply it holds no thread of the interface."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.testclient import TestClient


def test_a_hundred_callers_that_wait_stop_no_other(serve: Callable[..., TestClient]) -> None:
    """No query worker runs, so all wait for the whole of their time limit."""
    http = serve(query_timeout_seconds=8.0)
    with ThreadPoolExecutor(101) as callers:
        body = {"query": "lease", "minimum_journal_offset": 1}
        waiting = [callers.submit(http.post, "/v1/query", json=body) for _ in range(100)]
        time.sleep(1)
        started = time.monotonic()
        assert http.get("/v1/runs").status_code == 200
        assert time.monotonic() - started < 6
        assert sum(not one.done() for one in waiting) > 40, "as many as the interface has threads"
        assert {one.result().status_code for one in waiting} <= {503, 504}
