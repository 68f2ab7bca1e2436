"""The local span store, which `sluice trace` reads when nothing else is installed.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FILE_NAME = "spans.sqlite"
RUN_ID = "sluice.run_id"
EVENT_ID = "sluice.event_id"
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
CREATE TABLE IF NOT EXISTS span_links (
    to_trace_id TEXT NOT NULL, to_span_id TEXT NOT NULL, trace_id TEXT NOT NULL, span_id TEXT NOT NULL,
    PRIMARY KEY (to_trace_id, to_span_id, trace_id, span_id)
) WITHOUT ROWID;
"""

_COLUMNS = (
    "trace_id, span_id, parent_id, name, service, process_id, kind, status, status_message, "
    "started_ns, ended_ns, run_id, attributes, events, links"
)
_INSERT = f"INSERT OR REPLACE INTO spans ({_COLUMNS}) VALUES ({', '.join('?' * 15)})"  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link to a span in another (or the same) trace: hex ids of 32 and 16 digits."""

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
        links = [(link.trace_id, link.span_id, span.trace_id, span.span_id) for span in spans for link in span.links]
        with self._own_lock():
            try:
                with self._open() as connection:
                    connection.executemany(_INSERT, rows)
                    connection.executemany("INSERT OR IGNORE INTO span_links VALUES (?, ?, ?, ?)", links)
            except sqlite3.DatabaseError as error:
                if not isinstance(error, sqlite3.OperationalError):
                    self._throw_away()
                raise

    def of_trace(self, trace_id: str) -> list[StoredSpan]:
        """Return every span of one trace, and the spans of other traces that link to it; oldest first.

        Raises:
            sqlite3.DatabaseError: the file is damaged.
        """
        return self._with_linked(self._select("trace_id = ?", [trace_id]))

    def of_run(self, run_id: str) -> list[StoredSpan]:
        """Return every span of a run, the run-less spans of its traces, and spans that link to any of these.

        Spans of *other* runs that share a trace (an agent's session) are left out. Oldest first.
        """
        own = self._select("run_id = ?", [run_id])
        around = []
        for trace_id in sorted({span.trace_id for span in own}):
            around += self._select("trace_id = ? AND run_id IS NULL", [trace_id])
        return self._with_linked([*own, *around])

    def prune(self, before_ns: int) -> int:
        """Remove the spans that ended before `before_ns`; return their number."""
        with self._own_lock(), self._open() as connection:
            pruned = connection.execute("DELETE FROM spans WHERE ended_ns < ?", [before_ns]).rowcount
            if pruned:
                connection.execute(
                    "DELETE FROM span_links WHERE NOT EXISTS (SELECT 1 FROM spans"
                    " WHERE spans.trace_id = span_links.trace_id AND spans.span_id = span_links.span_id)"
                )
            return pruned

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

    def _select(self, condition: str, values: Sequence[str]) -> list[StoredSpan]:
        if not self.path.exists():
            return []
        query = f"SELECT {_COLUMNS} FROM spans WHERE {condition} ORDER BY started_ns, span_id"  # noqa: S608 - as above
        with self._own_lock():
            rows = self._open().execute(query, values).fetchall()
        return [_span(row) for row in rows]

    def _with_linked(self, spans: Iterable[StoredSpan]) -> list[StoredSpan]:
        found = {(span.trace_id, span.span_id): span for span in spans}
        for trace_id in sorted({trace_id for trace_id, _ in found}):
            linked = self._select(
                "(trace_id, span_id) IN (SELECT trace_id, span_id FROM span_links WHERE to_trace_id = ?)", [trace_id]
            )
            found |= {
                (span.trace_id, span.span_id): span
                for span in linked
                if any((link.trace_id, link.span_id) in found for link in span.links)
            }
        return sorted(found.values(), key=lambda span: (span.started_ns, span.span_id))


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
