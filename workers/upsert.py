"""Insert rows unless their keys are taken: the one statement that each database spells through its own dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_Insert = sqlite.Insert | postgresql.Insert


def insert_once(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Whether `row` was inserted; False when a unique key of it is taken already."""
    statement = _insert(connection.dialect.name, table).execution_options(preserve_rowcount=True)
    return connection.execute(statement, dict(row)).rowcount == 1


def insert_new(connection: Connection, table: Table, column: str, rows: Sequence[dict[str, Any]]) -> set[Any]:
    """Insert in order those of `rows` whose unique keys are free; their values of `column`."""
    return set(connection.execute(_insert_telling(connection.dialect.name, table, column), rows).scalars())


@cache
def _insert(dialect: str, table: Table) -> _Insert:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement: _Insert = insert(table).on_conflict_do_nothing()
    return statement


@cache
def _insert_telling(dialect: str, table: Table, column: str) -> Any:
    return _insert(dialect, table).returning(table.c[column])
