"""Latencies of an idle instance: a URL until it is cited, a covered question, a query over HTTP and in process.

    python -m bench.latency

Medians of `ROUNDS` rounds after a warm-up, side by side in one run, with a breakdown per hop.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.demo.library import page_html
from bench.page_site import PageSite
from sluice.contracts.retrieval import Query
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.embed import make_embedder
from sluice.ingest.settings import EmbedSettings
from tests.support.instance import Instance
from tests.support.repository import MODELS

ROUNDS = 24
WARM_UP = 3
CORPUS = "bench"
MODULES = (
    "abc",
    "bisect",
    "calendar",
    "cmd",
    "code",
    "codeop",
    "colorsys",
    "copy",
    "csv",
    "dis",
    "errno",
    "filecmp",
    "fnmatch",
    "fractions",
    "getopt",
    "glob",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "imghdr",
    "keyword",
    "linecache",
    "mimetypes",
    "netrc",
    "numbers",
    "opcode",
    "operator",
)
"""Pages of common sizes, none twice, so that no embedding comes from the cache."""


def measure_latency() -> dict[str, Any]:
    """Every figure, in milliseconds."""
    site = PageSite({module: page_html(module) for module in MODULES})
    settings = {
        "CRAWL__ENABLED": "true",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "100",
        "EGRESS__ALLOW": f'["{site.address}"]',
    }
    try:
        with (
            tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
            Instance(Path(folder), **settings) as instance,
        ):
            cited, hops, tokens = _url_until_cited(instance, site.address)
            covered = _covered_question(instance)
            return {
                "url_until_cited_ms": cited,
                "hops_ms": hops,
                "tokens_per_page": tokens,
                "covered_question_ms": covered,
                **_query_over_http_and_in_process(instance),
            }
    finally:
        site.stop()


def _url_until_cited(instance: Instance, address: str) -> tuple[float, dict[str, float], float]:
    taken: list[float] = []
    tokens: list[int] = []
    hops: dict[str, list[float]] = defaultdict(list)
    for number in range(ROUNDS + WARM_UP):
        module = MODULES[number]
        url = f"http://{address}/{module}.html"
        body = {"plan": "full_loop", "seeds": [url], "limits": {"max_pages": 1}, "filters": {"url_prefix": url}}
        started = time.perf_counter()
        run = instance.ask(f"What does the module {module} offer?", corpus=CORPUS, **body)
        elapsed = (time.perf_counter() - started) * 1e3
        assert [citation["url"] for citation in run["answer"]["citations"]][:1] == [url], run["missing"]
        if number >= WARM_UP:
            taken.append(elapsed)
            tokens.append(run["spend"]["tokens"])
            for kind, milliseconds in _hops(instance.events(run["run_id"])).items():
                hops[kind].append(milliseconds)
    by_hop = {kind: statistics.median(values) for kind, values in hops.items()}
    return statistics.median(taken), by_hop, statistics.median(tokens)


def _hops(events: list[dict[str, Any]]) -> dict[str, float]:
    """From each event's cause to the event itself: queueing, handling and settling together."""
    at = {event["id"]: datetime.fromisoformat(event["occurred_at"]) for event in events}
    return {
        event["kind"]: (at[event["id"]] - at[event["cause_id"]]).total_seconds() * 1e3
        for event in events
        if event["cause_id"] in at
    }


def _covered_question(instance: Instance) -> float:
    return _median_ms(
        lambda number: instance.ask(
            f"Which functions does the module heapq offer? {number}", corpus=CORPUS, plan="retrieve"
        )
    )


def _query_over_http_and_in_process(instance: Instance) -> dict[str, float]:
    embedder = make_embedder(EmbedSettings(), MODELS, instance.data_dir / "embedding-cache.sqlite")
    reader = IndexReader(instance.data_dir / "index", CORPUS, QuerySettings())
    over_http: list[float] = []
    in_process: list[float] = []
    for number in range(ROUNDS * 3 + WARM_UP):
        text = f"merge sorted inputs, question {number}"
        # Both sides embed a text that the cache has not seen: the second one gets a mark of its own.
        started = time.perf_counter()
        response = instance.http.post("/v1/query", json={"query": text, "corpus": CORPUS})
        http_ms = (time.perf_counter() - started) * 1e3
        assert response.status_code == 200
        started = time.perf_counter()
        query = Query(query=f"{text}.", corpus=CORPUS)
        reader.search(query, embedder.embed([query.query]).vectors[0])
        local_ms = (time.perf_counter() - started) * 1e3
        if number >= WARM_UP:
            over_http.append(http_ms)
            in_process.append(local_ms)
    reader.close()
    return {
        "query_over_http_ms": statistics.median(over_http),
        "query_in_process_ms": statistics.median(in_process),
        "query_difference_ms": statistics.median(over_http) - statistics.median(in_process),
    }


def _median_ms(work: Any) -> float:
    taken = []
    for number in range(ROUNDS + WARM_UP):
        started = time.perf_counter()
        work(number)
        if number >= WARM_UP:
            taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


def print_latency(figures: dict[str, Any]) -> None:
    """The figures, a line each."""
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for kind, milliseconds in value.items():
                print(f"    {kind:<20} {milliseconds:8.1f}")
        else:
            print(f"{name:<24} {value:8.1f}")


if __name__ == "__main__":
    print_latency(measure_latency())
