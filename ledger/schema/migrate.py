"""Makes the tables of a new ledger, refuses a ledger with another schema version, and migrates an older one.

Promises: the tables are made once, however many processes start at once; a database written by a newer Sluice is
refused before a row of it is touched. Before a migration changes a row, a copy of the old ledger is complete and
on disk. The migration is one transaction, so a process that is killed at any point leaves the old schema or the new
one and nothing between, and running it again works. The ledger is locked from before the copy until the end, so nobody
else writes meanwhile.

The number in the table `schema_version` decides which schema a ledger has. The copy is a file beside an
SQLite ledger, and a schema in the same database for a PostgreSQL one. It is kept until somebody removes it.

The steps are written with Alembic's operations; its own table of versions is not used. A change of the tables adds its
step to `STEPS`, under the version that it leads to; `schema_version` follows by itself:

    STEPS = {9: add_colour_to_runs}

    def add_colour_to_runs(operations: Operations) -> None:
        operations.add_column("runs", Column("colour", Text, nullable=False, server_default=""))

A step runs in the caller's transaction, on SQLite and PostgreSQL, and keeps every row. After the last one the tables
equal those of a new ledger. A step makes a table as `schema.tables` declares it, as long as no later step changes that
table: the author of such a step writes out, in the step that makes the table, the columns that it had then.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Connection, Float, Table, Text, insert, inspect, text, update

from sluice.contracts.errors import Conflict, Unavailable
from sluice.disk.durable import fsync_path
from sluice.ledger.database import Database
from sluice.ledger.schema import run_words, tables
from sluice.ledger.schema.tables import metadata, versions

if TYPE_CHECKING:
    from alembic.operations import Operations

INITIAL_VERSION = 3
"""The version of the first schema. Ledgers of 1 and 2 were never part of a release."""


def add_quarantine(operations: Operations) -> None:
    """Create the tables of held chunks and of forgotten documents."""
    _create(operations, tables.quarantine, tables.forgotten)


def add_freshness(operations: Operations) -> None:
    """Create the table of citations, and add the columns that count a page's changes."""
    _create(operations, tables.citations)
    operations.add_column("pages", Column("checksum", Text))
    operations.add_column("pages", Column("watched_since", Float))
    operations.add_column("pages", Column("asked_at", Float))
    operations.add_column("pages", Column("changes", BigInteger, nullable=False, server_default="0"))


def add_learning(operations: Operations) -> None:
    """Create the tables of outcomes, flags, the gate's steps back, and rollouts of its models."""
    _create(operations, tables.outcomes, tables.flags, tables.configurations, tables.defences, tables.rollouts)


def add_graph(operations: Operations) -> None:
    """Create the tables of the graph: documents, their edges, and the sums over each corpus."""
    _create(operations, tables.graph_corpora, tables.graph_documents, tables.graph_edges)


def add_owners(operations: Operations) -> None:
    """Add the owner of each page and outcome, and the corpus and owner of each step back.

    The step that makes the last two tables makes them as they are now: a ledger from before it has them already. A step
    back of all corpora and owners begins anew, and its end is recorded with the next run of its profile.
    """
    operations.add_column("pages", Column("owner", Text))
    connection = operations.get_bind()
    if any(column["name"] == "owner" for column in inspect(connection).get_columns("outcomes")):
        return
    operations.add_column("outcomes", Column("owner", Text, nullable=False, server_default="local"))
    operations.add_column("outcomes", Column("judged_by", Text))
    of_run = "SELECT owner FROM runs WHERE runs.run_id = outcomes.run_id"
    operations.execute(f"UPDATE outcomes SET owner = ({of_run}) WHERE EXISTS ({of_run})")  # noqa: S608
    before = connection.execute(text("SELECT name, profile, state, tripped_at, changed_at FROM defences"))
    rows = [dict(row) for row in before.mappings()]
    for row in rows:
        if row["name"] in ("satisfaction", "freshness", "latency"):
            row["state"] = json.dumps(json.loads(row["state"]) | {"configuration": None})
    operations.drop_table("defences")
    _create(operations, tables.defences)
    if rows:
        connection.execute(insert(tables.defences), rows)


def add_confidence(operations: Operations) -> None:
    """Add the confidence of each outcome's answer, and the index of a corpus's judged runs."""
    connection = operations.get_bind()
    if any(column["name"] == "confidence" for column in inspect(connection).get_columns("outcomes")):
        return
    operations.add_column("outcomes", Column("confidence", Float))
    judged = next(index for index in tables.outcomes.indexes if index.name == "outcomes_judged")
    judged.create(connection)


def add_limits_of_keys(operations: Operations) -> None:
    """Add the end of each API key, and its limit of requests."""
    if any(column["name"] == "expires_at" for column in inspect(operations.get_bind()).get_columns("api_keys")):
        return
    operations.add_column("api_keys", Column("expires_at", Float))
    operations.add_column("api_keys", Column("requests_per_minute", BigInteger))


def add_corpora(operations: Operations) -> None:
    """Create the table of corpora with settings of their own."""
    _create(operations, tables.corpora)


def add_webhooks(operations: Operations) -> None:
    """Create the tables of webhooks and of their deliveries."""
    _create(operations, tables.webhooks, tables.webhook_deliveries)


def add_passage_marks(operations: Operations) -> None:
    """Create the table of marks on passages."""
    _create(operations, tables.passage_marks)


def add_schedules(operations: Operations) -> None:
    """Create the table of schedules."""
    _create(operations, tables.schedules)


def add_console(operations: Operations) -> None:
    """Create the tables of attempts, of what stages did, of wanted workers and of who is signed in; and the indexes by
    which runs are listed. Attempts that were made before are not known."""
    _create(operations, tables.attempts, tables.stage_minutes, tables.pool_sizes, tables.console_sessions)
    connection = operations.get_bind()
    operations.add_column("events", Column("ready_at", Float))
    operations.add_column("events", Column("claimed_at", Float))
    operations.add_column("events", Column("claimed_by", Text))
    operations.add_column("events", Column("behind", BigInteger, nullable=False, server_default="0"))
    operations.add_column("events", Column("waited_ms", BigInteger, nullable=False, server_default="0"))
    if all(column["name"] != "share" for column in inspect(connection).get_columns("flags")):
        operations.add_column("flags", Column("share", Float))
    operations.add_column("runs", Column("retrying", BigInteger, nullable=False, server_default="0"))
    failed = "FROM events WHERE due_at IS NOT NULL AND attempts + deaths > 0"
    operations.execute(
        f"UPDATE runs SET retrying = (SELECT count(*) {failed} AND events.run_id = runs.run_id)"  # noqa: S608
        f" WHERE run_id IN (SELECT run_id {failed})"
    )
    operations.drop_index("dead_letters_alike", "dead_letters")
    new = {"runs_of_status", "runs_of_owner", "runs_of_corpus", "runs_of_kind", "runs_retrying"}
    new |= {"dead_letters_alike", "dead_letters_reasons", "operator_actions_of_operator", "operator_actions_of_action"}
    for table in (tables.runs, tables.dead_letters, tables.operator_actions):
        for index in table.indexes:
            if index.name in new:
                index.create(connection, checkfirst=True)
    run_words.create(connection)


def many_machines(operations: Operations) -> None:
    """Add what several machines agree on: who indexes, under which epoch, what is published, which workers live."""
    operations.add_column("leases", Column("epoch", BigInteger, nullable=False, server_default="0"))
    operations.add_column("leases", Column("since", Float))
    operations.add_column("leases", Column("note", Text))
    _create(operations, tables.published, tables.worker_beats)
    operations.execute(
        "INSERT INTO published (corpus, generation, journal_offset, at)"
        " SELECT corpus, max(generation), max(journal_offset), max(created_at) FROM runs"
        " WHERE generation IS NOT NULL AND journal_offset IS NOT NULL GROUP BY corpus"
    )
    held = next(index for index in tables.events.indexes if index.name == "events_held")
    held.create(operations.get_bind())
    if operations.get_bind().dialect.name == "postgresql":
        for name, settings in tables.VACUUMED.items():
            operations.execute(f"ALTER TABLE {name} SET ({', '.join(' = '.join(one) for one in settings.items())})")


def _create(operations: Operations, *made: Table) -> None:
    metadata.create_all(operations.get_bind(), tables=made, checkfirst=False)


STEPS: dict[int, Callable[[Operations], None]] = {
    4: add_quarantine,
    5: add_freshness,
    6: add_learning,
    7: add_graph,
    8: add_owners,
    9: add_confidence,
    10: add_limits_of_keys,
    11: add_corpora,
    12: add_webhooks,
    13: add_passage_marks,
    14: add_schedules,
    15: add_console,
    16: many_machines,
}
"""Steps by the version that each leads to, without a gap after `INITIAL_VERSION`."""


def schema_version() -> int:
    """Return the version of the schema that this Sluice reads and writes."""
    return max(STEPS, default=INITIAL_VERSION)


_INSTALL_LOCK = 0x5_1D1CE
"""Key of PostgreSQL's advisory lock while the tables are made."""
_IS_THERE = {
    "sqlite": f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '{versions.name}'",  # noqa: S608
    "postgresql": f"SELECT to_regclass('{versions.name}') IS NOT NULL",
}
"""Queries whether a ledger exists. Each process runs one at its start; SQLAlchemy's inspection would cost each 2 MB."""


def install(connection: Connection) -> None:
    """Make the tables of a new ledger, or check the version of an existing one, in the caller's transaction.

    Raises:
        Conflict: the ledger was written by a newer Sluice, or by an older one and was not migrated.
    """
    found = _take_version(connection)
    if found is None:
        metadata.create_all(connection)
        run_words.create(connection)
        connection.execute(insert(versions).values(version=schema_version()))
    elif found != schema_version():
        raise _misfit(found)


def _take_version(connection: Connection) -> int | None:
    """Return the ledger's version, or None when it is new. Other callers wait until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _INSTALL_LOCK})
    if not connection.exec_driver_sql(_IS_THERE[connection.dialect.name]).scalar():
        return None
    found: int | None = connection.exec_driver_sql(f"SELECT version FROM {versions.name}").scalar()  # noqa: S608
    return found


def _misfit(found: int) -> Conflict:
    """Return the error for a ledger with another schema version, with its remedy."""
    if found < INITIAL_VERSION:
        return Conflict(
            f"the ledger has schema version {found}, of a Sluice that was never released: "
            "begin a new one with another data directory or ledger_url"
        )
    if found < schema_version():
        return Conflict(
            f"the ledger has schema version {found} and this Sluice needs {schema_version()}: "
            "run `sluice upgrade`, which takes a copy first (`sluice up` does so by itself)"
        )
    return Conflict(
        f"the ledger has schema version {found} and this Sluice knows up to {schema_version()}: "
        "upgrade Sluice, or give it a ledger of its own"
    )


ROOM = 5
"""Free space that a migration needs, as a multiple of the ledger's size: the copy takes one, the tables that are
written anew take one and twice that in the log (measured), and one is to spare."""
LOCK_SECONDS = 30
"""Time that PostgreSQL waits for other users of the tables."""

FreeBytes = Callable[[Path], int]
"""Returns the free bytes of a folder's file system."""


@dataclass(frozen=True, slots=True)
class Migration:
    """A ledger's old and new schema version. `found` None: the ledger is new. `copy`: the place of the old one."""

    found: int | None
    wanted: int = field(default_factory=schema_version)
    copy: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether the ledger is older than `wanted`."""
        return self.found is not None and self.found < self.wanted


def look(database: Database) -> Migration:
    """Return the migration that `migrate` would carry out; changes nothing.

    Raises:
        Conflict: the ledger was written by a newer Sluice, or by one that was never released.
        Unavailable: the database does not answer.
    """
    if not _is_there(database):
        return Migration(None)
    with database.installing() as connection:
        return _plan(connection)


def migrate(database: Database, now: datetime, free_bytes: FreeBytes | None = None) -> Migration:
    """Copy the ledger and carry out the steps that are due; a current ledger is left as it is, and a new one is made.

    Raises:
        Conflict: the ledger was written by a newer Sluice, or by one that was never released; or it is being backed up.
        Unavailable: the database does not answer, somebody keeps using it, or there is no room for a copy. Nothing
            was changed.
    """
    with database.installing() as connection:
        plan = _plan(connection)
        if plan.found is None:
            install(connection)
        if not plan.is_due:
            return plan
        _require_no_backup(connection)
        copy = _take_copy(connection, database, plan, now, free_bytes or _free_bytes)
        _upgrade(connection, plan)
        connection.execute(update(versions).values(version=plan.wanted))
    return Migration(plan.found, plan.wanted, copy)


def _require_no_backup(connection: Connection) -> None:
    ask = text("SELECT 1 FROM leases WHERE name = 'backup' AND until > :now")
    if connection.execute(ask, {"now": time.time()}).first() is not None:
        raise Conflict("a backup of the ledger is being taken: wait for its end, then migrate")


def _upgrade(connection: Connection, plan: Migration) -> None:
    # Imported here: it takes a fifth of a second, and a migration is rare.
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    operations = Operations(MigrationContext.configure(connection))
    for version in range((plan.found or INITIAL_VERSION) + 1, plan.wanted + 1):
        STEPS[version](operations)


def _is_there(database: Database) -> bool:
    """Return whether the database exists: connecting to a missing SQLite file would create it."""
    return not database.on_sqlite or Path(str(database.url.database)).exists()


def _plan(connection: Connection) -> Migration:
    found = _take_version(connection)
    if found is not None and not INITIAL_VERSION <= found <= schema_version():
        raise _misfit(found)
    return Migration(found)


def _take_copy(
    connection: Connection, database: Database, plan: Migration, now: datetime, free_bytes: FreeBytes
) -> str:
    if database.on_sqlite:
        return str(_copy_file(Path(str(database.url.database)), plan.wanted, now, free_bytes))
    return _copy_tables(connection, plan.wanted, now)


def _copy_file(ledger: Path, wanted: int, now: datetime, free_bytes: FreeBytes) -> Path:
    """Copy the ledger through another connection, while the caller's keeps others from writing."""
    _require_room(ledger, free_bytes)
    copy = ledger.with_name(f"{ledger.name}.before-{wanted}-{now:%Y%m%dT%H%M%SZ}")
    for left_behind in ledger.parent.glob(f"{ledger.name}.before-*.partial"):
        left_behind.unlink()
    partial = copy.with_name(f"{copy.name}.partial")
    try:
        vacuum_into(ledger, partial)
        partial.rename(copy)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    fsync_path(ledger.parent)
    return copy


def vacuum_into(ledger: Path, copy: Path) -> None:
    """Copy an SQLite database as it is at this moment, without what was deleted, and flush it. Writers go on."""
    with closing(sqlite3.connect(ledger)) as reader:
        reader.execute("VACUUM INTO ?", (str(copy),))
    copy.chmod(ledger.stat().st_mode & 0o777)
    fsync_path(copy)


def room_for_copy(ledger: Path) -> int:
    """Return the bytes that migrating the SQLite file needs on its disk, its copy included."""
    log = ledger.with_name(f"{ledger.name}-wal")
    return int(ROOM * (ledger.stat().st_size + (log.stat().st_size if log.exists() else 0)))


def _require_room(ledger: Path, free_bytes: FreeBytes) -> None:
    free, needed = free_bytes(ledger.parent), room_for_copy(ledger)
    if free < needed:
        raise Unavailable(
            f"the disk of {ledger.parent} has {free / 1e6:,.0f} MB left and migrating the ledger needs "
            f"{needed / 1e6:,.0f} MB: make room, then run `sluice upgrade`"
        )


def _copy_tables(connection: Connection, wanted: int, now: datetime) -> str:
    """Copy the tables in the migrating transaction: if that is undone there is no copy, and none is needed."""
    schema = f"sluice_before_{wanted}_{now:%Y%m%dt%H%M%Sz}"
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
    tables = sorted(metadata.tables.keys() & set(inspect(connection).get_table_names()))
    connection.execute(text(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE"))
    connection.execute(text(f"CREATE SCHEMA {schema}"))
    for table in tables:
        connection.execute(text(f"CREATE TABLE {schema}.{table} AS TABLE {table}"))
    return schema


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
