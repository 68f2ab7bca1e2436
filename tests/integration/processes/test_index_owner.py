"""Two machines as processes: the index is one's, and the other's within seconds of its death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.ledger.index_lease import Holding
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

Start = Callable[..., subprocess.Popen[bytes]]


def until(is_so: Callable[[], Any], seconds: float = 180.0) -> float:
    """Wait for it; how long that took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.fixture
def shared(valkey: Valkey, tmp_path: Path) -> dict[str, Any]:
    return {
        "ledger_url": f"sqlite:///{tmp_path}/ledger.sqlite",
        "broker_url": valkey.settings.broker_location,
        "instance": valkey.settings.instance,
        "object_store": {"url": (tmp_path / "store").as_uri()},
    }


@pytest.fixture
def agent(valkey: Valkey, tmp_path: Path, shared: dict[str, Any]) -> Iterator[Instance]:
    """A machine that has no index of its own: it adds, chunks, embeds, and asks."""
    (tmp_path / "agent").mkdir()
    made = Instance(valkey, {"data_dir": tmp_path / "agent", **shared})
    made.context.index_owner.waits_for_turn = True
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: Path, shared: dict[str, Any]) -> Iterator[Start]:
    begun: list[subprocess.Popen[bytes]] = []

    def begin(name: str, stages: str) -> subprocess.Popen[bytes]:
        own = {
            "SLUICE_DATA_DIR": str(tmp_path / name),
            "SLUICE_LEDGER_URL": shared["ledger_url"],
            "SLUICE_BROKER_URL": shared["broker_url"],
            "SLUICE_INSTANCE": shared["instance"],
            "SLUICE_OBJECT_STORE__URL": shared["object_store"]["url"],
        }
        command = [str(Path(sys.executable).with_name("sluice")), "worker", stages]
        log = (tmp_path / f"{name}.log").open("ab")
        begun.append(subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


@pytest.mark.parametrize("stages", ["index", "search+index+graph"])
def test_a_machine_is_killed_and_another_goes_on(start: Start, agent: Instance, stages: str, tmp_path: Path) -> None:
    lease = agent.context.ledger.index

    def owner() -> Holding | None:
        found = lease.owner()
        return found if found and found.left_seconds > 0 else None

    def indexed(run_id: str) -> bool:
        agent.works("chunk", "embed")
        agent.context.ledger.expire_leases(3)
        agent.context.ledger.wake_due_retries()
        agent.context.transport.publish_wake_ups(agent.context.ledger.next_ready("index", 10))
        return "index" not in agent.context.ledger.open_by_queue(run_id)

    first = start("a", stages)
    until(owner)
    machine = (tmp_path / "a" / "machine").read_text().strip()
    assert owner().holder == machine  # type: ignore[union-attr]
    start("b", stages)
    run_id = agent.adds("A lease is renewed.", "A valve opens.")
    until(lambda: indexed(run_id))
    until(lambda: "standing_by" in (tmp_path / "b.log").read_text())
    first.kill()
    run_id = agent.adds("A lease is renewed.", "A valve opens.", "Bread needs flour.")
    seconds = until(lambda: (found := owner()) and found.holder != machine)
    print(f"{stages}: owned by another after {seconds:.1f} s")
    until(lambda: indexed(run_id))
    assert agent.context.ledger.run(run_id).dead_letters == 0

    def answered() -> bool:
        agent.context.index_puller.look()
        return agent.context.readers.reader("default").document_count == 3

    until(answered)
    second = start("c", stages)
    lease_of_b = owner()
    assert lease_of_b is not None
    time.sleep(3)
    assert second.poll() is None
    stopped = next(one for one in (owner(),) if one)
    assert stopped.holder == lease_of_b.holder


def test_a_machine_that_stops_gives_the_index_up_at_once(start: Start, agent: Instance) -> None:
    lease, first = agent.context.ledger.index, start("a", "index")
    until(lambda: (found := lease.owner()) and found.left_seconds > 0)
    first.send_signal(signal.SIGTERM)
    first.wait(30)
    found = lease.owner()
    assert found is not None
    assert found.left_seconds <= 0
