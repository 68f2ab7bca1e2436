"""Insert rows unless their keys are taken: the one statement that each database spells through its own dialect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite

from sluice.ledger.transaction import Transaction

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

    Insert = sqlite.Insert | postgresql.Insert


def insert_once(connection: Transaction, table: Table, row: Mapping[str, Any]) -> bool:
    """Whether `row` was inserted; False when a unique key of it is taken already."""
    return connection.insert(_insert_once(connection.dialect, table), row).rowcount == 1


def insert_into(dialect: str, table: Table) -> Insert:
    """The dialect's own insert, which knows what to do about a key that is taken."""
    if dialect != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # here: it takes as long to import as the rest of the ledger

    return postgresql.insert(table)


@cache
def _insert_once(dialect: str, table: Table) -> Insert:
    return insert_into(dialect, table).on_conflict_do_nothing()
