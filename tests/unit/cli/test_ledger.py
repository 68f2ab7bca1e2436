"""`sluice upgrade` and `sluice prune` on a real ledger."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.ledger.ledger import Claim, Ledger, NewRun
from tests.support.ledger_story import page
from tests.support.old_ledger import LATER_VERSION, old_ledger_in

Sluice = Callable[..., Result]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def sluice(data_dir: Path) -> Sluice:
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="sluice")


def finished_run(data_dir: Path) -> str:
    run_id = new_run_id()
    event = Event.of(page(), run_id=run_id, corpus="docs")
    with Ledger(f"sqlite:///{data_dir / 'ledger.sqlite'}") as ledger:
        ledger.create_run(NewRun(run_id, "crawl", "docs", "0" * 64), [(event, Next(page()))])
        claim = ledger.claim_next("crawl", "me", 60.0)
        assert isinstance(claim, Claim)
        ledger.settle(claim, Done())
    return run_id


@pytest.mark.usefixtures("later_version")
def test_upgrade_says_what_it_would_do_then_does_it_and_says_where_the_copy_is(data_dir: Path, sluice: Sluice) -> None:
    old_ledger_in(data_dir).close()
    told = sluice("migrate", "--dry-run")  # its former name
    assert re.search(rf"ledger +schema 3 +schema {LATER_VERSION} +is migrated after a copy", told.stdout)
    assert not list(data_dir.glob("*before*"))
    done = json.loads(sluice("upgrade", "--json").stdout)
    assert (done["found"], done["wanted"], done["dry_run"]) == (3, LATER_VERSION, False)
    assert Path(done["copy"]).is_file()
    assert "as it should" in sluice("upgrade").stdout


@pytest.mark.usefixtures("later_version")
def test_a_command_on_an_older_ledger_names_the_one_that_helps(data_dir: Path, sluice: Sluice) -> None:
    old_ledger_in(data_dir).close()
    result = sluice("keys", "list")
    assert result.exit_code == 5
    assert "sluice upgrade" in result.stderr


@pytest.mark.usefixtures("later_version")
def test_upgrade_keeps_its_hands_off_while_the_instance_runs(data_dir: Path, sluice: Sluice) -> None:
    old_ledger_in(data_dir).close()
    with FileLock(data_dir / "up.lock"):
        result = sluice("upgrade")
    assert result.exit_code == 5
    assert "stop it first" in result.stderr


def test_a_ledger_that_is_not_there_yet_is_begun_and_needs_no_migration(data_dir: Path, sluice: Sluice) -> None:
    assert "is made" in sluice("upgrade", "--check").stdout
    assert not (data_dir / "ledger.sqlite").exists()
    assert "the ledger is new" in sluice("upgrade").stdout
    assert (data_dir / "ledger.sqlite").exists()


def runs_in(data_dir: Path) -> set[str]:
    with Ledger(f"sqlite:///{data_dir / 'ledger.sqlite'}") as ledger:
        return {run.run_id for run in ledger.runs()}


def test_prune_counts_or_removes_what_is_old(data_dir: Path, sluice: Sluice) -> None:
    run_id = finished_run(data_dir)
    assert json.loads(sluice("prune", "--before", "1d", "--json").stdout)["runs"] == 0
    counted = json.loads(sluice("prune", "--before", "0m", "--dry-run", "--json").stdout)
    assert (counted["runs"], counted["events"], counted["dry_run"]) == (1, 2, True)
    assert run_id in runs_in(data_dir)
    assert "is gone" in sluice("prune", "--before", "0m").stdout
    assert run_id not in runs_in(data_dir)


def test_an_age_that_is_none_is_refused(sluice: Sluice) -> None:
    result = sluice("prune", "--before", "yesterday")
    assert result.exit_code == 2
    assert "30d" in result.stderr
