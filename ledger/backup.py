"""A consistent copy of the ledger, the way back from it, and the lease under which nothing is removed meanwhile.

SQLite is copied by `VACUUM INTO`, which leaves out what was deleted; PostgreSQL by `pg_dump`, of our tables alone, in
the snapshot in which they are counted. Both are of one moment, and writers go on.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, bindparam, delete, func, select, update

from sluice.contracts.errors import Conflict, Corrupted, InvalidSetting, SluiceError, Unavailable
from sluice.ledger.audit import record
from sluice.ledger.database import Database, is_pooled
from sluice.ledger.ledger import Ledger
from sluice.ledger.reader import BACKUP_LEASE
from sluice.ledger.schema import run_words
from sluice.ledger.schema.migrate import schema_version, vacuum_into
from sluice.ledger.schema.tables import console_sessions, events, leases, metadata, worker_beats
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust.blobs import Place, references

LEASE_SECONDS = 30.0
"""Seconds after which the lease of a killed backup ends."""
_ROWS_AT_ONCE = 5_000
_TOOL_SECONDS = 6 * 3_600
"""Longest time that a tool of PostgreSQL may take."""
_CLAIMED = select(events.c.id, events.c.worker).where(events.c.status == "claimed")
_FENCE = update(events).where(events.c.id == bindparam("of_event")).values(epoch=events.c.epoch + 1)


class BackupLease:
    """The lease of one backup, renewed by a thread until the block ends.

    While it is held no blob, journal record or generation is collected, and prune, forget, reindex and migrate wait or
    refuse. Raises `Conflict` when another backup holds it.
    """

    def __init__(self, ledger: Ledger, seconds: float | None = None) -> None:
        self._ledger, self._seconds = ledger, LEASE_SECONDS if seconds is None else seconds
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._ending = threading.Event()
        self._renewed_at = 0.0
        self._thread = threading.Thread(target=self._renew, name="backup-lease", daemon=True)

    def __enter__(self) -> BackupLease:
        deadline = time.monotonic() + self._seconds + 2.0
        while not self._take():
            if time.monotonic() > deadline:
                raise Conflict("another backup of this instance is being taken: wait for its end")
            time.sleep(min(0.5, self._seconds / 4))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._ledger.give_up_lease(BACKUP_LEASE, self._holder)

    def check(self) -> None:
        """Raise `Conflict` if the lease ran out: what the copy refers to may be gone."""
        if time.monotonic() - self._renewed_at > self._seconds:
            raise Conflict("the backup's lease ran out, as the ledger did not answer in time: begin it again")

    def _take(self) -> bool:
        now = time.monotonic()
        if is_taken := self._ledger.lease(BACKUP_LEASE, self._holder, self._seconds):
            self._renewed_at = now
        return is_taken

    def _renew(self) -> None:
        while not self._ending.wait(self._seconds / 4):
            try:
                if not self._take():
                    return
            except SluiceError:
                continue  # `check` tells


@dataclass(frozen=True, slots=True)
class LedgerCopy:
    """A copy of the ledger as it was at `at` (seconds since the epoch). `schema` is PostgreSQL's; `rows` are counts."""

    path: Path
    at: float
    version: int
    rows: Mapping[str, int]
    written: Mapping[str, int]
    """The journal offset that runs have reached, by corpus."""
    blobs: frozenset[str]
    schema: str | None = None


def copy_ledger(ledger: Ledger, folder: Path) -> LedgerCopy:
    """Copy the ledger into `folder`. Raises `Unavailable` where the database or its tool fails, and `InvalidSetting`
    where no `pg_dump` is new enough for the server."""
    if not ledger.database.on_sqlite:
        return _dump(ledger, folder)
    at, copy = ledger.clock(), folder / "ledger.sqlite"
    vacuum_into(Path(str(ledger.database.url.database)), copy)
    with Ledger(f"sqlite:///{copy}") as copied:
        with copied.database.reading() as connection:
            facts = _facts(connection)
        facts = {**facts, "written": copied.written_offsets()}
    copy.with_name(f"{copy.name}.turn").unlink(missing_ok=True)
    return LedgerCopy(copy, at, schema_version(), **facts)


def _facts(connection: Transaction) -> dict[str, Any]:
    blobs: set[str] = set()
    place: Place | None = Place()
    while place is not None:
        found, place = references(connection, place, _ROWS_AT_ONCE)
        blobs |= found
    return {"rows": count_rows(connection), "blobs": frozenset(blobs)}


def count_rows(connection: Transaction) -> dict[str, int]:
    """Return the number of rows of each table; leases, beats and sign-ins come and go, and are left out."""
    passing = (leases, worker_beats, console_sessions)
    kept = (one for name, one in sorted(metadata.tables.items()) if one not in passing)
    return {one.name: int(connection.execute(select(func.count()).select_from(one)).scalar() or 0) for one in kept}


def _dump(ledger: Ledger, folder: Path) -> LedgerCopy:
    import psycopg

    url, path = ledger.database.url, folder / "ledger.dump"
    pooled = ledger.database.engine.raw_connection()
    driver: Any = pooled.driver_connection
    try:
        _require_server(driver)
        driver.isolation_level, driver.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
        tool = _tool("pg_dump", driver.info.server_version // 10_000)
        at = ledger.clock()
        [snapshot] = driver.execute("SELECT pg_export_snapshot()").fetchone()
        [schema] = driver.execute("SELECT current_schema()").fetchone()
        tables = [f'--table="{schema}"."{name}"' for name in metadata.tables]
        _run(url, [tool, "--format=custom", "--compress=0", f"--snapshot={snapshot}", *tables, f"--file={path}"])
        facts = _facts(Transaction(driver, ledger.database.engine.dialect))
    except psycopg.Error as error:
        raise Unavailable(f"the ledger's database does not answer: {error}") from error
    finally:
        pooled.invalidate()
        pooled.close()
    return LedgerCopy(path, at, schema_version(), written=ledger.written_offsets(), schema=schema, **facts)


_MARK = "sluice_restoring"
"""Table of a database whose restoration has not ended: its ledger is nobody's, and the next restoration replaces it."""


def restore_dump(url: str, dump: Path, schema: str) -> None:
    """Restore a dump into the database at `url`, whole or not at all; `end_restoration` tells that all else is done.
    Raises `Conflict` if it has a ledger already, or another schema than the dump's is in force."""
    with closing(Database(url)) as database:
        with database.installing() as connection:
            _require_server(connection.connection.driver_connection)
            version = connection.exec_driver_sql("SELECT current_setting('server_version_num')::int").scalar()
            in_force = connection.exec_driver_sql("SELECT current_schema()").scalar()
            is_there = connection.exec_driver_sql(
                f"SELECT to_regclass('schema_version') IS NOT NULL AND to_regclass('{_MARK}') IS NULL"
            ).scalar()
        if in_force != schema:
            raise Conflict(
                f"the backup's tables are of schema {schema!r}, and {in_force!r} is in force: make it, and add "
                f"options=-csearch_path%3D{schema} to ledger_url"
            )
        if is_there:
            raise Conflict("the database of ledger_url has a ledger already: name an empty one, or drop its tables")
        tool = _tool("pg_restore", int(version or 0) // 10_000)
        with database.installing() as connection:
            for name in metadata.tables:
                connection.exec_driver_sql(f'DROP TABLE IF EXISTS "{name}" CASCADE')
            connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {_MARK} (at float8)")
        told = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
        # The index of words needs an extension, which a new database lacks: it is made here, as for a new ledger.
        parts = _run(database.url, [tool, "--list", str(dump)]).splitlines(keepends=True)
        wanted = dump.with_name(f"{dump.name}.parts")
        wanted.write_text("".join(one for one in parts if f" {run_words.NAME} " not in one))
        _run(database.url, [tool, *told, f"--use-list={wanted}", str(dump)])
        wanted.unlink()
        with database.installing() as connection:
            run_words.create(connection)


def end_restoration(url: str) -> None:
    """Make the restored ledger in that database one that no restoration replaces."""
    with closing(Database(url)) as database, database.installing() as connection:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {_MARK}")


@contextmanager
def passing_database(url: str, schema: str) -> Iterator[str]:
    """Yield the URL of a new database on the server at `url`, which is dropped at the end. Raises `Unavailable` where
    the user may not create databases."""
    import psycopg

    name = f"sluice_verify_{secrets.token_hex(6)}"
    with closing(Database(url)) as database:
        told = _without_driver(database.url).render_as_string(hide_password=False)
        new = database.url.set(database=name).render_as_string(hide_password=False)
    try:
        with psycopg.connect(told, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
            try:
                with psycopg.connect(told, dbname=name, autocommit=True) as inside:
                    inside.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
                yield new
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    except psycopg.Error as error:
        raise Unavailable(f"a backup is verified in a database of its own, which cannot be made: {error}") from error


def _require_server(driver: Any) -> None:
    if is_pooled(driver):  # the tools change their session, and the pooler would give it to others
        problem, remedy = "PostgreSQL's tools cannot work through a pooler", "name the server itself where backups run"
        raise InvalidSetting("ledger_url", problem, remedy)


def _tool(name: str, server: int) -> str:
    """Return the path of a tool of PostgreSQL that is not older than the server."""
    known = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = [*map(str, known), *filter(None, [shutil.which(name)])]
    for one in found:
        said = subprocess.run([one, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout  # noqa: S603
        version = said.split()[2].partition(".")[0] if len(said.split()) > 2 else ""
        if version.isdecimal() and int(version) >= server:
            return one
    problem = f"the server is PostgreSQL {server}, and no {name} of that version or a newer one is here"
    raise InvalidSetting("ledger_url", problem, f"install postgresql-client-{server}")


def _run(url: URL, command: list[str]) -> str:
    """Run a tool on the database at `url`, and return what it prints. The password is in its environment, not among its
    arguments."""
    password = url.password or url.query.get("password")
    address = _without_driver(url)._replace(password=None).difference_update_query(["password"]).render_as_string()
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    try:
        done = subprocess.run(  # noqa: S603 - PostgreSQL's own tool
            [command[0], f"--dbname={address}", *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TOOL_SECONDS,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{Path(command[0]).name} failed: {error.stderr.strip()[:500]}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{Path(command[0]).name} took longer than {_TOOL_SECONDS} s") from error
    return done.stdout


def _without_driver(url: URL) -> URL:
    return url.set(drivername="postgresql")


def check_sqlite(path: Path) -> None:
    """Raise `Corrupted` unless the file is a whole SQLite database."""
    import sqlite3

    try:
        with closing(sqlite3.connect(path)) as connection:
            [(told,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        raise Corrupted(f"the ledger in the backup is no whole database: {error}") from error
    if told != "ok":
        raise Corrupted(f"the ledger in the backup is damaged: {told}")


def begin_anew(ledger: Ledger, operator: str, subject: str, note: str) -> int:
    """Free the claims of a restored ledger, so that whoever still holds one is fenced; end its leases and sign-ins, and
    record the restoration. Returns the number of claims. May run again."""
    held = ledger.database.read(_CLAIMED).all()
    for worker in {row.worker for row in held}:
        ledger.release(worker, died=False)
    with ledger.database.writing() as connection:
        for row in held:
            connection.execute(_FENCE, {"of_event": row.id})
        connection.execute(delete(leases))
        connection.execute(delete(worker_beats))
        connection.execute(delete(console_sessions))
        record(connection, ledger.clock(), operator, "restore", [subject], note)
    return len(held)
