"""The steps from each version of the ledger's schema to the next; `ledger.migrate` carries them out.

There is none yet: `ledger.tables` is the first schema that is kept readable. A later change of the tables adds its step
here, under the version that it leads to; `schema_version` follows by itself:

    STEPS = {4: add_colour_to_runs}

    def add_colour_to_runs(operations: Operations) -> None:
        operations.add_column("runs", Column("colour", Text, nullable=False, server_default=""))

A step runs in the caller's transaction, on SQLite and PostgreSQL, and keeps every row. It names tables and columns as
they were in its own time: `ledger.tables` moves on, a step never does. After the last one the tables are those of a new
ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.operations import Operations

INITIAL_VERSION = 3
"""The version of the first schema. Ledgers of 1 and 2 were never part of a release."""

STEPS: dict[int, Callable[[Operations], None]] = {}
"""By the version that a step leads to, without a gap behind `INITIAL_VERSION`."""


def schema_version() -> int:
    """The version of the schema that this Sluice reads and writes."""
    return max(STEPS, default=INITIAL_VERSION)
