"""The supervisor keeps its processes alive, hands back what dead ones held, and stops within its limit."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contracts.errors import InvalidSetting
from contracts.event import Event
from contracts.ids import new_run_id
from contracts.outcome import Next
from tests.workers.conftest import Valkey
from tests.workers.ledger_story import page
from workers import up
from workers.ledger import Claim, Ledger, NewRun
from workers.life import worker_name
from workers.transport import Transport
from workers.up import Child, Supervisor, require_free_port

OBEDIENT = "import signal; signal.pause()"
STUBBORN = (
    "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); "
    "open(f'deaf-{os.getpid()}', 'w').close(); signal.pause()"
)


@pytest.fixture
def supervisor(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr(up, "STOP_SECONDS", 0.5)
    monkeypatch.chdir(tmp_path)
    supervisor = Supervisor(valkey.settings)
    yield supervisor
    supervisor._kill_everything()


@pytest.fixture
def ledger(valkey: Valkey) -> Iterator[Ledger]:
    with Ledger(valkey.settings.ledger_location) as ledger:
        yield ledger


def starts(supervisor: Supervisor, program: str) -> Child:
    child = supervisor._add("crawl-1", [sys.executable, "-c", program], is_worker=True)
    supervisor._start(child)
    return child


def holds_an_event(ledger: Ledger, child: Child) -> Event:
    """An event that this child has claimed."""
    event = Event.of(page(), run_id=new_run_id(), corpus="docs")
    ledger.create_run(NewRun(event.run_id, "crawl", "docs", "0" * 64), [(event, Next(page()))])
    assert child.pid is not None
    assert isinstance(ledger.claim(event.id, worker_name("crawl", child.pid), 60.0, 1), Claim)
    return event


def queued(supervisor: Supervisor) -> set[str]:
    transport = Transport(supervisor.settings)
    try:
        return transport.queued_event_ids("crawl")
    finally:
        transport.close()


def test_the_claims_of_a_killed_worker_are_handed_back_and_it_is_started_again(
    supervisor: Supervisor, ledger: Ledger
) -> None:
    child = starts(supervisor, OBEDIENT)
    event = holds_an_event(ledger, child)
    assert child.process is not None
    child.process.kill()
    child.process.wait()
    supervisor._bury(child)
    assert queued(supervisor) == {event.id}
    assert child.start_after > time.monotonic()
    assert child.pid is None


def test_a_worker_that_cannot_finish_in_time_is_killed_with_its_children_and_its_claims_count_no_death(
    supervisor: Supervisor, ledger: Ledger, tmp_path: Path
) -> None:
    child = starts(supervisor, STUBBORN)
    event = holds_an_event(ledger, child)
    deadline = time.monotonic() + 10
    while len(deaf := list(tmp_path.glob("deaf-*"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    started = time.monotonic()
    supervisor._stop_everything()
    assert time.monotonic() - started < 5
    assert queued(supervisor) == {event.id}
    assert isinstance(ledger.claim(event.id, "next", 10.0, 1), Claim)  # one death would have been the last
    for file in deaf:
        assert not _lives(int(file.name.removeprefix("deaf-")))


def test_a_signal_from_the_terminal_reaches_the_supervisor_alone(supervisor: Supervisor) -> None:
    child = starts(supervisor, OBEDIENT)
    assert child.pid is not None
    assert os.getpgid(child.pid) == child.pid != os.getpgrp()


def test_a_worker_that_dies_at_once_is_started_more_and_more_seldom(supervisor: Supervisor) -> None:
    child = starts(supervisor, "raise SystemExit(1)")
    pauses = []
    for _ in range(9):
        assert child.process is not None
        child.process.wait()
        supervisor._bury(child)
        pauses.append(child.pause_seconds)
        supervisor._start(child)
    assert pauses[:3] == [0.4, 0.8, 1.6]
    assert pauses[-1] == up.LONGEST_PAUSE_SECONDS


def test_the_children_of_a_supervisor_that_is_killed_end_with_it(valkey: Valkey, tmp_path: Path) -> None:
    told = tmp_path / "child"
    supervising = os.fork()
    if supervising == 0:  # pragma: no cover - another process
        child = starts(Supervisor(valkey.settings), OBEDIENT)
        told.with_suffix(".partial").write_text(str(child.pid))
        told.with_suffix(".partial").rename(told)
        signal.pause()
    _until(told.exists)
    os.kill(supervising, signal.SIGKILL)
    os.waitpid(supervising, 0)
    _until(lambda: not _lives(int(told.read_text())))


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidSetting, match="http_port"):
            require_free_port("127.0.0.1", taken.getsockname()[1])


def _lives(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)
