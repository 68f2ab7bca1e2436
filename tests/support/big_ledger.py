"""A PostgreSQL ledger that has done much: runs that ended, their events, and a little work in hand."""

from __future__ import annotations

import time

import psycopg

from sluice.contracts.event import Event, Next
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Ledger, NewRun

EACH = 25
"""Events of a run."""
OPEN = 1_000
"""Of so many runs one is open, with a ready event in it; as many failed."""
LETTERS = 3_000
_RUN = "'run_' || lpad(to_hex(({first} + {i}::bigint * {apart})::bigint), 12, '0') || lpad(to_hex({i}), 16, '0')"


def fill(url: str, events: int, days: float = 90.0) -> None:
    """Fill a new ledger at that URL with about so many events of so many days, and let the server look at what it has."""
    runs = events // EACH
    apart = days * 86_400 / runs
    with Ledger(url) as ledger:
        body, run_id = CrawlDirected(url="https://example.org/some/page/of/an/ordinary/length"), "run_" + "0" * 28
        event = Event.of(body, run_id=run_id, corpus="corpus1")
        ledger.create_run(NewRun(run_id, "crawl", "corpus1", "0" * 64), [(event, Next(body))])
        ledger.cancel(run_id)
    first = int((time.time() - runs * apart) * 1_000)
    run = _RUN.format(first=first, i="i", apart=int(apart * 1_000))
    at = f"({first} / 1e3 + i * {apart})"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        ceilings = [
            name
            for (name,) in connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = 'runs' AND table_schema ="
                " current_schema() AND column_name ~ '^(run|day)_' AND column_name <> 'run_id'"
            )
        ]
        none = ", ".join(["4611686018427387904"] * len(ceilings))
        connection.execute(
            f"INSERT INTO runs (run_id, kind, corpus, owner, status, query, request_sha256, created_at, finished_at,"
            f" {', '.join(ceilings)}) SELECT {run}, 'gate', 'corpus' || (i % 5), 'key_' || (i % 40),"
            f" CASE WHEN i % {OPEN} = 0 THEN 'open' WHEN i % {OPEN} = 1 THEN 'failed' ELSE 'finished' END,"
            f" 'what is the best way to hold lease number ' || i, '', {at}, CASE WHEN i % {OPEN} > 0 THEN {at} + 1 END,"
            f" {none} FROM generate_series(1, {runs}) AS i".encode()
        )
        connection.execute(
            "INSERT INTO events (id, run_id, kind, queue, status, due_at, lane, priority, created_at, settled_at,"
            " payload, ready_at, claimed_at, claimed_by, epoch, deliveries)"
            " SELECT 'evt_' || right(run, 28 - 4) || lpad(to_hex(n), 4, '0'), run, 'CrawlDirected', 'crawl',"
            " CASE WHEN is_open THEN 'ready' ELSE 'settled' END, CASE WHEN is_open THEN at END, 'key:key_' || (i % 40),"
            " 2, at, CASE WHEN is_open THEN NULL ELSE at + 1 END, payload, at, at + .5, 'crawl.1', 1, 1"
            f" FROM (SELECT i, n, {run} AS run, {at} + n / 50.0 AS at, i % {OPEN} = 0 AND n = 0 AS is_open,"
            f" (SELECT payload FROM events LIMIT 1) AS payload FROM generate_series(1, {runs}) AS i,"
            f" generate_series(0, {EACH - 1}) AS n) AS made".encode()
        )
        connection.execute(
            f"UPDATE events SET payload = replace(replace(payload, '{event.id}', id), '{run_id}', run_id)"
            " WHERE due_at IS NOT NULL".encode()
        )
        connection.execute(
            f"INSERT INTO attempts (run_id, event_id, epoch, worker, ready_at, claimed_at, ended_at, outcome, why)"
            f" SELECT {run}, 'evt_' || right({run}, 28 - 4) || '0001', 0, 'crawl.1', 1, 2, 3, 'retried', 'HTTP 503'"
            f" FROM generate_series(1, {runs}) AS i WHERE i % 2 = 0".encode()
        )
        connection.execute(
            f"INSERT INTO outcomes (run_id, corpus, profile, plan, config_hash, decided_at, finished_at, status,"
            f" changed_at) SELECT {run}, 'corpus1', 'default', 'search', 'c', {at}, {at} + 1, 'finished', {at}"
            f" FROM generate_series(1, {runs}) AS i".encode()
        )
        connection.execute(
            f"INSERT INTO operator_actions (at, operator, action, subject, note) SELECT {at}, 'key_' || (i % 9),"
            f" 'replay', 'dead_' || i, 'again' FROM generate_series(1, {runs // 4}) AS i".encode()
        )
        connection.execute(
            "INSERT INTO dead_letters (id, event_id, run_id, corpus, stage, kind, reason, exception_type, fingerprint,"
            " first_seen, last_seen, sha256, status, message, stack, payload) SELECT 'dead_' || lpad(to_hex(i), 28, '0'),"
            f" 'evt_x' || i, {run}, 'corpus' || (i % 5), 'crawl', 'CrawlDirected', 'exhausted', 'TimedOut', 'f' ||"
            f" lpad(to_hex(i % 60), 15, '0'), {at}, {at}, '', CASE WHEN i % 4 = 0 THEN 'replayed' ELSE 'parked' END,"
            " 'HTTP 503', repeat('at some line of some file', 40), 'x'"
            f" FROM generate_series(1, {LETTERS}) AS i".encode()
        )
        connection.execute("VACUUM ANALYZE")
