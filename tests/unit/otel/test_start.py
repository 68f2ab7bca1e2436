"""A process's telemetry: one store for parent and child, nothing opened by importing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from prometheus_client import REGISTRY as DEFAULT_REGISTRY

from sluice.otel import metrics
from sluice.otel.context import current_traceparent, span
from sluice.otel.settings import TelemetrySettings
from sluice.otel.spans import SpanStore
from sluice.otel.start import flush, shutdown, start
from tests.support.repository import REPOSITORY


def test_spans_of_a_forked_child_and_its_parent_share_a_store_and_a_trace(store: SpanStore, tmp_path: Path) -> None:
    with span("parent", run_id="run_1"):
        traceparent = current_traceparent()
        child = os.fork()
        if child == 0:
            _child_of(traceparent, tmp_path)
        assert os.waitpid(child, 0)[1] == 0
    flush()
    spans = store.of_run("run_1")
    assert [(found.name, found.service) for found in spans] == [("parent", "test"), ("child", "forked")]
    assert spans[0].process_id == os.getpid() != spans[1].process_id
    assert spans[1].parent_id == spans[0].span_id


def _child_of(traceparent: str | None, data_dir: Path) -> None:
    code = 1
    try:
        start("forked", TelemetrySettings(), data_dir=data_dir, instance="tests")
        with span("child", traceparent=traceparent, run_id="run_1"):
            pass
        shutdown()
        code = 0
    finally:
        os._exit(code)


def test_starting_twice_changes_nothing_and_starting_again_after_shutdown_works(
    store: SpanStore, tmp_path: Path
) -> None:
    start("another", TelemetrySettings(), data_dir=tmp_path, instance="tests")
    with span("first", run_id="run_1"):
        pass
    shutdown()
    shutdown()
    start("again", TelemetrySettings(), data_dir=tmp_path, instance="tests")
    with span("second", run_id="run_1"):
        pass
    flush()
    assert [(found.name, found.service) for found in store.of_run("run_1")] == [("first", "test"), ("second", "again")]


def test_a_store_that_cannot_be_written_is_counted_and_fails_no_work(tmp_path: Path, own_logging: None) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    before = _failures()
    start("test", TelemetrySettings(), data_dir=blocked, instance="tests")
    with span("work"):
        pass
    shutdown()
    assert _failures() == before + 1


def _failures() -> float:
    return metrics.REGISTRY.get_sample_value("sluice_span_store_failures_total") or 0.0


class _Collector(BaseHTTPRequestHandler):
    paths: list[str]

    def do_POST(self) -> None:
        self.server.paths.append((self.path, len(self.rfile.read(int(self.headers["Content-Length"])))))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: the test reads `paths`."""


def test_spans_also_go_to_an_otlp_endpoint(tmp_path: Path, own_logging: None) -> None:
    server = HTTPServer(("127.0.0.1", 0), _Collector)
    server.paths = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    settings = TelemetrySettings(otlp_endpoint=f"http://127.0.0.1:{server.server_port}/")
    start("test", settings, data_dir=tmp_path, instance="tests")
    with span("exported", run_id="run_1"):
        pass
    shutdown()
    server.shutdown()
    thread.join()
    server.server_close()
    [(path, body_bytes)] = server.paths  # type: ignore[attr-defined]
    assert path == "/v1/traces"
    assert body_bytes > 50


def test_a_collector_that_is_down_holds_up_neither_work_nor_the_local_store(tmp_path: Path, own_logging: None) -> None:
    settings = TelemetrySettings(otlp_endpoint="http://127.0.0.1:9")
    start("test", settings, data_dir=tmp_path, instance="tests")
    with span("kept", run_id="run_1"):
        pass
    shutdown()
    assert [found.name for found in SpanStore.in_dir(tmp_path).of_run("run_1")] == ["kept"]


_IMPORT = """
import os, sys, threading
import opentelemetry.sdk.trace
import prometheus_client, rich.table, structlog
events = []
sys.addaudithook(lambda name, args: events.append((name, args)))
import sluice.otel.context, sluice.otel.exporter, sluice.otel.logs, sluice.otel.metrics, sluice.otel.settings, sluice.otel.start
bad = [event for event in events if event[0].startswith(("socket.", "sqlite3.", "subprocess.", "os.mkdir"))]
bad += [args for name, args in events if name == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)]
assert not bad, bad
assert threading.active_count() == 1, threading.enumerate()
"""


def test_importing_opens_nothing_and_starts_no_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", _IMPORT], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_our_metrics_stay_out_of_the_default_registry() -> None:
    assert not [metric for metric in DEFAULT_REGISTRY.collect() if metric.name.startswith("sluice_")]


@pytest.fixture(autouse=True)
def _stopped() -> None:
    shutdown()
