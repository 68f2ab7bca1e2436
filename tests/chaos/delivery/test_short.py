"""The short form: one instance, a taste of every harm, and nothing lost, nothing doubled.

The whole is `make chaos`; its last table stands in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.otel.spans import SpanStore
from tests.chaos.delivery import moving
from tests.chaos.delivery.broker_faults import Fault, suffer
from tests.chaos.delivery.erasing import every_death, story
from tests.chaos.delivery.failpoints import FAILPOINTS, Cell
from tests.chaos.delivery.hooks import hooked, told
from tests.chaos.delivery.instance import BLAMELESS, ChaosInstance
from tests.chaos.delivery.kills import RECOVERY_LIMIT_SECONDS, feed_under_kills
from tests.chaos.delivery.malformed import GARBAGE, garbage, processes, push, unlike
from tests.chaos.delivery.matrix import Wave, carry_out
from tests.chaos.delivery.plan import kill_plan, wait_until
from tests.chaos.delivery.poison import not_in_quarantine, poisonous, send_bad
from tests.chaos.delivery.recovery import recovery
from tests.chaos.delivery.schedules import begun
from tests.chaos.delivery.short_form import BROKEN, FULL, HUNG, KILLED, QUIET_SECONDS, ends_well
from tests.chaos.delivery.site import Site
from tests.chaos.delivery.traces import in_pieces
from tests.chaos.delivery.verdict import await_quiet, judge
from tests.chaos.delivery.witness import facts
from tests.chaos.delivery.work import Work
from tests.support.hook_receiver import receiving

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[ChaosInstance]:
    with ChaosInstance(tmp_path_factory.mktemp("chaos"), site.settings(), proxied=True) as running:
        yield running


def test_undisturbed_work_passes_every_failpoint_and_loses_nothing(instance: ChaosInstance, site: Site) -> None:
    work = Work(instance, "calm", site.address)
    work.mixed(range(20))
    ends_well(work)
    passed = {(fact.role, fact.more["point"]) for fact in facts(instance.witness_path, "reached")}
    assert {(role, point) for point, roles in FAILPOINTS.items() for role in roles} <= passed


@pytest.mark.parametrize(
    "wave",
    [
        pytest.param(BROKEN, id="exception"),
        pytest.param(FULL, id="no space"),
        pytest.param(KILLED, id="kill", marks=pytest.mark.smoke),
        pytest.param(HUNG, id="hang"),
    ],
)
def test_faults_at_failpoints_lose_nothing_and_double_nothing(instance: ChaosInstance, site: Site, wave: Wave) -> None:
    found = carry_out(instance, site, wave, f"wave-{wave[0].fault}")
    assert found.problems == ()
    assert found.fired == {str(cell) for cell in wave}


def test_random_kills_lose_nothing_and_their_work_goes_on_soon(instance: ChaosInstance, site: Site) -> None:
    work = Work(instance, "kills", site.address)
    killer = feed_under_kills(work, kill_plan(3, 6, 1.0), 0)
    assert killer.problem is None
    ends_well(work)
    assert max(recovery(instance.witness_path).seconds, default=0.0) <= RECOVERY_LIMIT_SECONDS
    store = SpanStore.in_dir(instance.data_dir)
    assert wait_until(lambda: not in_pieces(store, work), 20), in_pieces(store, work)
    store.close()


def test_a_broker_that_dies_forgets_or_cannot_be_reached_loses_nothing(instance: ChaosInstance, site: Site) -> None:
    work = Work(instance, "broker", site.address)
    harms = (Fault("kill", 0, 0.5), Fault("flush", 0, 0.5), Fault("refuse", 2, 0.5), Fault("blackhole", 2, 0.5))
    assert suffer(work, harms) == []
    ends_well(work)


def test_every_kind_of_garbage_becomes_a_dead_letter_and_ends_no_process(instance: ChaosInstance, site: Site) -> None:
    work, before = Work(instance, "garbage", site.address), processes(instance)
    pushed = garbage(1, len(GARBAGE))
    push(instance, pushed)
    work.mixed(range(10))
    assert unlike(instance, pushed) == []
    ends_well(work)
    assert processes(instance) == before


def test_a_task_that_kills_its_worker_is_in_quarantine_after_three_deliveries(instance: ChaosInstance) -> None:
    bad, good = poisonous(instance, "chunk", "bad"), Work(instance, "beside-the-bad")
    send_bad(bad, "chunk")
    good.documents(range(10))
    ends_well(good)
    instance.disarm()
    assert not_in_quarantine(bad, "chunk") == []


def test_what_is_held_released_and_forgotten_survives_a_death_at_each_step(tmp_path: Path) -> None:
    deaths = [cell for cell in every_death() if cell.point.endswith(".after") == (cell.role == "api")]
    with ChaosInstance(tmp_path / "erasing", BLAMELESS) as own:
        assert story(own, "erase", deaths) == []


def test_a_corpus_is_moved_changed_and_deleted_though_processes_die(tmp_path: Path) -> None:
    with ChaosInstance(tmp_path / "moving", BLAMELESS) as own:
        assert moving.story(own, "moved") == []


def test_webhooks_are_told_in_order_though_their_sender_dies(tmp_path: Path) -> None:
    deaths = (Cell("hook_sign.after", "reconcile", "kill"), Cell("hook_record.before", "reconcile", "kill"))
    with receiving() as receiver, hooked(tmp_path / "hooks", receiver) as own:
        assert told(own, receiver, "hooks", deaths) == []


def test_each_time_of_a_schedule_has_one_run_though_the_process_that_begins_it_dies(tmp_path: Path) -> None:
    deaths = (Cell("schedule_begin.after", "reconcile", "kill"), Cell("schedule_move.before", "reconcile", "kill"))
    with ChaosInstance(tmp_path / "schedules", BLAMELESS) as own:
        assert begun(own, "schedules", deaths) == []


def test_without_healing_the_same_kills_lose_work(tmp_path: Path) -> None:
    with ChaosInstance(tmp_path / "unhealed", heals=False) as unhealed:
        for stage in ("embed", "index"):
            unhealed.arm(Cell("handler.after", stage, "kill"))
        work = Work(unhealed, "unhealed")
        work.documents(range(10))
        assert not await_quiet(unhealed.ledger_url, QUIET_SECONDS, patience_seconds=12)
        verdict = judge(work)
    assert verdict.lost
    assert not verdict.doubled
