"""A ledger of the first kept version with work in it, and a later version that this Sluice does not have yet."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Column, Connection, Integer, Text, text

from sluice.contracts.errors import PolicyRefused
from sluice.contracts.event import DeadLetter
from sluice.ledger.database import Database
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema import run_words
from sluice.ledger.schema.migrate import STEPS, schema_version
from sluice.ledger.schema.tables import api_keys, attempts, events, runs, webhooks
from tests.support.ledger_story import Clock, Story, page
from tests.support.repository import GOLDEN

if TYPE_CHECKING:
    from alembic.operations import Operations

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)
NEW_COLUMNS = (
    *(api_keys.c.expires_at, runs.c.retrying),
    *(events.c[name] for name in ("ready_at", "claimed_at", "claimed_by", "behind", "waited_ms")),
)
"""Columns that today's code reads or writes as it works; that Sluice had none of them."""
LATER_VERSION = schema_version() + 1


@pytest.fixture
def later_version(monkeypatch: pytest.MonkeyPatch) -> int:
    """The next version of the schema, as if this Sluice had it: ledgers of today are old then."""
    monkeypatch.setitem(STEPS, LATER_VERSION, next_step)
    return LATER_VERSION


def next_step(operations: Operations) -> None:
    """What a step may have to do: a column, a table, an index, and rows that are filled in."""
    operations.add_column("runs", Column("colour", Text, nullable=False, server_default=""))
    operations.execute("UPDATE runs SET colour = 'blue' WHERE corpus = 'docs'")
    operations.create_table(
        "colours", Column("colour", Text, primary_key=True), Column("runs", Integer, nullable=False)
    )
    operations.execute("INSERT INTO colours SELECT colour, count(*) FROM runs GROUP BY colour")
    operations.create_index("runs_of_colour", "runs", ["colour"])


def old_ledger_in(folder: Path) -> Database:
    """A ledger of the initial version with work in it, in a file."""
    database = Database(f"sqlite:///{folder / 'ledger.sqlite'}")
    fill(database)
    return database


def install_initial_version(connection: Connection) -> None:
    """Make the tables as the first kept version had them, from what it is known to have been."""
    for statement in (GOLDEN / "ledger" / f"ledger-v3.{connection.dialect.name}.sql").read_text().split(";\n"):
        if statement:
            connection.execute(text(statement))
    connection.execute(text("INSERT INTO schema_version (version) VALUES (3)"))


def fill(database: Database) -> None:
    """Two runs with an event that is ready, one of them with a dead letter besides."""
    with database.installing() as connection:
        install_initial_version(connection)
        webhooks.create(connection)  # today's code looks whom to tell; that Sluice told nobody
        attempts.create(connection)
        run_words.create(connection)
        for column in NEW_COLUMNS:
            kind = column.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"))
    steps = dict(STEPS)
    STEPS.clear()  # as the Sluice that wrote it
    try:
        clock = Clock(NOW.timestamp())
        url = database.url.render_as_string(hide_password=False)
        with Ledger(url, clock=clock) as ledger:
            story = Story(ledger, clock, url)
            _, dead = story.begins(page(1), page(2))
            story.begins(page(3))
            story.handles(dead, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
    finally:
        STEPS.update(steps)
    with database.installing() as connection:
        webhooks.drop(connection)
        attempts.drop(connection)
        is_table = connection.dialect.name == "sqlite"
        connection.execute(text(f"DROP {'TABLE' if is_table else 'INDEX'} {run_words.NAME}"))
        for column in NEW_COLUMNS:
            connection.execute(text(f"ALTER TABLE {column.table.name} DROP COLUMN {column.name}"))
