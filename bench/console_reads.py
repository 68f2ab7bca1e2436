"""What the pages that people look at cost: `python -m bench.console_reads [EVENTS [RUNS [LETTERS]]]`.

Fills an SQLite ledger by SQL, then times every read of `tests.support.console_reads`, and each page of the console and
its twins under `/v1` over HTTP, with the statements and the transactions that they read by. Medians of warm reads.
"""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
from sqlalchemy import Engine, event

from sluice.contracts.errors import NotFound
from sluice.contracts.event import DeadLetter, Event, Next
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.broker.embedded import broker_command, prepare_broker
from sluice.workers.settings import Settings
from tests.support.console_reads import READS
from tests.support.served import served

EVENTS, RUNS, LETTERS = 1_000_000, 40_000, 10_000
ROUNDS = 9
OPEN, FAILED = 200, 400
"""Of so many runs one is open, and one failed."""
PAGES = (
    *("/console", "/console/figures", "/console/runs", "/console/runs?tab=open", "/console/runs?tab=failed"),
    *("/console/runs?tab=retrying", "/console/runs?q=lease+number", "/console/runs?owner=key_7", "/console/runs/{run}"),
    *("/console/runs/{run}/events", "/console/dead", "/console/dead?fingerprint=f0000000000000007"),
    *("/console/dead/{letter}", "/console/replays", "/console/crawl", "/console/corpora", "/console/gate"),
    *("/console/quarantine", "/console/actions", "/console/keys", "/console/config", "/console/memory"),
    *("/console/dead?each=1", "/console/dead/replay", "/console/dead/purge", "/console/dead/replay?stage=crawl"),
    *("/console/figures?hours=24", "/console/gate/evaluation", "/console/graph", "/console/crawl/example.org"),
    *("/v1/overview", "/v1/stages", "/v1/runs", "/v1/runs?q=lease+number", "/v1/runs/{run}", "/v1/runs/{run}/trace"),
    *("/v1/dead-letters", "/v1/dead-letters/groups"),
)
_N = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < :most - 1) "
_RUN_ID = "printf('run_%012x%016x', :first + {i} * 2000, {i})"
_OF = "(CASE WHEN i % :open = 0 THEN 'open' WHEN i % :failed = 1 THEN 'failed' ELSE 'finished' END)"
_QUESTION = "'what is the best way to hold lease number ' || i || ' in a queue of ' || (i * 7919 % 9973)"
_FILL = (
    f"{_N} INSERT INTO runs (run_id, kind, corpus, owner, status, query, request_sha256, created_at, finished_at,"
    f" {{ceilings}}, dead_letters, retrying) SELECT {_RUN_ID.format(i='i')}, 'gate', 'corpus' || (i % 5),"
    f" 'key_' || (i % 40), {_OF}, {_QUESTION}, '', :first / 1e3 + i * 2, :first / 1e3 + i * 2 + 1, {{no_ceilings}},"
    " 0, i % :open = 0 AND i % 3 = 0 FROM n",
    "INSERT INTO run_words (rowid, query, run_id)"
    " SELECT (:first + (rowid - :before) * 2000) * 65536, query, run_id FROM runs WHERE rowid >= :before",
    f"{_N} INSERT INTO events (id, run_id, kind, queue, status, due_at, worker, lane, created_at, settled_at, payload,"
    " ready_at, claimed_at, claimed_by, epoch, deliveries) SELECT printf('evt_%028x', i),"
    f" {_RUN_ID.format(i='(i / :each)')}, 'CrawlDirected', 'crawl', CASE WHEN is_open THEN 'ready' ELSE 'settled' END,"
    " CASE WHEN is_open THEN :now END, NULL, 'key:key_7', at, CASE WHEN is_open THEN NULL ELSE at + 1 END,"
    " replace(replace(:payload, :event, printf('evt_%028x', i)), :run, run), at, at + .5, 'crawl.1', 1, 1 FROM"
    f" (SELECT i, {_RUN_ID.format(i='(i / :each)')} AS run, :first / 1e3 + i / :each * 2 + i % :each / 50.0 AS at,"
    " (i / :each) % :open = 0 AND i % 5 = 0 AS is_open FROM n)",
    f"{_N} INSERT INTO attempts (run_id, event_id, epoch, worker, ready_at, claimed_at, ended_at, outcome, why)"
    f" SELECT {_RUN_ID.format(i='(i * 13 / :each)')}, printf('evt_%028x', i * 13), 0, 'crawl.1', 1, 2, 3, 'retried',"
    " 'HTTP 503' FROM n LIMIT :most / 13",
    f"{_N} INSERT INTO operator_actions (at, operator, action, subject, note)"
    " SELECT :first / 1e3 + i, 'key_' || (i % 9), 'replay', 'dead_' || i, 'again' FROM n",
    f"{_N} INSERT INTO stage_minutes (minute, stage, entered, handled, failed, parked, wait_ms, work_ms,"
    " longest_wait_ms) SELECT :now / 60 - i / 8, 'stage' || (i % 8), 9, 9, 1, 0, 900, 4500, 300 FROM n LIMIT 20000",
)


def measure_reads(events: int = EVENTS, runs: int = RUNS, letters: int = LETTERS) -> Iterator[tuple[str, str]]:
    """Yield each read or page with its milliseconds and how many statements and transactions it took."""
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder)) as settings:
        began = time.perf_counter()
        run, letter = fill(settings.ledger_location, events, runs, letters)
        size = Path(settings.ledger_location.removeprefix("sqlite:///")).stat().st_size
        yield f"filled: {events:,} events, {runs:,} runs", f"{time.perf_counter() - began:9.1f} s, {size / 1e6:,.0f} MB"
        heard: list[str] = []
        event.listen(Engine, "connect", lambda one, _: one.set_trace_callback(heard.append))
        with Ledger(settings.ledger_location) as ledger:
            for name, read in READS.items():
                yield name, _timed(lambda read=read: _read(ledger, read), heard)
        with served(settings) as address, httpx.Client(base_url=address, timeout=60) as http:
            for page in PAGES:
                path = page.format(run=run, letter=letter)
                status = http.get(path).status_code
                yield f"{page} ({status})", _timed(lambda path=path: http.get(path), heard)


def fill(url: str, events: int, runs: int, letters: int) -> tuple[str, str]:
    """Fill a new ledger; return the id of a run of the middle, and that of a dead letter."""
    with Ledger(url) as ledger:
        run_id, body = "run_" + "0" * 28, CrawlDirected(url="https://example.org/1")
        first = Event.of(body, run_id=run_id, corpus="corpus1")
        ledger.create_run(NewRun(run_id, "crawl", "corpus1", "0" * 64), [(first, Next(body))])
        claim = ledger.claim_next("crawl", "crawl.1", 60.0)
        assert isinstance(claim, Claim)
        ledger.settle(claim, DeadLetter("policy", NotFound("no such page")))
    file = url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA synchronous=OFF")
        ceilings = [row[1] for row in connection.execute("PRAGMA table_info(runs)") if row[1][:4] in ("run_", "day_")]
        ceilings.remove("run_id")
        now = int(time.time())
        facts = {
            "first": (now - runs * 2) * 1_000,
            "now": now,
            "each": events // runs,
            "open": OPEN,
            "failed": FAILED,
            "payload": _payload(connection),
            "event": first.id,
            "run": run_id,
        }
        facts["before"] = connection.execute("SELECT max(rowid) + 1 FROM runs").fetchone()[0]
        none = ", ".join(["4611686018427387904"] * len(ceilings))
        rows = (runs, runs, events, events, letters, letters * 4)
        for statement, most in zip(_FILL, rows, strict=True):
            text = statement.replace("{ceilings}", ", ".join(ceilings)).replace("{no_ceilings}", none)
            connection.execute(text, {**facts, "most": most})
        _copy_letter(connection, letters, facts)
        found = connection.execute("SELECT run_id FROM runs WHERE rowid = ?", (facts["before"] + runs // 2,)).fetchone()
        letter = connection.execute("SELECT max(id) FROM dead_letters").fetchone()
    return str(found[0]), str(letter[0])


def _payload(connection: sqlite3.Connection) -> str:
    return str(connection.execute("SELECT payload FROM events WHERE kind = 'CrawlDirected'").fetchone()[0])


def _copy_letter(connection: sqlite3.Connection, letters: int, facts: dict[str, object]) -> None:
    """Copy the one dead letter, with an event, a reason, a fingerprint and a moment of its own for each."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(dead_letters)")]
    own = {
        "id": "printf('dead_%028x', i)",
        "event_id": "printf('evt_%028x', i * 100 + 1)",
        "run_id": _RUN_ID.format(i="(i * 100 / :each)"),
        "reason": "CASE i % 4 WHEN 0 THEN 'policy' WHEN 1 THEN 'exhausted' WHEN 2 THEN 'timeout' ELSE 'poison' END",
        "fingerprint": "printf('f%016x', i % 200)",
        "last_seen": ":first / 1e3 + i",
        "stack": "hex(zeroblob(1500))",
    }
    chosen = ", ".join(own.get(name, name) for name in columns)
    copied = (
        f"{_N} INSERT INTO dead_letters ({', '.join(columns)}) SELECT {chosen} FROM n, (SELECT * FROM dead_letters)"
    )
    connection.execute(copied, {**facts, "most": letters})


def _read(ledger: Ledger, read: Callable[[Ledger], object]) -> None:
    with suppress(NotFound):
        read(ledger)


def _timed(read: Callable[[], object], heard: list[str]) -> str:
    read()
    took: list[float] = []
    for _ in range(ROUNDS):
        heard.clear()
        began = time.perf_counter()
        read()
        took.append((time.perf_counter() - began) * 1e3)
    reads, begun = (sum(one.startswith(word) for one in heard) for word in ("SELECT", "BEGIN"))
    return f"{statistics.median(took):9.2f} ms, worst {max(took):8.2f} ms, {reads:3} statements in {begun} transactions"


@contextmanager
def _broker(folder: Path) -> Iterator[Settings]:
    settings = Settings(data_dir=folder)
    prepare_broker(settings)
    process = subprocess.Popen(broker_command(settings), stdout=subprocess.DEVNULL)
    try:
        yield settings
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    for measured, value in measure_reads(*(int(number) for number in sys.argv[1:])):
        print(f"{measured:<55} {value}", flush=True)
