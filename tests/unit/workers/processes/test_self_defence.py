"""What the look at a ledger of runs does: slow crawls, stale text, a day's ceiling, and a process that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from sluice.contracts.api import DefenceView
from sluice.contracts.event import Event, new_run_id
from sluice.contracts.learning.control import DefenceName
from sluice.contracts.learning.events import CONTROL_CORPUS, DefenceHealed, DefenceTripped
from sluice.contracts.plan import Plan
from sluice.evaluation.defence import BASELINE_WINDOWS, FULL, LEAST, TO_SWITCH
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import outcomes
from sluice.workers.context import Context
from sluice.workers.processes.watches.self_defence import SelfDefence
from sluice.workers.service.learning.control import lift_defence, list_defences
from sluice.workers.settings import Settings
from tests.support.ledger_story import NOON, Clock
from tests.support.repository import REPOSITORY

DAY = 86_400.0
NEW, OLD = "a" * 64, "b" * 64


class Watched:
    """An instance of which only the ledger is there, and time passes when a test says so."""

    def __init__(self, data_dir: Path, **sections: object) -> None:
        self.context = Context(Settings.model_validate({"data_dir": data_dir, **sections}))
        self.clock = Clock()
        self.ledger = self.context.__dict__["ledger"] = Ledger(self.context.settings.ledger_location, clock=self.clock)

    def hears_of(self, runs: int, **facts: object) -> None:
        """So many runs of this kind were decided, a second apart."""
        fields = {"corpus": "docs", "profile": "default", "plan": Plan.FULL_LOOP.value, "config_hash": NEW}
        rows = []
        for _ in range(runs):
            self.clock.passes(1.0)
            moments = {"decided_at": self.clock.now, "changed_at": self.clock.now}
            rows.append({"run_id": new_run_id(), **fields, **moments, "signals": "{}", **facts})
        with self.ledger.database.writing() as connection:
            connection.insert_each(insert(outcomes), rows)

    def looks(self) -> None:
        with self.ledger.database.writing() as connection:
            connection.execute(text("UPDATE leases SET until = 0"))
        SelfDefence(self.context, grace_seconds=-1.0).look()

    def view(self, name: DefenceName) -> DefenceView:
        return next(one for one in list_defences(self.ledger) if one.name == name)

    def events(self) -> list[Event]:
        runs = reversed(self.ledger.runs(corpus=CONTROL_CORPUS, limit=50))
        kinds = (DefenceTripped.kind, DefenceHealed.kind)
        return [event for run in runs for kind in kinds for event in self.ledger.events_of_kind(run.run_id, kind)]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_slow_crawls_lower_plans_until_the_trickle_is_quick_again(watched: Watched) -> None:
    watched.hears_of(BASELINE_WINDOWS * FULL, milliseconds=4_000.0)
    watched.hears_of(2 * FULL, milliseconds=9_000.0)
    watched.looks()
    stands = watched.view("latency").stands
    assert stands is not None
    assert stands.step == "lower_plan"
    assert "p95 of 100 runs 9.0 s, threshold 4.8 s" in stands.why
    watched.hears_of(5 * FULL, milliseconds=100.0, is_stepped_back=1)
    watched.looks()
    assert watched.view("latency").stands, "runs that the step back made quick prove nothing"
    watched.hears_of(2 * LEAST, milliseconds=4_100.0, is_trickle=1)
    watched.looks()
    assert watched.view("latency").stands is None


def test_crawls_that_gain_no_freshness_bring_back_the_configuration_before(watched: Watched) -> None:
    ages = {"cited_age_without_crawl_seconds": 90 * DAY}
    watched.hears_of(1, config_hash=OLD)
    watched.hears_of(2 * FULL + TO_SWITCH, cited_age_seconds=90 * DAY, **ages)
    watched.looks()
    view = watched.view("freshness")
    assert view.stands is not None
    assert (view.stands.step, view.configuration, view.falls_back_to) == ("previous_configuration", NEW, OLD)
    watched.hears_of(2 * LEAST, cited_age_seconds=30 * DAY, is_trickle=1, **ages)
    watched.looks()
    assert watched.view("freshness").stands is None


def test_a_days_ceiling_that_is_nearly_used_up_keeps_the_gate_with_the_corpus_until_the_next_day(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path, budget={"day_usd": 2.0})
    today, tomorrow = "2031-05-06", NOON + DAY
    with watched.ledger.database.writing() as connection:
        connection.execute(text("INSERT INTO days (day, spent_nanousd) VALUES (:day, 1800000000)"), {"day": today})
    watched.looks()
    assert watched.view("cost").stands is None, "nine tenths are spent"
    with watched.ledger.database.writing() as connection:
        connection.execute(text("UPDATE days SET spent_nanousd = 1950000000"))
    watched.looks()
    stands = watched.view("cost").stands
    assert stands is not None
    assert (stands.step, stands.profile) == ("retrieve_only", "*")
    assert stands.why == "98% of budget.day_usd is used"
    lift_defence(watched.context, "cost", "ann")
    watched.looks()
    assert watched.view("cost").stands is None, "an operator has lifted it for the day"
    watched.clock.now = tomorrow
    with watched.ledger.database.writing() as connection:
        connection.execute(text("UPDATE days SET day = '2031-05-07'"))
    watched.looks()
    assert watched.view("cost").stands
    watched.clock.passes(DAY)
    watched.looks()
    assert watched.view("cost").stands is None
    kinds = [type(event.body).__name__ for event in watched.events()]
    assert kinds == ["DefenceTripped", "DefenceHealed", "DefenceTripped", "DefenceHealed"]


def test_a_run_is_looked_at_once_the_time_for_feedback_is_over_and_only_once(watched: Watched) -> None:
    bad = '{"task_satisfaction": 0.0}'
    watched.hears_of(FULL, signals=bad)
    late = SelfDefence(watched.context, grace_seconds=3_600.0)
    late.look()
    assert list(filter(None, (one.windows for one in list_defences(watched.ledger)))) == []
    for _ in range(3):
        watched.looks()
    assert len(watched.view("satisfaction").windows) == 1


@pytest.mark.parametrize("point", ["change", "commit", "told"])
def test_a_process_killed_at_any_point_of_its_look_leaves_all_of_it_or_nothing(tmp_path: Path, point: str) -> None:
    watched = Watched(tmp_path)
    watched.clock.now = time.time() - 1_000
    watched.hears_of(2 * FULL, signals='{"task_satisfaction": 0.0}')
    killed = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_defence", str(tmp_path), point],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    written = list_defences(watched.ledger)
    if point == "told":
        assert [event.body.kind for event in watched.events()] == ["DefenceTripped"]
    else:
        assert (written, watched.events()) == ([], [])
    for _ in range(2):
        watched.looks()
        [event] = watched.events()
        assert isinstance(event.body, DefenceTripped)
        assert watched.view("satisfaction").stands == event.body.defence
