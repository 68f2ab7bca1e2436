"""A ledger of an older version becomes one of this version, keeps its rows, and is copied before it is touched."""

from __future__ import annotations

import json
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

from sluice.contracts.errors import Conflict, Unavailable
from sluice.contracts.event import Done
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.database import Database
from sluice.ledger.ledger import Claim, Ledger
from sluice.ledger.runs import NewRun
from sluice.ledger.schema import run_words
from sluice.ledger.schema.migrate import INITIAL_VERSION, STEPS, Migration, install, look, migrate, schema_version
from sluice.ledger.schema.tables import metadata
from tests.support.old_ledger import LATER_VERSION, NOW, fill, install_initial_version, old_ledger_in
from tests.support.postgresql import empty_schema
from tests.support.repository import REPOSITORY

INDICES = ("runs_of_status", "runs_of_owner", "runs_of_corpus", "runs_of_kind", "runs_retrying", "dead_letters_reasons")
INDICES += ("operator_actions_of_operator", "operator_actions_of_action")
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
def old(make: Make, later_version: int) -> Database:
    """A ledger of the version before, with work in it."""
    database = make()
    fill(database)
    return database


def test_the_first_kept_version_after_all_steps_has_the_tables_of_a_new_ledger(make: Make) -> None:
    golden, new = make(), make()
    with golden.installing() as connection:
        install_initial_version(connection)
    assert migrate(golden, NOW).is_due
    with new.installing() as connection:
        install(connection)
    assert _shape(new) == _shape(golden)
    assert look(new) == look(golden) == Migration(schema_version())


def test_the_steps_are_without_a_gap() -> None:
    assert sorted(STEPS) == list(range(INITIAL_VERSION + 1, schema_version() + 1))


def test_nothing_differs_from_what_the_schema_declares(make: Make) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    database = make()
    fill(database)
    migrate(database, NOW)
    with database.installing() as connection:
        apart = {"include_name": lambda name, *_: not str(name).startswith(run_words.NAME)}
        assert compare_metadata(MigrationContext.configure(connection, opts=apart), metadata) == []


def test_a_step_is_carried_out_and_every_row_is_kept(old: Database) -> None:
    kept = _rows(old, "SELECT id, payload FROM events ORDER BY id")
    assert migrate(old, NOW).is_due
    assert _rows(old, "SELECT colour, runs FROM colours") == [("blue", 2)]
    assert _rows(old, "SELECT id, payload FROM events ORDER BY id") == kept
    assert look(old) == Migration(LATER_VERSION)


def test_a_new_ledger_and_one_of_this_version_are_left_alone(make: Make) -> None:
    new = make()
    assert not migrate(new, NOW).is_due
    with new.installing() as connection:
        install(connection)
    before = _shape(new)
    assert migrate(new, NOW) == Migration(schema_version())
    assert _shape(new) == before


def test_an_empty_database_becomes_a_new_ledger(make: Make) -> None:
    database = make()
    assert migrate(database, NOW) == Migration(None)
    assert look(database).found == schema_version()


def test_a_ledger_with_steps_back_of_all_owners_gets_scopes_and_those_begin_anew(make: Make) -> None:
    """Version 7 had neither owners nor scopes; the position in the runs and the day's lift of cost stay."""
    database, new = make(), make()
    for one in (database, new):
        with one.installing() as connection:
            install(connection)
    with Ledger(_url(database)) as ledger:
        ledger.create_run(NewRun("run_9", "gate", "docs", "0" * 64, "key_a"), [])
    is_table = database.on_sqlite
    for statement in (
        f"DROP {'TABLE' if is_table else 'INDEX'} {run_words.NAME}",
        "DROP TABLE corpora",
        "DROP TABLE webhooks",
        "DROP TABLE webhook_deliveries",
        "DROP TABLE schedules",
        "DROP TABLE passage_marks",
        "DROP TABLE published",
        *(f"ALTER TABLE leases DROP COLUMN {column}" for column in ("epoch", "since", "note")),
        *(f"DROP TABLE {table}" for table in ("attempts", "stage_minutes", "pool_sizes", "console_sessions")),
        "DROP TABLE worker_beats",
        "DROP INDEX events_held",
        *(f"DROP INDEX {index}" for index in INDICES),
        "ALTER TABLE runs DROP COLUMN retrying",
        *(
            f"ALTER TABLE events DROP COLUMN {column}"
            for column in ("ready_at", "claimed_at", "claimed_by", "behind", "waited_ms")
        ),
        "DROP INDEX outcomes_judged",
        "ALTER TABLE outcomes DROP COLUMN confidence",
        "ALTER TABLE pages DROP COLUMN owner",
        "ALTER TABLE outcomes DROP COLUMN owner",
        "ALTER TABLE outcomes DROP COLUMN judged_by",
        "DROP TABLE defences",
        "CREATE TABLE defences (name TEXT, profile TEXT, state TEXT NOT NULL, tripped_at FLOAT,"
        " changed_at FLOAT NOT NULL, PRIMARY KEY (name, profile))",
        """INSERT INTO defences VALUES ('satisfaction', 'default', '{"configuration": "abc", "bad": 1}', 9.0, 9.0)""",
        """INSERT INTO defences VALUES ('cost', '*', '{"lifted_day": "2031-05-06"}', NULL, 9.0)""",
        "INSERT INTO defences VALUES ('position', '*', '[9.0, \"run_9\", 4]', NULL, 9.0)",
        "INSERT INTO outcomes (run_id, corpus, profile, plan, config_hash, decided_at, changed_at)"
        " VALUES ('run_9', 'docs', 'default', 'search', '', 9.0, 9.0)",
        "UPDATE schema_version SET version = 7",
    ):
        _execute(database, statement)
    assert migrate(database, NOW).is_due
    assert _shape(database) == _shape(new)
    assert _rows(database, "SELECT owner, judged_by FROM outcomes") == [("key_a", None)]
    with Ledger(_url(database), clock=NOW.timestamp) as ledger:
        position, rows = ledger.defences.rows()
    assert (position.run_id, position.writes) == ("run_9", 4)
    cost, satisfaction = sorted(rows, key=lambda row: row.name)
    assert (cost.corpus, cost.owner, json.loads(cost.state)) == ("*", "*", {"lifted_day": "2031-05-06"})
    assert satisfaction.tripped_at == 9.0
    assert json.loads(satisfaction.state)["configuration"] is None, "so the next run of the profile begins anew"


def test_looking_makes_no_database(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    assert look(database) == Migration(None)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_of_an_older_version_is_not_opened_and_the_command_that_helps_is_named(old: Database) -> None:
    with pytest.raises(Conflict, match=rf"version 3 .* needs {LATER_VERSION}: run `sluice upgrade`"):
        Ledger(_url(old))


@pytest.mark.parametrize("version", [99, 2])
def test_a_ledger_of_a_newer_version_or_of_one_never_released_is_not_touched(old: Database, version: int) -> None:
    _execute(old, f"UPDATE schema_version SET version = {version}")
    before = _shape(old)
    for open_it in (lambda: migrate(old, NOW), lambda: look(old), lambda: Ledger(_url(old))):
        with pytest.raises(Conflict, match=f"version {version}"):
            open_it()
    assert _shape(old) == before


def test_work_goes_on_where_it_stood(old: Database) -> None:
    migrate(old, NOW)
    with Ledger(_url(old), clock=NOW.timestamp) as ledger:
        taken = [_take(ledger) for _ in range(2)]
        assert {claim.event.body_as(CrawlDirected).url[-2:] for claim in taken} == {"/1", "/3"}
        ledger.settle(taken[0], Done())
        [letter] = ledger.dead_letters.list()
        ledger.dead_letters.replay(letter.id, "operator")
        assert _take(ledger).event.id == letter.event_id


def test_the_copy_is_the_ledger_as_it_was(old: Database) -> None:
    before = _contents(old)
    done = migrate(old, NOW)
    assert done == replace(Migration(INITIAL_VERSION), copy=done.copy)
    assert done.copy is not None
    if old.url.get_backend_name() == "sqlite":
        assert done.copy.endswith(f"ledger.sqlite.before-{LATER_VERSION}-20310506T120000Z")
        copy = Database(f"sqlite:///{done.copy}")
        assert _contents(copy) == before
        copy.close()
    else:
        assert done.copy == f"sluice_before_{LATER_VERSION}_20310506t120000z"
        assert _contents(old, done.copy) == before


@pytest.mark.usefixtures("later_version")
def test_without_room_for_a_copy_nothing_is_changed(tmp_path: Path) -> None:
    database = old_ledger_in(tmp_path)
    with pytest.raises(Unavailable, match=r"needs .* MB: make room"):
        migrate(database, NOW, free_bytes=lambda _: 10_000)
    assert look(database).is_due
    assert not list(tmp_path.glob("*before*"))


@pytest.mark.usefixtures("later_version")
def test_a_copy_that_cannot_be_finished_is_removed_and_nothing_is_changed(tmp_path: Path) -> None:
    database = old_ledger_in(tmp_path)
    (tmp_path / f"ledger.sqlite.before-{LATER_VERSION}-20310506T120000Z").mkdir()  # it cannot take its name
    with pytest.raises(OSError, match="directory"):
        migrate(database, NOW)
    assert look(database).is_due
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.usefixtures("later_version")
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
def test_killed_at_any_statement_it_leaves_the_old_schema_or_the_new_and_can_be_run_again(
    make: Make, later_version: int
) -> None:
    new = make()
    fill(new)
    shapes = {INITIAL_VERSION: _shape(new)}
    migrate(new, NOW)
    shapes[later_version] = _shape(new)
    _drop_copies(new)
    ended, statement = False, 0
    while not ended:
        database = make()
        fill(database)
        kept = _rows(database, "SELECT id, payload FROM events ORDER BY id")
        url = _url(database)
        database.close()
        ended = _migrates_until(url, statement)
        found = look(database).found
        assert found is not None
        assert ended == (found == later_version)
        assert _shape(database) == shapes[found]
        migrate(database, NOW)
        assert _shape(database) == shapes[later_version]
        assert _rows(database, "SELECT id, payload FROM events ORDER BY id") == kept
        _drop_copies(database)
        database.close()
        statement += 1
    assert statement > 5


def test_of_two_that_migrate_at_once_one_does(old: Database) -> None:
    done: list[Migration] = []
    url = _url(old)
    threads = [threading.Thread(target=lambda: done.append(migrate(Database(url), NOW))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.found for one in done if one.found) == [INITIAL_VERSION, *[LATER_VERSION] * 2]


def test_a_new_ledger_is_opened_without_alembic(tmp_path: Path) -> None:
    program = (
        "import sys; from sluice.ledger.ledger import Ledger; from sluice.workers.supervisor import supervisor;"
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
        options: dict[str, Any] = {}
        if connection.dialect.name == "postgresql":
            ask = "SELECT relname, reloptions FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
            options = {name: sorted(given) for name, given in connection.execute(text(ask)) if given}
        named = {name: _plain(sql) for name, sql in rows}
        return {"tables": tables, "order": order, "indices": named, "options": options}


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
