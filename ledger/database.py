"""The ledger's connection to its database: SQLite in a file, or PostgreSQL.

Promises: a `writing` block is one transaction, durable when the block has ended and undone when it raises; a `holding`
block is one for claims, which need no sync of their own on SQLite; a `reading` block sees one snapshot. Connections are
made lazily, per process: after a fork the child makes its own and never touches its parent's. Thread-safe.

SQLite runs in WAL mode, and takes the write lock when the transaction begins (`BEGIN IMMEDIATE`), because a lock taken
half-way can only fail. Writers queue at a `Turn` first: SQLite's own waiting is sleep and retry, which under contention
leaves the disk idle and starves some writers. A commit is as durable as under `synchronous=FULL`: `WalSync` syncs the
same bytes of the WAL, but after the lock is released. SQLite would make all other writers wait for the disk; this way
commits of several processes share a sync.
"""

from __future__ import annotations

import fcntl
import math
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import URL, Connection, Engine, Executable, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from sluice.contracts.errors import Corrupted, DiskFull, InvalidSetting, Unavailable, is_disk_full
from sluice.ledger.transaction import Result, Transaction
from sluice.otel import logs, metrics

_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, "53100")
"""What the driver reports of a full disk: SQLite by its error code, PostgreSQL by its state."""
_SQLITE_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CONNECTIONS = {"sqlite": (64, 64), "postgresql": (6, 16)}
"""Most connections of a process, and of one in which many threads use the ledger at once. Ten processes must leave room
among the 100 of a PostgreSQL server; a thread waits for one, as transactions take milliseconds. SQLite counts none."""
_SILENT = {"keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3, "tcp_user_timeout": 15_000}
"""When an end of a connection takes the other for gone (libpq's names; seconds, then milliseconds): one that lost
its link or its power says no word, and may hold locks."""
_CLOCK_SECONDS = 10.0
"""Seconds between two looks at the server's clock."""
_LONGEST_NAME = 63
"""Bytes of a name of PostgreSQL's."""
_THEIR_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
_LOOK_AGAIN_SECONDS = 0.01
_WAL_SYNC = "wal_sync"
"""Key of a connection's `WalSync` in its `info`."""
_WAL_PAGES = 4_000
"""Pages (4 KiB) in the WAL before a commit checkpoints it: 16 MB, few fsyncs of the main file."""


class Database:
    """An SQLAlchemy engine of this process, and the kinds of transaction the ledger needs.

    No transaction leaves anything behind in its session, so a pooler may give each another one: PgBouncer's mode
    `transaction`. A thread that waits in vain for one of the process's connections gets `Unavailable`.
    """

    def __init__(self, url: str, threads: int = 0) -> None:
        """`threads` of this process use the ledger at once: up to so many connections, where that is many."""
        self.url = _checked(url)
        usual, most = _CONNECTIONS[self.url.get_backend_name()]
        self._most_connections = min(max(usual, threads), most)
        self._ahead_seconds, self._clock_seen_at = 0.0, -math.inf
        self._guard = threading.Lock()
        self._process_id = 0
        self._engine: Engine | None = None
        self._turn: Turn | None = None

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Open one durable transaction; with `is_synced_later` set, it is only as durable as one of `holding`.

        Raises:
            Unavailable: the database does not answer, or stays locked. Nothing was written.
        """
        with metrics.LEDGER_COMMIT_SECONDS.time(), self._connected() as pooled:
            with self._next_turn():
                transaction = yield from self._carried_out(pooled.driver_connection, "BEGIN IMMEDIATE")
            if not transaction.is_synced_later:
                self._sync(pooled)

    @contextmanager
    def holding(self) -> Iterator[Transaction]:
        """Open one transaction on claims: a claim or a heartbeat.

        On SQLite it survives the death of any process, but a power cut only once the next durable transaction has
        synced the same file. Losing a claim to a power cut is harmless on one machine: its worker is lost with it.
        PostgreSQL may serve machines that stay up, so there it is durable like any other.

        Raises:
            Unavailable: the database does not answer, or stays locked. Nothing was written.
        """
        with self._connected() as pooled, self._next_turn():
            yield from self._carried_out(pooled.driver_connection, "BEGIN IMMEDIATE")

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Open a transaction that reads one consistent view. Raises `Unavailable` if the database does not answer."""
        with self._connected() as pooled:
            yield from self._carried_out(pooled.driver_connection, "BEGIN")

    def read(self, query: Executable, parameters: Mapping[str, Any] = {}) -> Result:
        """Run one query in a transaction of its own. Raises `Unavailable` if the database does not answer."""
        with self.reading() as transaction:
            return transaction.execute(query, parameters)

    @contextmanager
    def installing(self) -> Iterator[Connection]:
        """Open one durable SQLAlchemy transaction for schema and migrations. Raises `Unavailable` as `writing` does."""
        with self._translated(), self.engine.connect() as connection:
            self._look_at_clock(connection.connection.driver_connection)
            with self._next_turn(), connection.begin():
                yield connection
            self._sync(connection.connection)

    @property
    def engine(self) -> Engine:
        """Return this process's engine."""
        if self._process_id != os.getpid():
            self._leave_parent_behind()
        with self._guard:
            if self._engine is None:
                self._engine, self._turn = _open(self.url, self._most_connections), _turn_of(self.url)
            return self._engine

    def clock(self) -> float:
        """Return the time on the database's server, as leases must not depend on the clocks of several machines.

        It is this machine's, corrected by what it differed by at the last look; SQLite's is this machine's.
        """
        return time.time() + self._ahead_seconds

    def close(self) -> None:
        """Close the connections of this process. The next use opens new ones."""
        if self._process_id != os.getpid():
            return
        with self._guard:
            if self._engine is not None:
                self._engine.dispose()
            if self._turn is not None:
                self._turn.close()
            self._engine = self._turn = None

    def _leave_parent_behind(self) -> None:
        if self._engine is not None:
            self._engine.dispose(close=False)  # the sockets and locks are the parent's
        self._engine = self._turn = None
        self._guard = threading.Lock()  # a copy may have been held by a thread that did not survive the fork
        self._process_id = os.getpid()

    def _next_turn(self) -> AbstractContextManager[None]:
        return self._turn or nullcontext()

    @property
    def on_sqlite(self) -> bool:
        """Whether the database is SQLite rather than PostgreSQL."""
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def _connected(self) -> Iterator[PoolProxiedConnection]:
        """Yield a connection from the engine's pool; a failed connection does not go back to it."""
        with self._translated():
            pooled = self.engine.raw_connection()
            try:
                self._look_at_clock(pooled.driver_connection)
                yield pooled
            except Exception as error:
                if isinstance(error, self._failures):
                    pooled.invalidate(error)
                raise
            finally:
                pooled.close()

    def _look_at_clock(self, driver: Any) -> None:
        if self.on_sqlite or time.monotonic() - self._clock_seen_at < _CLOCK_SECONDS:
            return
        self._clock_seen_at, began = time.monotonic(), time.time()
        [theirs] = driver.execute(_THEIR_CLOCK).fetchone()
        self._ahead_seconds = theirs - (began + time.time()) / 2
        driver.rollback()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if _code(error) in _SQLITE_DAMAGED:
                file = self.url.database
                raise Corrupted(
                    f"the ledger {file} is damaged ({error.args[0]}): stop Sluice and restore the file from a backup; "
                    f"`sqlite3 {file} 'PRAGMA quick_check'` says where the damage is"
                ) from error
            if not isinstance(error, (OperationalError, InterfaceError, PoolTimeout, *self._failures)):
                raise
            if _code(error) in _FULL:
                raise DiskFull("the disk of the ledger is full") from error
            if isinstance(error, PoolTimeout):
                told = f"all {self._most_connections} connections of this process were in use"
                raise Unavailable(f"the ledger did not answer: {told} for {BUSY_TIMEOUT_SECONDS} s") from error
            raise Unavailable(f"the ledger's database does not answer: {error.args[0]}") from error

    @property
    def _failures(self) -> tuple[type[BaseException], ...]:
        """Return the exceptions that the driver raises for faults of the database rather than of a statement."""
        driver: Any = self.engine.dialect.loaded_dbapi
        return driver.OperationalError, driver.InterfaceError

    def _carried_out(self, driver: Any, begin: str) -> Generator[Transaction, None, Transaction]:
        if self.on_sqlite:  # psycopg begins by itself
            driver.execute(begin)
        transaction = Transaction(driver, self.engine.dialect)
        try:
            yield transaction
        except BaseException:
            driver.rollback()
            raise
        driver.commit()
        return transaction

    def _sync(self, pooled: PoolProxiedConnection) -> None:
        """Make the connection's commits survive a power cut. On PostgreSQL the commit itself did so."""
        if not self.on_sqlite:
            return
        wal: WalSync | None = pooled.info.get(_WAL_SYNC)
        if wal is None:
            wal = pooled.info[_WAL_SYNC] = WalSync(Path(str(self.url.database)))
        try:
            wal.sync()
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull("the disk of the ledger is full") from error
            raise Unavailable(f"the ledger's file cannot be synced: {error.strerror}") from error


class LedgerPart:
    """Base for a group of tables of one ledger, with the clock for its rows: seconds since the epoch."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock


def _code(error: BaseException) -> int | str | None:
    """Return SQLite's error code, or PostgreSQL's state; None for an error of neither."""
    met: Any = getattr(error, "orig", None) or error  # SQLAlchemy's error carries the driver's
    code: int | str | None = getattr(met, "sqlite_errorcode", None) or getattr(met, "sqlstate", None)
    return code


def _checked(url: str) -> URL:
    remedy = "sqlite:////path/to/ledger.sqlite or postgresql+psycopg://user@host/database"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise InvalidSetting("ledger_url", "not a database URL", remedy) from error
    if parsed.get_backend_name() == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidSetting("ledger_url", f"{parsed.render_as_string()} cannot hold a ledger", remedy)


def _turn_of(url: URL) -> Turn | None:
    return Turn(Path(f"{url.database}.turn")) if url.get_backend_name() == "sqlite" else None


def _open(url: URL, most: int) -> Engine:
    # As many are kept as were needed at once: opening one takes as long as ten transactions.
    pool = {"pool_size": most, "max_overflow": 0, "pool_timeout": BUSY_TIMEOUT_SECONDS, "pool_use_lifo": True}
    try:
        if url.get_backend_name() == "postgresql":
            name = f"{logs.service()} {socket.gethostname()}:{os.getpid()}"[:_LONGEST_NAME]
            told = {"application_name": name, "connect_timeout": 5, **_SILENT}
            engine = create_engine(url, connect_args=told, **pool)
            event.listen(engine, "connect", _prepare_postgresql)
            return engine
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise InvalidSetting(
            "ledger_url", "PostgreSQL needs the psycopg package", "install sluice[postgres]"
        ) from error
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    wait = {"timeout": BUSY_TIMEOUT_SECONDS}
    engine = create_engine(url, connect_args=wait, **pool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "close", _close_wal_sync)
    return engine


def is_pooled(driver: Any) -> bool:
    """Return whether a pooler stands between a connection and PostgreSQL: the process that serves it is not the one
    that it was told of."""
    [serving] = driver.execute("SELECT pg_backend_pid()").fetchone()
    driver.rollback()
    return bool(serving != driver.info.backend_pid)


def _prepare_postgresql(connection: Any, _record: object) -> None:
    """Let the server be as patient as the client, not two hours; a pooler's server connections are its own."""
    if is_pooled(connection):  # each transaction may get another session, which knows no statement of the last one
        connection.prepare_threshold = None
        return
    limits = (f"SET {name.replace('keepalives', 'tcp_keepalives')} = {value}" for name, value in _SILENT.items())
    connection.execute("; ".join(limits))  # else the server waits for two hours; a pooler has limits of its own
    connection.commit()


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    _use_wal(connection)
    for pragma in ("synchronous=NORMAL", f"wal_autocheckpoint={_WAL_PAGES}"):
        connection.execute(f"PRAGMA {pragma}")


def _close_wal_sync(_connection: Any, record: ConnectionPoolEntry) -> None:
    if wal := record.info.pop(_WAL_SYNC, None):
        wal.close()


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch a new file to WAL. SQLite refuses at once, without its usual wait, while another process does the same."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


BUSY_TIMEOUT_SECONDS = 30.0
"""Time that SQLite waits for a lock: longer than any checkpoint, shorter than a patient caller waits."""
_LOOKS = 200
"""Times that a writer polls for its turn before it sleeps: a transaction is shorter than a wake-up."""


class Turn:
    """A queue of writers across threads and processes, by a record lock on a file beside the database.

    It only decides who goes next; SQLite's own lock still decides who may write. The kernel releases the lock
    when its holder dies, and a child does not inherit it by fork. A thread waits no longer for the other threads of
    its process than SQLite would: behind a database that stays locked, a queue must not grow.
    """

    def __init__(self, path: Path) -> None:
        self._thread_turn = threading.Lock()
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        if not self._thread_turn.acquire(timeout=BUSY_TIMEOUT_SECONDS):
            raise Unavailable("the ledger's database does not answer: too many wait to write to it")
        try:
            if not any(self._is_free() for _ in range(_LOOKS)):
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        except BaseException:
            self._thread_turn.release()
            raise

    def _is_free(self) -> bool:
        """Take the turn if it is free; else yield the processor to another thread."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.sched_yield()
            return False
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)
        self._thread_turn.release()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class WalSync:
    """Syncs the write-ahead log of one connection that has written to it.

    While the connection is open the log stays the same file: SQLite removes it with the last connection. A checkpoint
    in between syncs the log first, and then the pages that it moves.
    """

    def __init__(self, database: Path) -> None:
        self._descriptor = os.open(f"{database.resolve()}-wal", os.O_RDONLY | os.O_CLOEXEC)

    def sync(self) -> None:
        """Wait until everything written so far is on disk."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
