"""Measures an instance on this machine: pages from a local site until they are searchable and cited.

    python -m bench.simulate.measure [--rounds 3] [--only embed|crawl] [--to FILE]

Two cases, each with 1, 2 and 4 workers of the pool that bounds it: `embed` (pages of some ten passages; the processors
bound it) and `crawl` (short pages of a slow site; waiting bounds it). Each run of one worker begins with pages one by
one, from which the simulation takes its service times; then all its pages come at once. Others' use of the processors
is measured beside ours, as the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

from bench.ledger import settled_per_second
from bench.page_site import PageSite
from bench.simulate.pages import make_pages
from sluice.contracts.api import ENDED
from tests.support.instance import Instance
from tests.support.repository import IMPORT_PATH, MODELS, REPOSITORY

MEASURED = Path(__file__).with_name("measured.json")
WORKERS = (1, 2, 4)
IDLE_SECONDS = 3.0
QUERIES = 60
LOOK_SECONDS = 1.5
"""Between two looks at what others use of the processors."""
CORPUS = "bench"
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Case:
    """What is measured: the pool that bounds it, its pages, and how many come one by one and at once."""

    pool: str
    characters: int
    delay_seconds: float
    alone: int
    burst: int


CASES = (Case("embed", 8_000, 0.0, 14, 32), Case("crawl", 900, 1.2, 14, 32))


def measure_case(case: Case, workers: int, seed: int) -> dict[str, Any]:
    """Run one instance; return its documents, the processor seconds of each process, and what others used."""
    pages = [
        page
        for at, count in enumerate((1, case.alone, case.burst))
        for page in make_pages(count, case.characters, seed + 100 * at)
    ]
    site, queries = PageSite({str(at): page for at, page in enumerate(pages)}, case.delay_seconds), list[float]()
    settings = {
        "CRAWL__ENABLED": "true",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "1000",
        "EGRESS__ALLOW": json.dumps([site.address]),
        "EMBED__THREADS": "1",
        f"POOLS__{case.pool.upper()}": str(workers),
    }
    try:
        with (
            tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
            Instance(Path(folder), **settings) as instance,
        ):
            _ask(instance, site, 0, wait=True)
            time.sleep(IDLE_SECONDS)
            idle = _watched(instance, lambda: time.sleep(IDLE_SECONDS))
            phases = {"idle": idle}
            alone, burst = range(1, 1 + case.alone), range(1 + case.alone, len(pages))
            if workers == 1:
                phases["alone"] = _watched(instance, lambda: [_one(instance, site, number) for number in alone])
            phases["burst"] = _watched(instance, lambda: _all(instance, site, burst))
            if workers == 1:
                phases["queries"] = _watched(instance, lambda: queries.extend(_queries(instance)))
            documents = _documents(instance.data_dir / "ledger.sqlite")
            return {
                "case": asdict(case),
                "workers": workers,
                "seed": seed,
                "load": os.getloadavg()[0],
                "phases": phases,
                "memory_mb": _memory(instance),
                "queries": queries,
                "documents": documents[1:],
            }
    finally:
        site.stop()


def _one(instance: Instance, site: PageSite, number: int) -> None:
    _ask(instance, site, number, wait=True)
    time.sleep(0.15)  # the graph is read after the answer


def _all(instance: Instance, site: PageSite, numbers: range) -> None:
    for run_id in [_ask(instance, site, number, wait=False) for number in numbers]:
        while instance.http.get(f"/v1/runs/{run_id}").json()["status"] not in ENDED:
            time.sleep(0.25)


def _ask(instance: Instance, site: PageSite, number: int, *, wait: bool) -> str:
    url = site.url(str(number))
    body = {"plan": "full_loop", "seeds": [url], "limits": {"max_pages": 1}, "filters": {"url_prefix": url}}
    body |= {"query": f"What does page {number} say?", "corpus": CORPUS, "create_corpus": True}
    response = instance.http.post("/v1/gate", json={**body, "wait": wait, "deadline_seconds": 600})
    run = cast("dict[str, Any]", response.json())
    if response.status_code >= 400:
        raise RuntimeError(response.text)
    return str(run["run_id"])


def await_calm(most_cores: float, patience_seconds: float) -> None:
    """Return once others have used less than `most_cores` processors for some seconds, or patience is at its end."""
    until = time.monotonic() + patience_seconds
    while time.monotonic() < until:
        before = _machine_cpu()
        time.sleep(IDLE_SECONDS)
        if _machine_cpu() - before < most_cores * IDLE_SECONDS:
            return
        time.sleep(IDLE_SECONDS)


def _queries(instance: Instance) -> list[float]:
    """Seconds of each of `QUERIES` direct queries, one after the other."""
    taken = []
    for number in range(QUERIES):
        started = time.perf_counter()
        response = instance.http.post("/v1/query", json={"query": f"read {number} bytes of a file", "corpus": CORPUS})
        response.raise_for_status()
        taken.append(round(time.perf_counter() - started, 5))
    return taken


def _watched(instance: Instance, work: Any) -> dict[str, Any]:
    """Do the work; return its seconds, processor seconds of each process, and of all others on this machine."""
    own, started, seen = time.process_time(), time.time(), [_used(instance)]
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            seen.append(_used(instance))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        work()
    finally:
        over.set()
        looking.join()
    seen.append(_used(instance))
    first, last = seen[0], seen[-1]
    used = {name: now - first.cpu.get(name, 0.0) for name, now in last.cpu.items()}
    used["site and client"] = time.process_time() - own
    return {
        "begun": started,
        "seconds": last.at - first.at,
        "cpu": used,
        "others_cores": first.others_until(last),
        "others": [(round(one.at - first.at, 2), round(one.others_until(two), 3)) for one, two in pairwise(seen)],
    }


class _Used(NamedTuple):
    """Processor seconds until a moment: of each process, of this one, and of the whole machine."""

    at: float
    cpu: dict[str, float]
    own: float
    machine: float

    def others_until(self, later: _Used) -> float:
        """Cores that others used from here until then."""
        ours = sum(later.cpu.values()) - sum(self.cpu.values()) + later.own - self.own
        return max(0.0, later.machine - self.machine - ours) / max(1e-3, later.at - self.at)


def _used(instance: Instance) -> _Used:
    return _Used(time.time(), _cpu(instance), time.process_time(), _machine_cpu())


def _cpu(instance: Instance) -> dict[str, float]:
    """Processor seconds of each named process with its children, and of `sluice up` itself."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            parents[int(path.name)], spent[int(path.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICK
    names = {process: name.rstrip("0123456789").rstrip("-") for name, process in instance.processes.items()}
    names[instance.process_id] = "up"
    found: dict[str, float] = defaultdict(float)
    for process in parents:
        at = process
        while at > 1 and at not in names:
            at = parents.get(at, 0)
        if at in names:
            found[names[at]] += spent[process]
    return dict(found)


def _machine_cpu() -> float:
    """Processor seconds that this machine has spent on anything, guests' stolen time included."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / _TICK


def _memory(instance: Instance) -> dict[str, float]:
    """Megabytes of each named process: its own, and its share of what it shares."""
    found: dict[str, float] = {}
    for name, process in instance.processes.items():
        with suppress(OSError):
            lines = (Path("/proc") / str(process) / "smaps_rollup").read_text().splitlines()
            found[name] = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return found


def _documents(ledger: Path) -> list[dict[str, Any]]:
    """Each run with its events in order: kind, stage, seconds from its beginning when ready, claimed and settled."""
    with sqlite3.connect(ledger) as connection:
        rows = connection.execute(
            "SELECT run_id, kind, queue, created_at, ready_at, claimed_at, settled_at, payload FROM events ORDER BY seq"
        ).fetchall()
    runs: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        runs[row[0]].append(row[1:])
    whole = {run: events for run, events in runs.items() if any(kind == "SnapshotPublished" for kind, *_ in events)}
    for run in runs.keys() - whole.keys():
        print(f"left out, as its page was not indexed: {run}: {[event[0] for event in runs[run]]}", runs[run][-2][-1])
    return [_document(events) for events in whole.values()]


def _document(events: list[Any]) -> dict[str, Any]:
    begun = events[0][2]
    ends = {kind: round(created - begun, 4) for kind, _, created, *_ in events}
    bodies = {kind: json.loads(payload) for kind, *_, payload in events}
    snapshot, indexed = (bodies[kind].get("body", bodies[kind]) for kind in ("SnapshotPublished", "DocumentIndexed"))
    return {
        "begun": begun,
        "searchable": ends["SnapshotPublished"],
        "cited": ends["AnswerReady"],
        "generation": snapshot["generation"],
        "chunks": indexed["chunk_count"],
        "events": [
            [kind, queue, *(round(at - begun, 4) for at in moments)]
            for kind, queue, _, *moments, _ in events
            if queue is not None and None not in moments  # the last page's graph may still be under way
        ],
    }


def parallel_gain(seconds: float = 5.0) -> float:
    """Texts embedded per second by one process for each processor at once, over those of one process alone."""
    alone = _embedding_rate(1, seconds)
    return _embedding_rate(os.cpu_count() or 1, seconds) / alone


_EMBEDDING = """
import sys, time
from pathlib import Path
from sluice.ingest.embed.minilm import MiniLM
model = MiniLM(Path(sys.argv[1]), threads=1)
text = "the quick brown fox jumps over the lazy dog " * 20
model.embed([text])
print("ready", flush=True)
sys.stdin.readline()
ended, count = time.perf_counter() + float(sys.argv[2]), 0
while time.perf_counter() < ended:
    model.embed([text + str(count)] * 8)
    count += 8
print(count / float(sys.argv[2]))
"""


def _embedding_rate(processes: int, seconds: float) -> float:
    command = [sys.executable, "-c", _EMBEDDING, str(MODELS), str(seconds)]
    children = [
        subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": IMPORT_PATH},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return sum(float(child.communicate()[0].split()[-1]) for child in children)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[case.pool for case in CASES])
    parser.add_argument("--calm", type=float, default=0.3, help="processors that others may use when a run begins")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for that, before each run")
    parser.add_argument("--to", type=Path, default=MEASURED)
    chosen = parser.parse_args()
    found: dict[str, Any] = {"processors": os.cpu_count(), "parallel_gain": [], "settled_per_second": [], "runs": []}
    for seed in range(1, 1 + chosen.rounds):
        await_calm(chosen.calm, chosen.patience)
        found["parallel_gain"].append(parallel_gain())
        found["settled_per_second"].append(settled_per_second())
        for case in CASES:
            if chosen.only in (None, case.pool):
                for workers in WORKERS:
                    await_calm(chosen.calm, chosen.patience)
                    run = measure_case(case, workers, seed)
                    found["runs"].append(run)
                    _print(run)
                    chosen.to.write_text(json.dumps(found, separators=(",", ":")) + "\n")


def _print(run: dict[str, Any]) -> None:
    burst = run["phases"]["burst"]
    begun = [one for one in run["documents"] if one["begun"] >= burst["begun"]]
    whole = max(one["begun"] + one["searchable"] for one in begun) - begun[0]["begun"]
    took = sorted(one["searchable"] for one in begun)
    print(
        f"{run['case']['pool']} {run['workers']}: {len(begun) / whole:.3f} pages/s,"
        f" p50 {statistics.median(took):.2f} s, p95 {took[round(0.95 * (len(took) - 1))]:.2f} s,"
        f" others {burst['others_cores']:.2f} cores,"
        f" CPU a page {sum(burst['cpu'].values()) / len(begun):.3f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
