"""What stands for one decision: by which profile it is made, and whether it is of the trickle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.event import new_run_id
from sluice.contracts.learning.control import Defence, DefenceName, Step
from sluice.evaluation.defence import DefenceState, trip
from sluice.gate.profile import Profile, load_profiles
from sluice.gate.settings import DefenceSettings
from sluice.ledger.learning.controls import WHOLE_INSTANCE, DefenceRow
from sluice.ledger.ledger import Ledger
from sluice.ledger.runs import NewRun
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.wiring.steering import LOOK_SECONDS, StandingDefences, draw_of_trickle
from tests.support.ledger_story import NOON, Clock


@pytest.fixture
def now() -> Profile:
    return load_profiles()["default"]


@pytest.fixture
def before(now: Profile) -> Profile:
    return now.model_copy(update={"version": now.version + 50})


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", clock=lambda: NOON) as opened:
        yield opened


def steps_back(
    ledger: Ledger,
    name: DefenceName,
    step: Step,
    configuration: str | None = None,
    falls_back_to: str | None = None,
    profile: str = "default",
) -> Defence:
    since = datetime.fromtimestamp(NOON, UTC)
    defence = Defence(name=name, step=step, profile=profile, since=since, why="worse", lifted_by="an operator")
    state = trip(DefenceState(configuration=configuration), defence, falls_back_to)
    seen, _ = ledger.defences.rows()
    ledger.defences.write(seen, seen, [DefenceRow(name, profile, state.model_dump_json(), NOON)])
    return defence


def a_run(ledger: Ledger, run_id: str | None = None, corpus: str = "docs", owner: str = "local") -> str:
    run = NewRun(run_id or new_run_id(), "gate", corpus, "0" * 64, owner)
    return ledger.create_run(run, []).run_id


def of_trickle(ledger: Ledger, is_in: bool, share: float = 0.05) -> str:
    return a_run(ledger, next(run_id for run_id in iter(new_run_id, "") if (draw_of_trickle(run_id) < share) is is_in))


def test_where_nothing_stands_the_profile_decides_alone(ledger: Ledger, blobs: BlobStore, now: Profile) -> None:
    found = StandingDefences(ledger, blobs, DefenceSettings()).of(a_run(ledger), now)
    assert (found.profile, found.defences, found.is_trickle, found.fallback_from) == (now, (), False, None)


def test_the_configuration_before_decides_but_for_the_trickle(
    ledger: Ledger, blobs: BlobStore, now: Profile, before: Profile
) -> None:
    blobs.put(before.canonical_bytes())
    defence = steps_back(ledger, "satisfaction", "previous_configuration", now.config_hash, before.config_hash)
    standing = StandingDefences(ledger, blobs, DefenceSettings(trickle_runs_per_day=1))
    found = standing.of(of_trickle(ledger, False), now)
    assert (found.profile, found.defences, found.fallback_from) == (before, (defence,), now.config_hash)
    found = standing.of(of_trickle(ledger, True), now)
    assert (found.profile, found.is_trickle, found.fallback_from) == (now, True, None)
    found = standing.of(of_trickle(ledger, True), now)
    assert (found.profile, found.is_trickle) == (before, False), "the trickle of the day is used up"


def test_behind_a_promoted_model_stands_the_same_profile_without_it(
    ledger: Ledger, blobs: BlobStore, now: Profile
) -> None:
    blobs.put(now.canonical_bytes())
    steps_back(ledger, "satisfaction", "previous_configuration", f"{now.config_hash}+7", now.config_hash)
    found = StandingDefences(ledger, blobs, DefenceSettings()).of(of_trickle(ledger, False), now)
    assert (found.profile, found.fallback_from) == (now, f"{now.config_hash}+7"), "so no model is asked"


def test_where_the_profile_before_is_lost_the_gate_stays_with_the_corpus(
    ledger: Ledger, blobs: BlobStore, now: Profile, before: Profile
) -> None:
    steps_back(ledger, "freshness", "previous_configuration", now.config_hash, before.config_hash)
    found = StandingDefences(ledger, blobs, DefenceSettings()).of(of_trickle(ledger, False), now)
    assert (found.profile, found.fallback_from) == (now, None)
    assert [(defence.name, defence.step) for defence in found.defences] == [("freshness", "retrieve_only")]


def test_a_new_configuration_and_another_profile_begin_without_it(
    ledger: Ledger, blobs: BlobStore, now: Profile, before: Profile
) -> None:
    steps_back(ledger, "latency", "lower_plan", now.config_hash)
    standing = StandingDefences(ledger, blobs, DefenceSettings())
    assert standing.of(of_trickle(ledger, False), now).defences
    assert standing.of(of_trickle(ledger, False), before).defences == ()
    assert standing.of(of_trickle(ledger, False), load_profiles()["code"]).defences == ()


def test_cost_concerns_every_profile_and_has_no_trickle(ledger: Ledger, blobs: BlobStore, now: Profile) -> None:
    steps_back(ledger, "cost", "retrieve_only", profile=WHOLE_INSTANCE)
    found = StandingDefences(ledger, blobs, DefenceSettings()).of(of_trickle(ledger, True), now)
    assert ([defence.name for defence in found.defences], found.is_trickle) == (["cost"], False)


def test_it_is_read_again_after_a_second_and_not_at_all_where_it_is_off(
    ledger: Ledger, blobs: BlobStore, now: Profile
) -> None:
    clock = Clock()
    standing = StandingDefences(ledger, blobs, DefenceSettings(), clock)
    assert standing.of(a_run(ledger), now).defences == ()
    steps_back(ledger, "cost", "retrieve_only", profile=WHOLE_INSTANCE)
    assert standing.of(a_run(ledger), now).defences == ()
    clock.passes(LOOK_SECONDS)
    assert standing.of(a_run(ledger), now).defences
    assert StandingDefences(ledger, blobs, DefenceSettings(enabled=False)).of(a_run(ledger), now).defences == ()


def test_the_draw_takes_its_share_of_the_runs() -> None:
    drawn = sum(draw_of_trickle(f"run_{number}") < 0.05 for number in range(20_000))
    assert drawn == pytest.approx(1_000, abs=100)
