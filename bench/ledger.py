"""What the ledger carries: settled events per second on SQLite, and whether that depends on its history.

Each event is claimed, settled, and emits the next, as in a worker; every settling is synced before it returns, as with
`synchronous=FULL` (docs/decisions/0003).
Beside it, in the same run, the floor: the same number of processes that commit a bare transaction of two rows.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Claim, Ledger, NewRun

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


def _begin_chain(ledger: Ledger, number: int) -> None:
    run_id, body = new_run_id(), CrawlDirected(url=f"https://example.org/{number}")
    event = Event.of(body, run_id=run_id, corpus="bench")
    ledger.create_run(NewRun(run_id, "crawl", "bench", "0" * 64), [(event, Next(body))])


def _prepare_bare(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE pairs (id INTEGER PRIMARY KEY, text TEXT)")


def _rate(work: Callable[[Path, Barrier, float], int], path: Path) -> float:
    """How often per second `work` got through, in all processes together."""
    barrier = SPAWN.Barrier(PROCESSES)
    with SPAWN.Pool(PROCESSES, _share, (barrier,)) as pool:
        done = pool.starmap(_begin_together, [(work, path, SECONDS)] * PROCESSES, chunksize=1)
    return sum(done) / SECONDS


def _share(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _begin_together(work: Callable[[Path, Barrier, float], int], path: Path, seconds: float) -> int:
    return work(path, _barrier, seconds)


def _carry_events(path: Path, barrier: Barrier, seconds: float) -> int:
    carried = 0
    with Ledger(f"sqlite:///{path}") as ledger:
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
    for measured, value in measure_ledger().items():
        print(f"{measured:<40} {value:12,.2f}")
