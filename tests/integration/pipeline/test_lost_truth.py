"""Files that are gone, damaged or copied without their links are noticed, by name, and nothing is built over them."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from sluice.contracts.errors import Corrupted
from sluice.ledger.ledger import Ledger
from sluice.workers.service.instance import check_health
from tests.support.in_process import Instance, MakeInstance
from tests.support.valkey import Valkey

TEXT = "A lease is renewed by its holder every five seconds."
INGEST = ("chunk", "embed", "index")


@pytest.fixture
def instance(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    instance = make_instance()
    instance.adds(TEXT)
    instance.works(*INGEST)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(instance.context.settings.data_dir))
    return instance


def again(instance: Instance, make_instance: MakeInstance) -> Instance:
    """The instance after a restart."""
    instance.close()
    return make_instance()


def sluice(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_a_corpus_whose_journal_is_gone_is_refused_until_it_is_let_go(
    instance: Instance, make_instance: MakeInstance
) -> None:
    index = instance.context.settings.index_root
    shutil.rmtree(index / "default")
    instance = again(instance, make_instance)
    lost = r"corpus 'default' ends at record 0, and runs have written 1: restore .* or give up .* --let-go"

    with pytest.raises(Corrupted, match=lost):
        instance.adds("Another text.")
    with pytest.raises(Corrupted, match=lost):
        instance.context.readers.existing("default")
    health = check_health(instance.context).checks["snapshot"]
    assert not health.ok
    assert "corpus 'default' ends at record 0" in health.detail
    assert not (index / "default").exists(), "looking builds nothing"

    instance.close()
    assert sluice("rebuild", "--let-go")[0] == 0
    instance = make_instance()
    instance.adds("Another text.")
    instance.works(*INGEST)
    assert instance.context.readers.existing("default").chunk_count == 1
    assert check_health(instance.context).checks["snapshot"].ok


def test_an_older_copy_of_a_journal_is_not_written_over(instance: Instance, make_instance: MakeInstance) -> None:
    folder = instance.context.settings.index_root / "default"
    instance.context.writers.close()
    shutil.copytree(folder, folder.with_name(".copy"), symlinks=True)
    instance.adds(TEXT, "A lease that is not renewed is free after fifteen seconds.")
    instance.works(*INGEST)
    instance.context.writers.close()
    shutil.rmtree(folder)
    folder.with_name(".copy").rename(folder)
    instance = again(instance, make_instance)
    with (
        pytest.raises(Corrupted, match="ends at record 1, and runs have written 2"),
        instance.context.writers.writing("default"),
    ):
        pass


def test_a_journal_that_is_removed_under_its_writer_takes_no_further_record(instance: Instance) -> None:
    shutil.rmtree(instance.context.settings.index_root / "default" / "journal")
    run_id = instance.adds(TEXT, "A second text.")
    instance.works(*INGEST)
    view = instance.context.ledger.run(run_id)
    assert (view.journal_offset, view.open_events) == (None, 1), (
        "the index worker tries again, and a new journal is refused"
    )


def test_a_copy_without_links_publishes_again(instance: Instance, make_instance: MakeInstance) -> None:
    current = instance.context.settings.index_root / "default" / "CURRENT"
    copied = current.with_name("copied")
    shutil.copytree(current, copied)
    current.unlink()
    copied.rename(current)
    instance = again(instance, make_instance)
    instance.adds(TEXT, "A lease that is not renewed is free after fifteen seconds.")
    instance.works(*INGEST)
    assert current.is_symlink()
    assert instance.context.readers.existing("default").chunk_count == 2


def test_a_ledger_that_is_gone_is_not_begun_anew(instance: Instance) -> None:
    ledger = instance.context.settings.data_dir / "ledger.sqlite"
    for file in ledger.parent.glob("ledger.sqlite*"):
        file.unlink()
    assert not check_health(instance.context).checks["ledger"].ok
    code, told = sluice("up")
    assert code == 3
    assert "ledger.sqlite is gone" in told
    assert "restore it from a backup" in told
    assert len(told.splitlines()) == 1
    assert sluice("migrate")[0] == 0
    assert ledger.exists()


def test_a_damaged_ledger_is_named_in_one_line(valkey: Valkey) -> None:
    file = Path(valkey.settings.data_dir) / "ledger.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"this is no database" * 1_000)
    with pytest.raises(Corrupted, match=r"ledger.sqlite is damaged \(.*\): stop Sluice and restore .*quick_check"):
        Ledger(f"sqlite:///{file}")

    file.unlink()
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.let_go("default", "ann")
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(file.read_bytes())
    content[4_096:] = b"\xff" * (len(content) - 4_096)
    file.write_bytes(content)
    with pytest.raises(Corrupted, match="is damaged"), Ledger(f"sqlite:///{file}") as ledger:
        ledger.written_offsets()
