"""A ledger on PostgreSQL is dumped in one snapshot and restored whole, by tools that are not older than the server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from sluice.contracts.errors import Conflict, InvalidSetting
from sluice.index.settings import ObjectStoreSettings
from sluice.ledger import backup as ledger_backup
from sluice.workers.backup.archive import Keys, Seal
from sluice.workers.backup.restore import restore, verify
from sluice.workers.backup.take import take
from sluice.workers.backup.target import Target
from tests.support.backup_story import fill, opened, state
from tests.support.in_process import Instance, MakeInstance
from tests.support.postgresql import empty_schema, new_database

pytestmark = pytest.mark.postgres
STORE = ObjectStoreSettings()


@pytest.fixture
def full(make_instance: MakeInstance, postgresql_cluster: str) -> Instance:
    instance = make_instance(ledger_url=new_database(postgresql_cluster))
    fill(instance)
    return instance


def test_a_ledger_on_postgresql_comes_back_as_it_was(full: Instance, postgresql_cluster: str, tmp_path: Path) -> None:
    before, target = state(full.context), Target(str(tmp_path / "one.backup"), STORE)
    taken = take(full.context, target, Seal())
    assert taken.manifest.postgresql_schema == "public"
    with pytest.raises(Conflict, match="has a ledger already"):
        restore(full.context.settings, target, Keys(), "me", into=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    url = new_database(postgresql_cluster)
    settings = full.context.settings.model_copy(update={"ledger_url": url})
    done = restore(settings, target, Keys(), "me", into=tmp_path / "new")
    assert [one for one in done.compared if not one.is_equal] == []
    with closing(opened(tmp_path / "new", ledger_url=url)) as context:
        assert state(context) == before
    other = full.context.settings.model_copy(update={"ledger_url": empty_schema(postgresql_cluster)})
    with pytest.raises(Conflict, match="schema 'public'"):
        restore(other, target, Keys(), "me", into=tmp_path / "other")


def test_a_backup_of_postgresql_is_verified_in_a_database_that_goes_again(
    full: Instance, postgresql_cluster: str, tmp_path: Path
) -> None:
    target = Target(str(tmp_path / "one.backup"), STORE)
    take(full.context, target, Seal())
    assert verify(full.context.settings, target, Keys()).is_equal
    with psycopg.connect(postgresql_cluster) as connection:
        found = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'sluice_verify%'").fetchall()
    assert found == []


def test_tools_that_are_older_than_the_server_are_refused_by_name(
    full: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = ledger_backup._tool  # noqa: SLF001
    monkeypatch.setattr(ledger_backup, "_tool", lambda name, server: find(name, server + 90))
    with pytest.raises(InvalidSetting, match="postgresql-client-1"):
        take(full.context, Target(str(tmp_path / "one.backup"), STORE), Seal())
    assert not list(tmp_path.glob("one.backup*"))


def test_a_restoration_that_was_killed_leaves_a_database_that_the_next_one_replaces(
    full: Instance, postgresql_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, url = Target(str(tmp_path / "one.backup"), STORE), new_database(postgresql_cluster)
    take(full.context, target, Seal())
    settings = full.context.settings.model_copy(update={"ledger_url": url})
    with monkeypatch.context() as killed:
        killed.setattr("sluice.workers.backup.restore.carry_out", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(settings, target, Keys(), "me", into=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert restore(settings, target, Keys(), "me", into=tmp_path / "new").is_equal
    with pytest.raises(Conflict, match="has a ledger already"):
        restore(settings, target, Keys(), "me", into=tmp_path / "third")


def _interrupted(*_: object) -> int:
    raise KeyboardInterrupt
