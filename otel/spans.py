"""The local span store, whose parts of an event's work `sluice trace` shows when nothing else is installed.

One SQLite file that every process of an instance writes to and anyone may read at the same time. It is
disposable: deleting it loses history and nothing else, so it is never synced to disk and a damaged
file is thrown away. Writers hand in batches; a batch is one transaction.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

FILE_NAME = "spans.sqlite"
RUN_ID = "sluice.run_id"
EVENT_ID = "sluice.event_id"
EPOCH = "sluice.epoch"
_BUSY_TIMEOUT_SECONDS = 5.0
"""Longest wait of a batch for another process's batch; a batch takes about a millisecond."""

_LOOK_AGAIN_SECONDS = 0.01

_SCHEMA = """
CREATE TABLE IF NOT EXISTS spans (
    trace_id TEXT NOT NULL, span_id TEXT NOT NULL, parent_id TEXT, name TEXT NOT NULL, service TEXT NOT NULL,
    process_id INTEGER NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, status_message TEXT NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, run_id TEXT,
    attributes TEXT NOT NULL, events TEXT NOT NULL, links TEXT NOT NULL,
    PRIMARY KEY (trace_id, span_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spans_by_run ON spans (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS spans_by_end ON spans (ended_ns);
"""

_COLUMNS = (
    "trace_id, span_id, parent_id, name, service, process_id, kind, status, status_message, "
    "started_ns, ended_ns, run_id, attributes, events, links"
)
_INSERT = f"INSERT OR REPLACE INTO spans ({_COLUMNS}) VALUES ({', '.join('?' * 15)})"  # noqa: S608 - constants only


MOST_PARTS = 2_000
_PARTS = f"""
SELECT hop.attributes ->> '$."{EVENT_ID}"', hop.attributes ->> '$."{EPOCH}"', part.name, part.started_ns,
    part.ended_ns, part.status_message
FROM spans AS part JOIN spans AS hop ON hop.trace_id = part.trace_id AND hop.span_id = part.parent_id
WHERE part.run_id = ? AND hop.kind = 'consumer' AND part.kind NOT IN ('consumer', 'producer')
ORDER BY part.started_ns LIMIT {MOST_PARTS}
"""  # noqa: S608 - as above


class SpanPart(NamedTuple):
    """A part of the work on an event, in the claim with that epoch: an embedding, a search, a commit."""

    event_id: str
    epoch: int
    name: str
    started_ns: int
    ended_ns: int
    problem: str


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to a span in another trace: hex ids of 32 and 16 digits."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A finished span. Times are nanoseconds since the epoch; `run_id` comes from `sluice.run_id`."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    service: str
    process_id: int
    kind: str
    status: Literal["unset", "ok", "error"]
    status_message: str
    started_ns: int
    ended_ns: int
    run_id: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()
    links: tuple[SpanLink, ...] = ()


class SpanStore:
    """Spans in one SQLite file. Safe for many processes and threads, and across a fork."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: dict[int, threading.Lock] = {}
        self._connections: dict[int, sqlite3.Connection] = {}
        """By process id: after a fork, the parent's stay unused but are not closed."""

    @classmethod
    def in_dir(cls, data_dir: Path) -> SpanStore:
        """Return the span store of the instance whose data is in `data_dir`. Opens nothing yet."""
        return cls(data_dir / FILE_NAME)

    def write(self, spans: Sequence[StoredSpan]) -> None:
        """Store `spans`, all or none; a span that is already stored is replaced.

        Raises:
            sqlite3.Error: the file cannot be written. A damaged one is removed first, so the next write can succeed.
            OSError: its directory cannot be made.
        """
        rows = [_row(span) for span in spans]
        with self._own_lock():
            try:
                with self._open() as connection:
                    connection.executemany(_INSERT, rows)
            except sqlite3.DatabaseError as error:
                if not isinstance(error, sqlite3.OperationalError):
                    self._throw_away()
                raise

    def of_run(self, run_id: str) -> list[StoredSpan]:
        """Return every span of a run, oldest first. Raises `sqlite3.DatabaseError` if the file is damaged."""
        chosen = f"SELECT {_COLUMNS} FROM spans WHERE run_id = ? ORDER BY started_ns, span_id"  # noqa: S608 - as above
        return [_span(row) for row in self._rows(chosen, run_id)]

    def parts_of(self, run_id: str) -> list[SpanPart]:
        """Return the parts of the work on a run's events, oldest first, `MOST_PARTS` at most. Raises as `of_run`."""
        return [SpanPart(*row) for row in self._rows(_PARTS, run_id)]

    def run_of(self, trace_id: str) -> str | None:
        """Return the first run of a trace; None where no span of one is kept. Raises as `of_run`."""
        found = self._rows(
            "SELECT run_id FROM spans WHERE trace_id = ? AND run_id IS NOT NULL ORDER BY started_ns LIMIT 1", trace_id
        )
        return found[0][0] if found else None

    def prune(self, before_ns: int) -> int:
        """Remove the spans that ended before `before_ns`; return their number."""
        with self._own_lock(), self._open() as connection:
            return connection.execute("DELETE FROM spans WHERE ended_ns < ?", [before_ns]).rowcount

    def close(self) -> None:
        """Close this process's connection; a later call opens a new one."""
        with self._own_lock():
            self._close()

    def _own_lock(self) -> threading.Lock:
        return self._locks.setdefault(os.getpid(), threading.Lock())

    def _open(self) -> sqlite3.Connection:
        connection = self._connections.get(os.getpid())
        if connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_SECONDS, check_same_thread=False)
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_SCHEMA)
            self._connections[os.getpid()] = connection
        return connection

    def _close(self) -> None:
        if connection := self._connections.pop(os.getpid(), None):
            connection.close()

    def _throw_away(self) -> None:
        self._close()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _rows(self, query: str, value: str) -> list[tuple[Any, ...]]:
        if not self.path.exists():
            return []
        with self._own_lock():
            return self._open().execute(query, [value]).fetchall()


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a new file to WAL. SQLite refuses at once, without its usual wait, while another process does the same."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def _row(span: StoredSpan) -> tuple[Any, ...]:
    facts = (getattr(span, name) for name in _COLUMNS.split(", ")[:-3])
    links = [[link.trace_id, link.span_id] for link in span.links]
    lists = (dict(span.attributes), [dict(event) for event in span.events], links)
    return *facts, *(json.dumps(one, default=str) for one in lists)


def _span(row: tuple[Any, ...]) -> StoredSpan:
    columns: dict[str, Any] = dict(zip(_COLUMNS.split(", "), row, strict=True))
    columns["attributes"] = json.loads(columns["attributes"])
    columns["events"] = tuple(json.loads(columns["events"]))
    columns["links"] = tuple(SpanLink(*link) for link in json.loads(columns["links"]))
    return StoredSpan(**columns)
