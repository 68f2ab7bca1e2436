"""Makes the tables of a new ledger, and refuses one whose schema is not this Sluice's.

Promises: the tables are made once, however many processes start at once; a database written by a newer Sluice is
refused before a row of it is touched.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, text

from sluice.contracts.errors import Conflict
from sluice.ledger.schema.all_tables import metadata
from sluice.ledger.schema.migrations import INITIAL_VERSION, schema_version
from sluice.ledger.schema.tables import versions

_INSTALL_LOCK = 0x5_1D1CE
"""Key of PostgreSQL's advisory lock around the making of the tables."""
_IS_THERE = {
    "sqlite": f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '{versions.name}'",  # noqa: S608
    "postgresql": f"SELECT to_regclass('{versions.name}') IS NOT NULL",
}
"""Whether there is a ledger. Every process asks when it starts: SQLAlchemy's inspection would cost each 2 MB."""


def install(connection: Connection) -> None:
    """Make the tables of a new ledger, or see that they are those of this Sluice, in the caller's transaction.

    Raises:
        Conflict: the ledger was written by a newer Sluice, or by an older one and was not migrated.
    """
    found = take_version(connection)
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(versions).values(version=schema_version()))
    elif found != schema_version():
        raise misfit(found)


def take_version(connection: Connection) -> int | None:
    """The version that the ledger has, or None when it is new. Until the transaction ends no other process can ask."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _INSTALL_LOCK})
    if not connection.exec_driver_sql(_IS_THERE[connection.dialect.name]).scalar():
        return None
    found: int | None = connection.exec_driver_sql(f"SELECT version FROM {versions.name}").scalar()  # noqa: S608
    return found


def misfit(found: int) -> Conflict:
    """What is wrong with a ledger whose schema is not this Sluice's, and what helps."""
    if found < INITIAL_VERSION:
        return Conflict(
            f"the ledger has schema version {found}, of a Sluice that was never released: "
            "begin a new one with another data directory or ledger_url"
        )
    if found < schema_version():
        return Conflict(
            f"the ledger has schema version {found} and this Sluice needs {schema_version()}: "
            "run `sluice migrate`, which takes a copy first (`sluice up` does so by itself)"
        )
    return Conflict(
        f"the ledger has schema version {found} and this Sluice knows up to {schema_version()}: "
        "upgrade Sluice, or give it a ledger of its own"
    )
