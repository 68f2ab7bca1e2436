"""A ledger of an older version becomes one of this version, keeps its rows, and is copied before it is touched."""

from __future__ import annotations

import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, inspect, text

from contracts.errors import Conflict, Unavailable
from contracts.outcome import Done
from ledger.database import Database
from ledger.ledger import Claim, Ledger
from ledger.migrate import Migration, look, migrate, upgrade
from ledger.reservations import NO_CEILING
from ledger.tables import SCHEMA_VERSION, install, metadata
from tests.support.old_ledger import NOW, fill, install_version_1, old_ledger_in
from tests.support.postgresql import empty_schema
from tests.support.repository import REPOSITORY

Make = Callable[[], Database]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes empty databases."""
    made: list[Database] = []

    def make() -> Database:
        url = f"sqlite:///{tmp_path / secrets.token_hex(4) / 'ledger.sqlite'}"
        if request.param == "postgresql":
            url = empty_schema(request.getfixturevalue("postgresql_cluster"))
        made.append(Database(url))
        return made[-1]

    yield make
    for database in made:
        _drop_copies(database)
        database.close()


@pytest.fixture
def old(make: Make) -> Database:
    """A ledger of version 1 with work in it."""
    database = make()
    with database.installing() as connection:
        install_version_1(connection)
        fill(connection)
    return database


def test_the_first_step_makes_the_tables_of_version_1(make: Make) -> None:
    golden, first = make(), make()
    with golden.installing() as connection:
        install_version_1(connection)
    with first.installing() as connection:
        upgrade(connection, 0, 1)
    assert _shape(first) == _shape(golden)


def test_after_the_last_step_the_tables_are_those_of_a_new_ledger(make: Make, old: Database) -> None:
    new = make()
    with new.installing() as connection:
        install(connection)
    migrate(old, NOW)
    assert _shape(old) == _shape(new)


def test_nothing_differs_from_what_the_schema_declares(old: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    migrate(old, NOW)
    with old.installing() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_new_ledger_and_one_of_this_version_are_left_alone(make: Make) -> None:
    new = make()
    assert not migrate(new, NOW).is_due
    with new.installing() as connection:
        install(connection)
    before = _shape(new)
    assert migrate(new, NOW) == Migration(SCHEMA_VERSION)
    assert _shape(new) == before


def test_looking_makes_no_database(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    assert look(database) == Migration(None)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_of_an_older_version_is_not_opened_and_the_command_that_helps_is_named(old: Database) -> None:
    with pytest.raises(Conflict, match=r"version 1 .* needs 3: run `sluice migrate`"):
        Ledger(_url(old))


def test_a_ledger_of_a_newer_version_is_not_touched(old: Database) -> None:
    _execute(old, "UPDATE schema_version SET version = 99")
    before = _shape(old)
    with pytest.raises(Conflict, match="version 99"):
        migrate(old, NOW)
    assert _shape(old) == before


def test_work_goes_on_where_it_stood(old: Database) -> None:
    migrate(old, NOW)
    with Ledger(_url(old), clock=NOW.timestamp) as ledger:
        taken = [_take(ledger) for _ in range(3)]
        assert [claim.event.id for claim in taken] == ["evt_ask", "evt_a1", "evt_b1"]  # interactive first, then by lane
        assert _take(ledger).event.id == "evt_a2"
        ledger.settle(taken[0], Done())
        assert ledger.run("run_a").spend.milliseconds == 12.346
        assert ledger.budget_left("run_a").run.bytes is None
        assert ledger.budget_left("run_a").run.pages == 10 - 3


def test_a_dead_letter_learns_what_its_event_and_its_run_know(old: Database) -> None:
    migrate(old, NOW)
    told = _rows(old, "SELECT corpus, cause_id, schema_version, idempotency_key, code_version FROM dead_letters")
    assert told == [("docs", "evt_cause", 1, "key-1", "")]


def test_what_a_run_reserved_stays_reserved_and_counts_in_all_units(old: Database) -> None:
    migrate(old, NOW)
    rows = _rows(old, "SELECT reserved_pages, reserved_bytes, run_tokens FROM runs WHERE run_id = 'run_a'")
    assert rows == [(1, 0, NO_CEILING)]
    assert _rows(old, "SELECT reserved_pages, spent_microseconds FROM days") == [(1, 0)]


def test_the_next_event_of_a_lane_stands_behind_those_that_were_there(old: Database) -> None:
    migrate(old, NOW)
    lines = _rows(old, "SELECT lane, max(turn) FROM events WHERE queue = 'crawl' GROUP BY lane ORDER BY lane")
    assert lines == [("corpus:docs", 2), ("key:somebody", 0)]


def test_the_copy_is_the_ledger_as_it_was(old: Database) -> None:
    before = _contents(old)
    done = migrate(old, NOW)
    assert done == replace(Migration(1), copy=done.copy)
    assert done.copy is not None
    if old.url.get_backend_name() == "sqlite":
        assert done.copy.endswith("ledger.sqlite.before-3-20310506T120000Z")
        copy = Database(f"sqlite:///{done.copy}")
        assert _contents(copy) == before
        copy.close()
    else:
        assert done.copy == "sluice_before_3_20310506t120000z"
        assert _contents(old, done.copy) == before


def test_without_room_for_a_copy_nothing_is_changed(tmp_path: Path) -> None:
    database = old_ledger_in(tmp_path)
    with pytest.raises(Unavailable, match=r"needs .* MB: make room"):
        migrate(database, NOW, free_bytes=lambda _: 10_000)
    assert look(database).is_due
    assert not list(tmp_path.glob("*before*"))


def test_a_copy_that_cannot_be_finished_is_removed_and_nothing_is_changed(tmp_path: Path) -> None:
    database = old_ledger_in(tmp_path)
    (tmp_path / "ledger.sqlite.before-3-20310506T120000Z").mkdir()  # it cannot take its name
    with pytest.raises(OSError, match="directory"):
        migrate(database, NOW)
    assert look(database).is_due
    assert not list(tmp_path.glob("*.partial"))


def test_nobody_writes_between_the_copy_and_the_change(tmp_path: Path) -> None:
    database, written = old_ledger_in(tmp_path), threading.Event()

    def write(*_: object) -> int:
        with sqlite3.connect(tmp_path / "ledger.sqlite", timeout=0.2) as other, pytest.raises(sqlite3.OperationalError):
            other.execute("UPDATE runs SET corpus = 'other'")
        written.set()
        return 2**40

    migrate(database, NOW, free_bytes=write)
    assert written.is_set()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_any_statement_it_leaves_the_old_schema_or_the_new_and_can_be_run_again(make: Make) -> None:
    new = make()
    with new.installing() as connection:
        install(connection)
    shapes, ended, statement = {SCHEMA_VERSION: _shape(new)}, False, 0
    while not ended:
        database = make()
        with database.installing() as connection:
            install_version_1(connection)
            fill(connection)
        shapes[1], kept = _shape(database), _rows(database, "SELECT id, payload FROM events ORDER BY id")
        url = _url(database)
        database.close()
        ended = _migrates_until(url, statement)
        found = look(database).found
        assert found in (1, SCHEMA_VERSION)
        assert ended == (found == SCHEMA_VERSION)
        assert _shape(database) == shapes[found]
        migrate(database, NOW)
        assert _shape(database) == shapes[SCHEMA_VERSION]
        assert _rows(database, "SELECT id, payload FROM events ORDER BY id") == kept
        _drop_copies(database)
        statement += 3
    assert statement > 60


def test_of_two_that_migrate_at_once_one_does(old: Database) -> None:
    done: list[Migration] = []
    url = _url(old)
    threads = [threading.Thread(target=lambda: done.append(migrate(Database(url), NOW))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.found for one in done if one.found) == [1, SCHEMA_VERSION, SCHEMA_VERSION]


def test_a_new_ledger_is_opened_without_alembic(tmp_path: Path) -> None:
    program = (
        "import sys; from ledger.ledger import Ledger; from workers.supervisor import supervisor;"
        f"Ledger('sqlite:///{tmp_path / 'ledger.sqlite'}').close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, timeout=60).returncode == 0


# -- the words above


def _take(ledger: Ledger) -> Claim:
    stages = ("gate", "query", "crawl")
    claims = (ledger.claim_next(stage, "w", 60.0) for stage in stages)  # type: ignore[arg-type]
    return next(claim for claim in claims if isinstance(claim, Claim))


def _migrates_until(url: str, statement: int) -> bool:
    """Migrate in a process that is killed before that statement; whether it came to its end before."""
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        database, left = Database(url), [statement]

        def count(*_: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(database.engine, "before_cursor_execute", count)
        migrate(database, NOW)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _drop_copies(database: Database) -> None:
    if database.url.get_backend_name() == "postgresql":
        schemas = _rows(database, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sluice_before%'")
        for (schema,) in schemas:
            _execute(database, f"DROP SCHEMA {schema} CASCADE")


def _url(database: Database) -> str:
    return database.url.render_as_string(hide_password=False)


def _execute(database: Database, statement: str) -> None:
    with database.installing() as connection:
        connection.execute(text(statement))


def _rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database.installing() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def _contents(database: Database, schema: str | None = None) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    with database.installing() as connection:
        tables = inspect(connection).get_table_names(schema=schema)
        prefix = f"{schema}." if schema else ""
        return {
            table: sorted(str(dict(row._mapping)) for row in connection.execute(text(f"SELECT * FROM {prefix}{table}")))
            for table in tables
        }


def _shape(database: Database) -> dict[str, Any]:
    """Tables, columns, keys, and indices with their conditions. On SQLite the order of columns too: it costs time there."""
    with database.installing() as connection:
        found = inspect(connection)
        tables = {table: _table_shape(found, table) for table in found.get_table_names()}
        order: dict[str, list[str]] = {}
        if connection.dialect.name == "sqlite":
            order = {table: list(shape["columns"]) for table, shape in tables.items()}
            indices = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        else:
            indices = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
        rows = connection.execute(text(indices)).all()
        return {"tables": tables, "order": order, "indices": {name: _plain(sql) for name, sql in rows}}


def _table_shape(found: Any, table: str) -> dict[str, Any]:
    columns = found.get_columns(table)
    return {
        "columns": {
            column["name"]: (str(column["type"]), column["nullable"], _plain(column["default"])) for column in columns
        },
        "primary_key": found.get_pk_constraint(table)["constrained_columns"],
        "unique": sorted(constraint["column_names"] for constraint in found.get_unique_constraints(table)),
    }


def _plain(definition: str | None) -> str | None:
    """An index or a default without the name of its schema."""
    return definition and re.sub(r"\bt_[0-9a-f]{12}\.", "", definition)
