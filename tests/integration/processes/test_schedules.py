"""Schedules begin one run for each time that is due, whoever looks and whoever dies; and stop with their key."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sluice.contracts.errors import Forbidden, InvalidInput, Overloaded
from sluice.contracts.operations.schedules import Schedule, ScheduleChange, ScheduleRequest
from sluice.workers import schedules
from sluice.workers.schedules import ScheduleDesk, ScheduleWatch
from sluice.workers.service.callers import OWN_MACHINE, ApiKeys, Caller
from tests.integration.processes.killed_scheduler import POINTS
from tests.support.in_process import Instance, MakeInstance
from tests.support.repository import REPOSITORY

CRAWL = {"url": "https://example.org/", "limit": 3}
LATE = 3.0
"""Seconds for which the schedules here have been due."""


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    return make_instance(crawl={"enabled": True, "render": "never"})


@pytest.fixture
def desk(instance: Instance) -> ScheduleDesk:
    return ScheduleDesk(instance.context)


def make_due(instance: Instance, schedule: Schedule, seconds: float = LATE) -> float:
    """The schedule has been due for so long."""
    due_at = time.time() - seconds
    instance.context.ledger.schedules.change(schedule.id, {"due_at": due_at})
    return due_at


def scheduled(desk: ScheduleDesk, caller: Caller = OWN_MACHINE, **fields: Any) -> Schedule:
    return desk.create(ScheduleRequest.model_validate({"crawl": CRAWL, "every": 3_600, **fields}), caller)


def runs(instance: Instance) -> list[str]:
    return [run.run_id for run in instance.context.ledger.runs(50)]


def now_of(instance: Instance, schedule: Schedule) -> Schedule:
    return instance.context.ledger.schedules.find(schedule.id)


def test_a_time_that_is_due_has_one_run_and_the_next_one_is_to_come(instance: Instance, desk: ScheduleDesk) -> None:
    one, watch = scheduled(desk), ScheduleWatch(instance.context)
    watch.look()
    assert runs(instance) == []
    due_at = make_due(instance, one)
    for _ in range(3):
        watch.look()
    [run_id] = runs(instance)
    after = now_of(instance, one)
    assert after.last_run_id == run_id
    assert after.last_at is not None
    assert after.next_at is not None
    assert after.last_at.timestamp() == pytest.approx(due_at)
    assert after.next_at.timestamp() == pytest.approx(due_at + 3_600)
    view = instance.context.ledger.run(run_id)
    assert (view.kind, view.query) == ("crawl", "https://example.org/")


def test_times_that_were_missed_have_one_run_together(instance: Instance, desk: ScheduleDesk) -> None:
    one, watch = scheduled(desk, every=60), ScheduleWatch(instance.context)
    make_due(instance, one, seconds=86_400)
    watch.look()
    watch.look()
    assert len(runs(instance)) == 1
    after = now_of(instance, one)
    assert after.next_at is not None
    assert 0 < after.next_at.timestamp() - time.time() <= 60


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_is_killed_loses_no_run_and_makes_none_twice(
    instance: Instance, desk: ScheduleDesk, point: str
) -> None:
    one = scheduled(desk)
    due_at = make_due(instance, one)
    settings = instance.context.settings
    module = "tests.integration.processes.killed_scheduler"
    command = [sys.executable, "-m", module, str(settings.data_dir), settings.broker_location, point]
    killed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ScheduleWatch(instance.context).look()
    [run_id] = runs(instance)
    after = now_of(instance, one)
    assert after.last_run_id == run_id
    assert after.next_at is not None
    assert after.next_at.timestamp() == pytest.approx(due_at + 3_600)


def test_many_that_look_at_once_begin_one_run_for_each(instance: Instance, desk: ScheduleDesk) -> None:
    many = [scheduled(desk, crawl={"url": f"https://example.org/{n}"}) for n in range(8)]
    for one in many:
        make_due(instance, one)
    with ThreadPoolExecutor(4) as beside:
        for looked in [beside.submit(ScheduleWatch(instance.context).look) for _ in range(4)]:
            looked.result()
    asked = [run.query for run in instance.context.ledger.runs(50)]
    assert sorted(asked, key=str) == [f"https://example.org/{n}" for n in range(8)]


def test_what_is_wrong_with_one_schedule_keeps_no_other_from_its_time(
    instance: Instance, desk: ScheduleDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault, and a queue that is full, which only the one schedule meets."""
    faulty, full, well = (scheduled(desk, crawl={"url": f"https://example.org/{n}"}) for n in ("a", "b", "c"))
    for one in (faulty, full, well):
        make_due(instance, one)
    begin, now = schedules.begin, [0.0]
    raised = {faulty.id: KeyError("a fault of ours"), full.id: Overloaded("the queue is full", 5.0)}

    def meets(one: Schedule, *told: Any) -> Any:
        if one.id in raised:
            raise raised[one.id]
        return begin(one, *told)

    monkeypatch.setattr(schedules, "begin", meets)
    watch = ScheduleWatch(instance.context, clock=lambda: now[0])
    watch.look()
    assert [run.query for run in instance.context.ledger.runs(9)] == ["https://example.org/c"]
    assert now_of(instance, faulty).last_problem == "KeyError('a fault of ours')"
    raised.clear()
    watch.look()
    assert len(runs(instance)) == 1
    now[0] = schedules.REST_SECONDS
    watch.look()
    assert sorted(str(run.query) for run in instance.context.ledger.runs(9)) == [
        f"https://example.org/{name}" for name in "bc"
    ]


def test_a_time_that_comes_while_the_last_run_is_under_way_waits_for_its_end(
    instance: Instance, desk: ScheduleDesk
) -> None:
    one, watch = scheduled(desk), ScheduleWatch(instance.context)
    make_due(instance, one)
    watch.look()
    make_due(instance, one)
    watch.look()
    [first] = runs(instance)
    instance.service.cancel(first)
    watch.look()
    assert len(runs(instance)) == 2


def test_a_key_that_was_revoked_stops_its_schedules_with_a_reason(instance: Instance, desk: ScheduleDesk) -> None:
    keys = ApiKeys(instance.context.ledger)
    key_id, _ = keys.create("nightly", "agent", ["default"])
    agent = Caller(key_id, "agent", frozenset({"default"}))
    one, other = scheduled(desk, agent), scheduled(desk)
    for schedule in (one, other):
        make_due(instance, schedule)
    keys.revoke(key_id)
    ScheduleWatch(instance.context).look()
    stopped = now_of(instance, one)
    assert (stopped.next_at, stopped.last_run_id) == (None, None)
    assert stopped.stopped_because == f"the key {key_id} was revoked or has ended"
    assert [run.owner for run in instance.context.ledger.runs(9)] == ["local"]
    with pytest.raises(Forbidden):
        desk.run(one.id, OWN_MACHINE)
    assert desk.change(one.id, ScheduleChange(enabled=True), OWN_MACHINE).stopped_because is None


def test_a_run_is_in_the_name_of_the_key_that_made_the_schedule(instance: Instance, desk: ScheduleDesk) -> None:
    key_id, _ = ApiKeys(instance.context.ledger).create("nightly", "agent", ["default"])
    one = scheduled(desk, Caller(key_id, "agent", frozenset({"default"})))
    desk.run(one.id, OWN_MACHINE)
    assert [run.owner for run in instance.context.ledger.runs(9)] == [key_id]


def test_what_is_refused_is_told_and_the_next_time_comes(make_instance: MakeInstance) -> None:
    without = make_instance()
    desk = ScheduleDesk(without.context)
    one = scheduled(desk)
    make_due(without, one)
    ScheduleWatch(without.context).look()
    after = now_of(without, one)
    assert after.last_problem is not None
    assert "crawling is switched off" in after.last_problem
    assert after.next_at is not None
    assert (runs(without), after.last_run_id, after.stopped_because) == ([], None, None)


@pytest.mark.parametrize(
    ("kind", "request_", "run_kind"),
    [
        ("crawl", CRAWL, "crawl"),
        ("map", {"url": "https://example.org/"}, "map"),
        ("scrape", {"url": "https://example.org/"}, "scrape"),
        ("documents", {"documents": [{"url": "https://example.org/a"}]}, "crawl"),
        ("gate", {"query": "How long is a lease?"}, "gate"),
    ],
)
def test_each_request_begins_its_run(
    instance: Instance, desk: ScheduleDesk, kind: str, request_: dict[str, Any], run_kind: str
) -> None:
    one = desk.create(ScheduleRequest.model_validate({kind: request_, "every": "PT6H"}), OWN_MACHINE)
    make_due(instance, one)
    ScheduleWatch(instance.context).look()
    [run] = instance.context.ledger.runs(9)
    assert run.kind == run_kind


def test_a_change_of_the_times_takes_effect_from_now_on(instance: Instance, desk: ScheduleDesk) -> None:
    one = scheduled(desk)
    make_due(instance, one)
    changed = desk.change(one.id, ScheduleChange.model_validate({"every": 600}), OWN_MACHINE)
    assert changed.next_at is not None
    assert 590 < changed.next_at.timestamp() - time.time() <= 600
    paused = desk.change(one.id, ScheduleChange(enabled=False), OWN_MACHINE)
    assert paused.next_at is None
    renamed = desk.change(one.id, ScheduleChange(name="nightly"), OWN_MACHINE)
    assert (renamed.name, renamed.next_at, renamed.every) == ("nightly", None, changed.every)
    assert desk.change(one.id, ScheduleChange.model_validate({"cron": "0 6 * * *"}), OWN_MACHINE).next_at is None
    ScheduleWatch(instance.context).look()
    assert runs(instance) == []


def test_content_and_memory_cannot_be_scheduled(desk: ScheduleDesk) -> None:
    content = {"documents": [{"id": "a", "text": "words"}]}
    memory = {"query": "why?", "memory": {"project": "/projects/shop", "feature": "cart"}}
    for kind, request in (("documents", content), ("gate", memory)):
        with pytest.raises(InvalidInput):
            desk.create(ScheduleRequest.model_validate({kind: request, "every": 3_600}), OWN_MACHINE)
