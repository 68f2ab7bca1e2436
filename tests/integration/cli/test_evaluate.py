"""`sluice eval runs` shows how the runs did, and makes what is known of them again from their events."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.event import Done
from sluice.contracts.plan import Plan
from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import Clock, Story
from tests.support.outcome_story import answers, asks_and_decides, cites, says
from tests.support.served import served
from tests.support.valkey import Valkey

Sluice = Callable[..., Result]


@pytest.fixture
def sluice(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sluice]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    with served(valkey.settings):
        yield lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="sluice")


@pytest.fixture
def judged(valkey: Valkey) -> str:
    """A ledger of 3 runs by plan retrieve, of which one pleased and one did not, and one by plan search."""
    url = valkey.settings.ledger_location
    clock = Clock(time.time() - 3_600)
    with Ledger(url, clock=clock) as ledger:
        story = Story(ledger, clock, url)
        for plan, outcome in (
            (Plan.RETRIEVE, "success"),
            (Plan.RETRIEVE, "failure"),
            (Plan.RETRIEVE, None),
            (Plan.SEARCH, None),
        ):
            decision = asks_and_decides(story, plan)
            clock.passes(0.5)
            answers(story, decision[-1], cites({"https://example.org/a": 60.0}))
            if outcome:
                story.handles(says(story, decision[0].run_id, outcome=outcome), Done())
    return url


def test_each_plan_has_its_figures_with_their_intervals(sluice: Sluice, judged: str) -> None:
    told = json.loads(sluice("eval", "runs", "--json").stdout)
    (retrieve, search) = told["rows"]
    assert (retrieve["plan"], retrieve["summary"]["runs"], retrieve["summary"]["judged"]) == ("retrieve", 3, 2)
    assert retrieve["summary"]["satisfaction"]["estimate"] == 0.5
    assert retrieve["summary"]["satisfaction"]["low"] < 0.1
    assert (search["plan"], search["summary"]["satisfaction"]) == ("search", None)
    assert told["total"]["runs"] == 4


def test_the_table_has_a_row_for_each_plan_and_one_for_all(sluice: Sluice, judged: str) -> None:
    shown = sluice("eval", "runs", "--since", "1d")
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["default", "retrieve", "3", "2", "(67%)"] in [line[:5] for line in lines]
    assert "all" in [line[0] for line in lines if line]


def test_runs_before_the_time_that_was_asked_for_do_not_count(sluice: Sluice, judged: str) -> None:
    assert json.loads(sluice("eval", "runs", "--since", "10m", "--json").stdout)["rows"] == []


def test_what_is_known_of_each_run_can_be_made_again(sluice: Sluice, judged: str) -> None:
    before = json.loads(sluice("eval", "runs", "--by", "profile", "--json").stdout)["rows"]
    with Ledger(judged) as ledger, ledger.database.writing() as connection:
        connection.execute(text("DELETE FROM outcomes"))
    assert json.loads(sluice("eval", "runs", "--json").stdout)["rows"] == []
    rebuilt = sluice("eval", "runs", "--rebuild", "--by", "profile", "--json")
    assert json.loads(rebuilt.stdout)["rows"] == before
