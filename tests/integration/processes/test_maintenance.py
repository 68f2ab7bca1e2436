"""What the reconciler's process does beside its ticks while the disk is short of room, and once it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from sluice.workers.processes import reconciler
from sluice.workers.processes.reconciler import DISK_SHORT, STAGES_THAT_FILL_THE_DISK, Maintenance
from tests.support.in_process import Instance, MakeInstance
from tests.support.valkey import Valkey

pytestmark = pytest.mark.own_broker


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    return make_instance()


def keeps_file(instance: Instance) -> bool:
    with redis.Redis.from_url(instance.context.settings.broker_location) as broker:
        return broker.config_get("appendonly")["appendonly"] == "yes"


def paused(instance: Instance) -> dict[str, str]:
    return {pause.stage: pause.why for pause in instance.context.ledger.paused()}


class Disk:
    """Room that a test gives and takes."""

    def __init__(self) -> None:
        self.is_short = False
        self.free_bytes = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    room = Disk()
    monkeypatch.setattr(reconciler, "DiskRoom", lambda *_: room)
    return room


def test_a_short_disk_pauses_what_fills_it_and_the_broker_writes_no_file(instance: Instance, disk: Disk) -> None:
    now = [0.0]
    chores = Maintenance(instance.context, clock=lambda: now[0])
    chores.tick()
    assert (keeps_file(instance), paused(instance)) == (True, {})

    disk.is_short, now[0] = True, 2.0
    chores.tick()
    assert not keeps_file(instance)
    assert paused(instance) == dict.fromkeys(STAGES_THAT_FILL_THE_DISK, DISK_SHORT)

    disk.is_short, now[0] = False, 4.0
    chores.tick()
    assert (keeps_file(instance), paused(instance)) == (True, {})


def test_a_pause_of_an_operator_stays(instance: Instance, disk: Disk) -> None:
    instance.context.ledger.pause("crawl", "a site complains", operator="me")
    disk.is_short = True
    Maintenance(instance.context).tick()
    disk.is_short = False
    Maintenance(instance.context).tick()
    assert paused(instance) == {"crawl": "a site complains"}


def test_a_machine_does_not_resume_what_another_has_paused(
    make_instance: MakeInstance, disk: Disk, tmp_path: Path
) -> None:
    shared = {"object_store": {"url": (tmp_path / "store").as_uri()}, "signing_key": "ab" * 32}
    instance = make_instance(**shared)
    of_another = f"{DISK_SHORT}, on machine another"
    instance.context.ledger.pause("crawl", of_another)
    disk.is_short = True
    Maintenance(instance.context).tick()
    own = paused(instance)["embed"]
    assert own.startswith(f"{DISK_SHORT}, on machine ")
    disk.is_short = False
    Maintenance(instance.context).tick()
    assert paused(instance) == {"crawl": of_another}


def test_a_broker_that_was_started_anew_is_told_again(instance: Instance, disk: Disk, valkey: Valkey) -> None:
    now = [0.0]
    chores = Maintenance(instance.context, clock=lambda: now[0])
    disk.is_short = True
    chores.tick()
    valkey.kill()
    valkey.start()
    assert keeps_file(instance)
    now[0] = 2.0
    chores.tick()
    assert not keeps_file(instance)


def test_a_later_process_ends_what_an_earlier_one_began(instance: Instance, disk: Disk) -> None:
    disk.is_short = True
    Maintenance(instance.context).tick()
    disk.is_short = False
    Maintenance(instance.context).tick()
    assert (keeps_file(instance), paused(instance)) == (True, {})
