"""Metrics, of one process and added up over several."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path
from socket import socket

import httpx

from bench.demo.metric_names import metric_names
from sluice.otel import metrics
from sluice.otel.metrics.registry import LABELS
from sluice.otel.settings import fresh_metrics_dir
from tests.support.instance import free_port
from tests.support.repository import IMPORT_PATH, REPOSITORY

_PROCESS = """
import os, sys
from sluice.otel import metrics
metrics.GATE_DECISIONS.labels(plan_type="search", profile="default", scored_plan="full_loop", gate_model_version="heuristic").inc()
metrics.SPAN_STORE_FAILURES.inc(2)
metrics.STAGE_READY.labels(stage="crawl").set(float(sys.argv[1]))
metrics.QUERY_SECONDS.labels(strategy="hybrid").observe(0.002)
pid = os.fork() if sys.argv[2:] == ["fork"] else None
if pid == 0:
    metrics.SPAN_STORE_FAILURES.inc(5)
    os._exit(0)
if pid:
    os.waitpid(pid, 0)
print(os.getpid())
"""

_FORGET = """
import sys
from sluice.otel import metrics
metrics.forget_process(int(sys.argv[1]))
print(metrics.negotiate_metrics()[0].decode())
"""


def _run(code: str, variables: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=REPOSITORY,
        env={"PYTHONPATH": IMPORT_PATH, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_figures_of_two_processes_and_a_fork_add_up_and_a_gauge_dies_with_its_process(tmp_path: Path) -> None:
    variables = fresh_metrics_dir(tmp_path / "metrics")
    _run(_PROCESS, variables, "3")
    last = _run(_PROCESS, variables, "4", "fork").strip()
    shown = _run("from sluice.otel import metrics; print(metrics.negotiate_metrics()[0].decode())", variables)
    labels = 'gate_model_version="heuristic",plan_type="search",profile="default",scored_plan="full_loop"'
    assert f"sluice_gate_decision_total{{{labels}}} 2.0" in shown
    assert "sluice_span_store_failures_total 9.0" in shown
    assert 'sluice_query_seconds_count{strategy="hybrid"} 2.0' in shown
    assert 'sluice_stage_ready{stage="crawl"} 4.0' in shown
    shown = _run(_FORGET, variables, last)
    assert 'sluice_stage_ready{stage="crawl"} 3.0' in shown
    assert "sluice_span_store_failures_total 9.0" in shown


def test_a_fresh_directory_forgets_an_earlier_life(tmp_path: Path) -> None:
    variables = fresh_metrics_dir(tmp_path)
    _run(_PROCESS, variables, "3")
    assert fresh_metrics_dir(tmp_path) == variables
    assert list(tmp_path.iterdir()) == []


def test_a_worker_serves_its_own_metrics_and_stops_when_told() -> None:
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stop = metrics.serve_metrics(f"127.0.0.1:{port}")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        assert b"sluice_gate_decision_total" in response.read()
    stop()


def test_every_metric_is_explained_and_every_name_ends_as_its_kind_demands() -> None:
    names = metric_names()
    assert {"sluice_gate_decision_total", "sluice_query_seconds_bucket", "sluice_stage_ready"} <= names
    assert all(name.startswith("sluice_") for name in names)
    said = metrics.sentences()
    assert said.keys() == LABELS.keys()
    assert all(sentence.endswith(".") for sentence in said.values())
    assert f"# HELP sluice_stage_ready {said['sluice_stage_ready']}".encode() in metrics.negotiate_metrics()[0]


def test_one_process_alone_renders_its_figures() -> None:
    metrics.FEEDBACK.labels(outcome="success").inc()
    assert b'sluice_feedback_total{outcome="success"}' in metrics.negotiate_metrics()[0]


_TRACED = """
import os, sys
from sluice.otel import metrics
from sluice.otel.context import span
with span("process gate", traceparent=f"00-{sys.argv[1]}-{'1' * 16}-01", run_id="run_1"):
    metrics.RUN_SECONDS.labels("finished").observe(0.2)
    metrics.QUERY_SECONDS.labels("hybrid").observe(0.002)
metrics.FUSION_SECONDS.observe(0.001)
print(os.getpid(), flush=True)
"""


def test_a_bucket_names_the_trace_and_the_run_of_its_latest_observation_whichever_process_made_it(
    tmp_path: Path,
) -> None:
    variables = fresh_metrics_dir(tmp_path)
    process = ""
    for trace in ("a" * 32, "b" * 32):
        process = _run(_TRACED.replace("sys.argv[1]", f"'{trace}'"), variables).strip()
    show = "from sluice.otel import metrics; print(metrics.negotiate_metrics('application/openmetrics-text; version=1.0.0')[0].decode())"
    shown = _run(show, variables)
    assert (
        f'sluice_run_seconds_bucket{{le="0.25",status="finished"}} 2.0 # {{run_id="run_1",trace_id="{"b" * 32}"}} 0.2'
        in shown
    )
    assert "a" * 32 not in shown
    assert f'strategy="hybrid"}} 2.0 # {{run_id="run_1",trace_id="{"b" * 32}"}}' in shown
    [fusion] = [
        line for line in shown.splitlines() if line.startswith("sluice_retrieval_fusion") and 'le="0.001"' in line
    ]
    assert "trace_id" not in fusion  # outside any span
    assert "trace_id" not in _run(
        "from sluice.otel import metrics; print(metrics.negotiate_metrics()[0].decode())", variables
    )
    _run(f"from sluice.otel import metrics; metrics.forget_process({process})", variables)
    assert "a" * 32 in _run(show, variables)
    assert fresh_metrics_dir(tmp_path) == variables
    assert list(tmp_path.iterdir()) == []


def test_the_port_of_the_metrics_answers_probes() -> None:
    port = free_port()
    state = {"lives": True, "is_ready": False}
    stop = metrics.serve_metrics(f"127.0.0.1:{port}", lambda: state["lives"], lambda: state["is_ready"])

    def status(path: str) -> int:
        return httpx.get(f"http://127.0.0.1:{port}{path}").status_code

    try:
        assert [status(path) for path in ("/livez", "/readyz", "/metrics")] == [200, 503, 200]
        state.update(lives=False, is_ready=True)
        assert [status(path) for path in ("/livez", "/readyz", "/metrics")] == [503, 200, 200]
    finally:
        stop()
    metrics.serve_metrics(None)()
