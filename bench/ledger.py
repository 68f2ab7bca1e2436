"""What the ledger carries: settled events per second on SQLite, and whether that depends on its history.

`python -m bench.ledger URL EVENTS` fills a new database on PostgreSQL, and measures there how many events are settled
a second, a tick of the reconciler, and the pages that people look at.

Each event is claimed, settled, and emits the next, as in a worker; every settling is synced before it returns, as with
`synchronous=FULL` (docs/decisions/0003).
Beside it, in the same run, the floor: the same number of processes that commit a bare transaction of two rows.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from sluice.contracts.errors import NotFound
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.processes.reconciler import Reconciler
from sluice.workers.settings import DeliverySettings
from tests.support.big_ledger import fill
from tests.support.console_reads import READS

PROCESSES = 8
SECONDS = 5.0
CHAINS = 64
"""Runs in flight: each holds one open event, which emits the next."""
SPAWN = multiprocessing.get_context("spawn")


def measure_ledger(rows: int = 1_000_000, folder: Path | None = None) -> dict[str, float]:
    """Events settled per second with 10,000 rows and with `rows` in the ledger, and bare transactions per second."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        small, large, bare = (Path(scratch) / name for name in ("small.sqlite", "large.sqlite", "bare.sqlite"))
        _fill(small, 10_000)
        _fill(large, rows)
        _prepare_bare(bare)
        rates: dict[str, list[float]] = {"bare": [], "small": [], "large": []}
        for _ in range(3):
            rates["bare"].append(_rate(_commit_bare, bare))
            rates["small"].append(_rate(_carry_events, small))
            rates["large"].append(_rate(_carry_events, large))
        medians = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "events settled/s, 10,000 rows": medians["small"],
        f"events settled/s, {rows:,} rows": medians["large"],
        "bare commits of two rows/s": medians["bare"],
        "cost per event, large : small": medians["small"] / medians["large"],
    }


def settled_per_second(rows: int = 10_000) -> float:
    """Events settled per second, once."""
    with tempfile.TemporaryDirectory() as scratch:
        _fill(path := Path(scratch) / "ledger.sqlite", rows)
        return _rate(_carry_events, path)


def _fill(path: Path, rows: int) -> None:
    with Ledger(f"sqlite:///{path}") as ledger:
        for number in range(CHAINS):
            _begin_chain(ledger, number)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO events (id, run_id, kind, queue, status, created_at, settled_at, payload)"
            " SELECT printf('evt_%024d', i), printf('run_%024d', i / 20), 'CrawlDirected', 'crawl', 'settled', i, i,"
            " (SELECT payload FROM events LIMIT 1) FROM n",
            (rows,),
        )


def measure_postgresql(url: str, events: int) -> Iterator[tuple[str, str]]:
    """Fill the new database at `url`; yield what the ledger does a second there, and how long it takes to look."""
    began = time.perf_counter()
    fill(url, events)
    yield f"filled with {events:,} events", f"{time.perf_counter() - began:8.1f} s"
    with Ledger(url) as ledger:
        for number in range(CHAINS):
            _begin_chain(ledger, number)
        rates = [_rate(_carry_events_at, url) for _ in range(3)]
        yield (
            "events settled/s, median of three",
            f"{statistics.median(rates):8.1f}  ({', '.join(f'{r:.0f}' for r in rates)})",
        )
        reconciler = Reconciler(ledger, lambda _: None, lambda _: 10**6, DeliverySettings())
        reconciler.tick()
        yield "a tick", _milliseconds(reconciler.tick)
        yield "its figures", _milliseconds(ledger.queue_stats)
        yield "a beat", _milliseconds(lambda: ledger.beat("bench", 15.0))
        for name, read in READS.items():
            yield name, _milliseconds(lambda read=read: read(ledger))  # type: ignore[misc]


def _milliseconds(work: Callable[[], object]) -> str:
    taken = []
    for _ in range(15):
        began = time.perf_counter()
        with suppress(NotFound):
            work()
        taken.append(1_000 * (time.perf_counter() - began))
    return f"{statistics.median(taken):8.2f} ms"


def _begin_chain(ledger: Ledger, number: int) -> None:
    run_id, body = new_run_id(), CrawlDirected(url=f"https://example.org/{number}")
    event = Event.of(body, run_id=run_id, corpus="bench")
    ledger.create_run(NewRun(run_id, "crawl", "bench", "0" * 64), [(event, Next(body))])


def _prepare_bare(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE pairs (id INTEGER PRIMARY KEY, text TEXT)")


def _rate(work: Callable[[Any, Barrier, float], int], path: Path | str) -> float:
    """How often per second `work` got through, in all processes together."""
    barrier = SPAWN.Barrier(PROCESSES)
    with SPAWN.Pool(PROCESSES, _share, (barrier,)) as pool:
        done = pool.starmap(_begin_together, [(work, path, SECONDS)] * PROCESSES, chunksize=1)
    return sum(done) / SECONDS


def _share(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _begin_together(work: Callable[[Any, Barrier, float], int], path: Path | str, seconds: float) -> int:
    return work(path, _barrier, seconds)


def _carry_events(path: Path, barrier: Barrier, seconds: float) -> int:
    return _carry_events_at(f"sqlite:///{path}", barrier, seconds)


def _carry_events_at(url: str, barrier: Barrier, seconds: float) -> int:
    carried = 0
    with Ledger(url) as ledger:
        barrier.wait()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            claim = ledger.claim_next("crawl", "bench", 60.0)
            if isinstance(claim, Claim):
                ledger.settle(claim, Done((Next(CrawlDirected(url="https://example.org/next")),)))
                carried += 1
    return carried


def _commit_bare(path: Path, barrier: Barrier, seconds: float) -> int:
    committed = 0
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("PRAGMA synchronous=FULL")
    barrier.wait()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO pairs (text) VALUES (?)", [("a" * 200,), ("b" * 200,)])
        connection.execute("COMMIT")
        committed += 1
    return committed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for name, told in measure_postgresql(sys.argv[1], int(sys.argv[2])):
            print(f"{name:<50} {told}", flush=True)
        sys.exit()
    for measured, value in measure_ledger().items():
        print(f"{measured:<40} {value:12,.2f}")
