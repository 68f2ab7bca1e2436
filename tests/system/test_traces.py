"""A run followed in a real instance: planted causes are named by `sluice trace`, and its spans reach a real collector."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from sluice.otel.metrics.registry import RUN_ID, TRACE_ID
from tests.support.collector import Collected, attributes, collecting
from tests.support.instance import Instance
from tests.support.site import Site
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)

FIGURE = re.compile(r"(?<![\w.])([\d,]*\.?\d+) (?:waiting|working|backing off|failing|lost)")
TEXT = "<main><h1>Locks {0}</h1><p>Canal lock number {0} raises boats between two stretches of water.</p></main>"
MANY = 24


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    served = Site()
    served.html("/robots.txt", "")
    links = "".join(f"<a href='/many/{number}'>{number}</a> " for number in range(MANY))
    served.html("/many", f"<main><h1>Locks</h1><p>All of them: {links}</p></main>")
    for number in range(MANY):
        served.html(f"/many/{number}", TEXT.format(number))
    yield served
    served.close()


@pytest.fixture(scope="module")
def other() -> Iterator[Site]:
    """A second site, whose turns the first one's crawl does not take."""
    served = Site()
    yield served
    served.close()


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    with collecting(tmp_path_factory.mktemp("collector")) as running:
        yield running


@pytest.fixture(scope="module")
def instance(
    tmp_path_factory: pytest.TempPathFactory, site: Site, other: Site, collected: Collected
) -> Iterator[Instance]:
    settings = {
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "4",
        "CRAWL__MAX_PAGES": "40",
        "POOLS__CRAWL": "2",
        "EGRESS__ALLOW": json.dumps([f"crawl={site.address}", f"crawl={other.address}"]),
        "TELEMETRY__OTLP_ENDPOINT": collected.url,
    }
    with Instance(tmp_path_factory.mktemp("traced"), **settings) as running:
        yield running


def crawl(instance: Instance, url: str, **fields: Any) -> str:
    body = {"url": url, "corpus": "docs", "create_corpus": True, "limit": 1, **fields}
    answered = instance.http.post("/v1/crawl", json=body)
    assert answered.status_code == 202, answered.text
    return str(answered.json()["run_id"])


def traced(instance: Instance, run_id: str) -> dict[str, Any]:
    """The run's timeline, the same by the command and over HTTP, with a sum that adds up."""
    timeline: dict[str, Any] = instance.http.get(f"/v1/runs/{run_id}/trace").json()
    line = timeline["sum_line"]
    total = float(line.split(" s ", 1)[0].replace(",", ""))
    figures = [float(one.replace(",", "")) for one in FIGURE.findall(line)]
    assert round(1_000 * sum(figures)) == round(1_000 * total), line
    if timeline["is_over"]:
        drawn = instance.sluice("trace", run_id)
        assert drawn.returncode == 0, drawn.stderr
        assert drawn.stdout.splitlines()[0] == line
        written = json.loads(instance.sluice("trace", run_id, "--json").stdout)
        assert written["sum_line"] == line
    print(f"{run_id}: {line}")
    return timeline


def rows(timeline: dict[str, Any], doing: str, stage: str = "crawl") -> list[dict[str, Any]]:
    return [row for row in timeline["rows"] if row["doing"] == doing and row["stage"] == stage]


def test_a_paused_stage(instance: Instance, site: Site) -> None:
    instance.http.post("/v1/stages/crawl/pause", params={"why": "upgrade"})
    run_id = crawl(instance, site.url("/many/0"))
    time.sleep(2)
    under_way = traced(instance, run_id)
    assert "so far = " in under_way["sum_line"]
    assert [row["is_under_way"] for row in rows(under_way, "waits")] == [True]
    instance.http.post("/v1/stages/crawl/resume")
    instance.wait(run_id)
    line = traced(instance, run_id)["sum_line"]
    [seconds] = re.findall(r"waiting \(crawl \(stage paused by \w+: upgrade\) ([\d.]+)", line)
    assert 1.9 < float(seconds) < 6


def test_the_back_off_after_a_failure_and_the_parts_of_the_work(instance: Instance, other: Site) -> None:
    tries: list[float] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        tries.append(time.monotonic())
        body = TEXT.format(99).encode()
        request.send_response(503 if len(tries) == 1 else 200)
        request.send_header("Retry-After", "2")
        request.send_header("Content-Type", "text/html")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    other.call("/busy", answer)
    run_id = crawl(instance, other.url("/busy"))
    instance.wait(run_id)
    timeline = traced(instance, run_id)
    assert re.search(r"backing off \(crawl \(http://127\.0\.0\.1:\d+/busy answers 503\) [\d.]+\)", timeline["sum_line"])
    assert [row["attempt"] for row in rows(timeline, "failed") + rows(timeline, "works")] == [1, 2]
    until(lambda: {"embed", "append to the journal", "commit the generation"} <= details(instance, run_id))
    assert "fetch 127.0.0.1" in details(instance, run_id)


def details(instance: Instance, run_id: str) -> set[str]:
    timeline = instance.http.get(f"/v1/runs/{run_id}/trace").json()
    return {row["label"] for row in timeline["rows"] if row["doing"] == "detail"}


def test_a_killed_worker(instance: Instance, other: Site) -> None:
    is_asked, tries = threading.Event(), []

    def hang(request: BaseHTTPRequestHandler) -> None:
        tries.append(1)
        is_asked.set()
        if len(tries) == 1:
            time.sleep(30)
        body = TEXT.format(98).encode()
        request.send_response(200)
        request.send_header("Content-Type", "text/html")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    other.call("/hang", hang)
    run_id = crawl(instance, other.url("/hang"))
    assert is_asked.wait(60)
    working = rows(traced(instance, run_id), "works")
    assert [row["is_under_way"] for row in working] == [True]
    [worker] = [pid for name, pid in instance.processes.items() if "crawl" in name]
    os.kill(worker, signal.SIGKILL)
    instance.wait(run_id)
    timeline = traced(instance, run_id)
    assert re.search(r"[\d.]+ lost to dead workers \(crawl \(its \w+ (died|ran out)\) [\d.]+\)", timeline["sum_line"])
    assert [row["attempt"] for row in rows(timeline, "died") + rows(timeline, "works")] == [1, 2]


def test_a_slow_host_many_pages_and_who_stands_before_them(instance: Instance, site: Site) -> None:
    run_id = crawl(instance, site.url("/many"), limit=MANY + 1, max_depth=1)
    instance.wait(run_id)
    timeline = traced(instance, run_id)
    line = timeline["sum_line"]
    assert re.search(r"crawl \(behind \d+ of this tenant\) [\d.]+", line)
    assert "(turn of 127.0.0.1)" in line
    folded = [row for row in timeline["rows"] if row["folded"] > 1 and row["kind"] == "CrawlDirected"]
    assert {row["doing"] for row in folded} == {"waits", "works"}
    assert (
        folded[0]["folded"] + len({row["event_id"] for row in timeline["rows"] if row["kind"] == "CrawlDirected"})
        > MANY
    )
    assert len(timeline["rows"]) < timeline["rows_in_all"]


def test_no_worker(instance: Instance, other: Site) -> None:
    other.html("/lonely", TEXT.format(97))
    instance.http.post("/v1/stages/crawl/scale", json={"workers": 0})
    until(lambda: not any("crawl" in name for name in instance.processes))
    run_id = crawl(instance, other.url("/lonely"))
    until(lambda: "no worker" in traced(instance, run_id)["sum_line"])
    instance.http.post("/v1/stages/crawl/scale", json={"workers": 2})
    instance.wait(run_id)
    line = traced(instance, run_id)["sum_line"]
    assert re.search(r"waiting \(crawl \(no worker: \w+ wants none\) [\d.]+", line), line


def test_spans_reach_a_collector_as_the_conventions_name_them(
    instance: Instance, collected: Collected, other: Site
) -> None:
    other.html("/told", TEXT.format(96))
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    body = {"url": other.url("/told"), "corpus": "docs", "limit": 1}
    headers = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    run_id = instance.http.post("/v1/crawl", json=body, headers=headers).json()["run_id"]
    instance.wait(run_id)
    wanted = {"process crawl", "process chunk", "process embed", "process index", "send crawl", "POST /v1/crawl"}
    wanted |= {"fetch 127.0.0.1", "embed", "append to the journal", "commit the generation"}
    until(lambda: wanted <= {span.name for span in collected.of_trace(trace_id)})
    spans = collected.of_trace(trace_id)
    by_id = {span.span_id: span for span in spans}
    root = spans[0]
    told = attributes(root)
    assert (root.name, root.kind, root.parent_span_id.hex()) == (
        "POST /v1/crawl",
        root.SPAN_KIND_SERVER,
        "00f067aa0ba902b7",
    )
    assert {name: told[name] for name in told if name.startswith(("http.", "url.", "server.", "sluice."))} == {
        "http.request.method": "POST",
        "http.route": "/v1/crawl",
        "http.response.status_code": 202,
        "url.scheme": "http",
        "url.path": "/v1/crawl",
        "server.address": "127.0.0.1",
        "server.port": instance.port,
        "sluice.run_id": run_id,
    }
    sent = next(span for span in spans if span.kind == span.SPAN_KIND_PRODUCER)
    assert (sent.name, sent.parent_span_id) == ("send crawl", root.span_id)
    hops = [span for span in spans if span.kind == span.SPAN_KIND_CONSUMER]
    assert {span.name for span in hops} >= {name for name in wanted if name.startswith("process ")}
    for hop in hops:
        told = attributes(hop)
        assert hop.name == f"process {told['messaging.destination.name']}"
        assert (told["messaging.system"], told["messaging.operation.type"]) == ("sluice", "process")
        assert told["messaging.message.id"] == told["sluice.event_id"]
        assert told["messaging.message.conversation_id"] == told["sluice.run_id"] == run_id
    for name, parent in (
        ("fetch 127.0.0.1", "process crawl"),
        ("embed", "process embed"),
        ("append to the journal", "process index"),
        ("commit the generation", "process index"),
    ):
        assert parent in {by_id[span.parent_span_id].name for span in spans if span.name == name}, name
    assert not [link for span in spans for link in span.links], "all of them are of one trace"
    assert instance.http.get(f"/v1/runs/{trace_id}/trace").json()["run_id"] == run_id


def test_a_bucket_of_a_histogram_leads_to_the_run(instance: Instance) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    shown = instance.http.get("/metrics", headers=accept).text
    found = re.findall(
        rf'^sluice_event_seconds_bucket{{.*}} \S+ # {{{RUN_ID}="(\w+)",{TRACE_ID}="(\w+)"}}', shown, re.M
    )
    assert found
    for run_id, trace_id in found:
        assert instance.http.get(f"/v1/runs/{run_id}").json()["traceparent"].split("-")[1] == trace_id
