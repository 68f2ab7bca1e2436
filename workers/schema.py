"""The ledger's tables, their indices, and the version that guards them.

Promises: the tables are made once, however many processes start at once; a database written by a newer
Sluice is refused before a row of it is touched.

Two conventions keep every query of an event's life indexed and cheap:

- A row of `events` is *open* (ready, claimed or waiting) exactly while `due_at` is set: when it became ready,
  when its lease runs out, or when its next attempt is due. The partial indices on open rows hold nothing else,
  so their cost follows the work in hand and not the history.
- `seq` grows in commit order within a run, because whoever inserts an event holds the run's row first.

Moments are seconds since the epoch (UTC). Money is whole nano-USD: sums of floats would drift across ceilings.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    insert,
    select,
    text,
)
from sqlalchemy.types import TypeDecorator

from contracts.errors import Conflict

AnyRow = Row[*tuple[Any, ...]]
"""A row whose columns are read by name."""

SCHEMA_VERSION = 1
_INSTALL_LOCK = 0x5_1D1CE
"""Key of PostgreSQL's advisory lock around the making of the tables."""


class FreeText(TypeDecorator[str]):
    """Text from outside: PostgreSQL takes neither NUL nor half of a surrogate pair, so both are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text as every database accepts it."""
        return None if value is None else value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _count(name: str) -> Column[Any]:
    return Column(name, BigInteger, nullable=False, default=0)


_ROW_ID = BigInteger().with_variant(Integer, "sqlite")
metadata = MetaData()

versions = Table("schema_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("corpus", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("query", FreeText),
    Column("idempotency_key", FreeText),
    Column("request_sha256", Text, nullable=False),
    Column("traceparent", Text),
    Column("created_at", Float, nullable=False),
    Column("deadline_at", Float),
    Column("answer_due_at", Float),  # the deadline of a gate run, for as long as no answer is directed
    Column("finished_at", Float),
    Column("run_nanousd", BigInteger, nullable=False),
    Column("run_pages", BigInteger, nullable=False),
    Column("day_nanousd", BigInteger, nullable=False),
    Column("day_pages", BigInteger, nullable=False),
    _count("reserved_nanousd"),
    _count("reserved_pages"),
    _count("spent_nanousd"),
    _count("spent_pages"),
    _count("spent_bytes"),
    _count("spent_tokens"),
    Column("spent_milliseconds", Float, nullable=False, default=0.0),
    _count("settled_events"),
    _count("dead_letters"),
    Column("journal_offset", BigInteger),
    Column("generation", Text),
    Index("runs_idempotency", "owner", "idempotency_key", unique=True),
    implicit_returning=False,
)
Index(
    "runs_answer_due",
    runs.c.answer_due_at,
    sqlite_where=runs.c.answer_due_at.is_not(None),
    postgresql_where=runs.c.answer_due_at.is_not(None),
)

events = Table(
    "events",
    metadata,
    Column("seq", _ROW_ID, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("run_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("queue", Text),
    Column("status", Text, nullable=False),
    Column("due_at", Float),
    _count("epoch"),
    _count("attempts"),
    _count("deliveries"),
    _count("deaths"),
    Column("worker", Text),
    Column("dedupe_key", FreeText),
    _count("reserve_nanousd"),
    _count("reserve_pages"),
    Column("reserved_on", Text),  # the UTC day that carries the reservation; NULL: not held (any more)
    Column("created_at", Float, nullable=False),
    Column("settled_at", Float),
    Column("why", FreeText),  # of the last retry or discard
    Column("payload", Text, nullable=False),
    Index("events_of_run", "run_id", "seq"),
    Index("events_of_kind", "run_id", "kind"),
    implicit_returning=False,
)
_IS_OPEN, _IS_KEYED = events.c.due_at.is_not(None), events.c.dedupe_key.is_not(None)
IS_OPEN = events.c.due_at >= 0
"""How a query says *open*: a range, which makes SQLite prefer the index of open events to that of all of a run."""
Index("events_open", events.c.run_id, events.c.due_at, sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN)
Index(
    "events_due",
    events.c.status,
    events.c.due_at,
    events.c.queue,
    sqlite_where=_IS_OPEN,
    postgresql_where=_IS_OPEN,
)
Index(
    "events_dedupe",
    events.c.run_id,
    events.c.dedupe_key,
    unique=True,
    sqlite_where=_IS_KEYED,
    postgresql_where=_IS_KEYED,
)

days = Table(
    "days",
    metadata,
    Column("day", Text, primary_key=True),
    _count("reserved_nanousd"),
    _count("reserved_pages"),
    _count("spent_nanousd"),
    _count("spent_pages"),
    implicit_returning=False,
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Text, primary_key=True),
    Column("event_id", Text, unique=True),
    Column("run_id", Text),
    Column("stage", Text, nullable=False),
    Column("kind", Text),
    Column("reason", FreeText, nullable=False),
    Column("exception_type", FreeText, nullable=False),
    Column("message", FreeText, nullable=False),
    Column("stack", FreeText, nullable=False),
    Column("fingerprint", Text, nullable=False),
    _count("attempts"),
    _count("deliveries"),
    Column("first_seen", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    Column("worker", Text),
    Column("traceparent", Text),
    Column("payload", LargeBinary, nullable=False),
    Column("sha256", Text, nullable=False),
    _count("replay_count"),
    Column("status", Text, nullable=False),
    Column("operator", FreeText),
    Column("note", FreeText),
    Index("dead_letters_seen", "status", "last_seen"),
    Index("dead_letters_of_run", "run_id"),
    Index("dead_letters_alike", "fingerprint"),
    implicit_returning=False,
)

operator_actions = Table(
    "operator_actions",
    metadata,
    Column("seq", _ROW_ID, primary_key=True),
    Column("at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False, index=True),
    Column("note", FreeText, nullable=False),
    implicit_returning=False,
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Float, nullable=False),
    implicit_returning=False,
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", FreeText, nullable=False),
    Column("role", Text, nullable=False),
    Column("corpora", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
    implicit_returning=False,
)


def install(connection: Connection) -> None:
    """Make what is missing, in the caller's transaction.

    Raises:
        Conflict: the database was written by a newer Sluice.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _INSTALL_LOCK})
    versions.create(connection, checkfirst=True)
    found = connection.execute(select(versions.c.version)).scalar()
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(versions).values(version=SCHEMA_VERSION))
    elif found > SCHEMA_VERSION:
        raise Conflict(
            f"the ledger has schema version {found} and this Sluice knows up to {SCHEMA_VERSION}: "
            "upgrade Sluice, or give it a ledger of its own"
        )
