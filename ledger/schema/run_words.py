"""The index by which runs are found by the words of their questions.

SQLite: a full-text table (FTS5) of trigrams, which holds the questions a second time, because SQLite may renumber the
rows of `runs`. Its row numbers sort as run ids do, so the newest matches are read first and the rest is left alone.
PostgreSQL: an index of trigrams on `runs.query`, with the extension `pg_trgm`. Where that cannot be made, a search
reads every run, and the log says so once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import structlog
from sqlalchemy import BigInteger, Column, ColumnElement, Connection, MetaData, Table, Text, literal_column, text
from sqlalchemy.exc import DBAPIError

from sluice.ledger.schema.tables import storable
from sluice.ledger.transaction import Transaction

log = structlog.get_logger(__name__)

NAME = "run_words"
LEAST_CHARACTERS = 3
"""Characters of the shortest word that the index knows."""
_TABLE = Table(NAME, MetaData(), Column("rowid", BigInteger), Column("run_id", Text))
"""The table on SQLite, apart from the ledger's `metadata`, whose tables are on both databases."""
_RUN_ID = re.compile(r"run_([0-9a-f]{16})[0-9a-f]{12}")
_WINDOW = 8
"""Row numbers that are free for runs whose ids begin with the same digits: millisecond and 16 bits of chance."""
_FREE_NUMBER = f"coalesce((SELECT max(rowid) + 1 FROM {NAME} WHERE rowid BETWEEN :first AND :last), :first)"  # noqa: S608
_ADD = text(f"INSERT INTO {NAME} (rowid, query, run_id) SELECT {_FREE_NUMBER}, :words, :of_run")
_REMOVE = text(f"DELETE FROM {NAME} WHERE rowid BETWEEN :first AND :last AND run_id = :of_run")  # noqa: S608
_FILLED_AT_ONCE = 1_000
_NEXT_QUESTIONS = text(
    "SELECT run_id, query FROM runs WHERE run_id > :after AND query IS NOT NULL ORDER BY run_id LIMIT :most"
)


def create(connection: Connection) -> None:
    """Make the index, and fill it from the runs that are there."""
    if connection.dialect.name == "postgresql":
        _create_on_postgresql(connection)
        return
    connection.execute(text(f"CREATE VIRTUAL TABLE {NAME} USING fts5(query, run_id UNINDEXED, tokenize='trigram')"))
    after = ""
    while rows := connection.execute(_NEXT_QUESTIONS, {"after": after, "most": _FILLED_AT_ONCE}).all():
        for row in rows:
            if facts := _place(row.run_id):
                connection.execute(_ADD, {**facts, "words": row.query})
        after = rows[-1].run_id


def _create_on_postgresql(connection: Connection) -> None:
    index = f"CREATE INDEX {NAME} ON runs USING gin (query %s.gin_trgm_ops)"
    home = text(
        "SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
        " WHERE extname = 'pg_trgm'"
    )
    try:
        with connection.begin_nested():
            if not connection.execute(home).first():
                connection.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public"))
            connection.execute(text(index % connection.execute(home).scalar_one()))
    except DBAPIError as error:
        remedy = f"let its owner run `CREATE EXTENSION pg_trgm` and `{index % 'public'}`"
        log.warning("runs_searched_without_index", error=str(error.orig).strip(), remedy=remedy)


def add(connection: Transaction, run_id: str, query: str | None) -> None:
    """Add a new run to the index, in the transaction that records it."""
    if query and connection.dialect == "sqlite" and (facts := _place(run_id)):
        connection.execute(_ADD, {**facts, "words": storable(query)})


def remove(connection: Transaction, run_id: str) -> None:
    """Remove a run from the index, in the transaction that removes it."""
    if connection.dialect == "sqlite" and (facts := _place(run_id)):
        connection.execute(_REMOVE, facts)


def _place(run_id: str) -> dict[str, int | str] | None:
    """Return the row numbers of a run; None for an id of another form, which is not found by words."""
    first = first_number(run_id)
    return None if first is None else {"first": first, "last": first + _WINDOW - 1, "of_run": run_id}


def matching(words: Iterable[str]) -> tuple[Table, ColumnElement[bool]]:
    """Return SQLite's table and the condition of its rows whose question has each of these words, in either case.

    Words that are too short for the index are left out.
    """
    quoted = ('"' + word.replace('"', '""') + '"' for word in words if len(word) >= LEAST_CHARACTERS)
    return _TABLE, literal_column(NAME).op("MATCH", is_comparison=True)(" AND ".join(quoted))


def first_number(run_id: str) -> int | None:
    """Return the number of a run's row on SQLite; None for an id of another form."""
    found = _RUN_ID.fullmatch(run_id)
    return int(found[1], 16) if found else None
