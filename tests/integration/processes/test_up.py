"""The supervisor keeps its processes alive, hands back what dead ones held, and leaves nothing behind when it ends."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.cli.instance.doctor import checks_of
from sluice.contracts.errors import Conflict, InvalidSetting
from sluice.contracts.event import Event, Next, new_run_id
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.broker.transport import Transport
from sluice.workers.processes.kernel import (
    ZOMBIE,
    ProcessFacts,
    all_processes,
    child_name,
    descendants,
    environment,
    facts_of,
    give_signs_of_life,
    worker_name,
)
from sluice.workers.runtime.pools import PoolsWatch
from sluice.workers.settings import DeliverySettings, PoolSettings, Settings
from sluice.workers.supervisor import checks
from sluice.workers.supervisor import supervisor as up
from sluice.workers.supervisor.checks import InstanceLock, require_free_port
from sluice.workers.supervisor.child import Child, fork
from sluice.workers.supervisor.process_table import ProcessTable
from sluice.workers.supervisor.supervisor import Supervisor
from tests.support.instance import Instance
from tests.support.ledger_story import page
from tests.support.old_ledger import LATER_VERSION, old_ledger_in
from tests.support.repository import REPOSITORY
from tests.support.valkey import Valkey
from tests.support.waiting import until

pytestmark = pytest.mark.own_broker

OBEDIENT = "import signal; signal.pause()"
STUBBORN = (
    "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); "
    "open(f'deaf-{os.getpid()}', 'w').close(); signal.pause()"
)
LIVELY = "import signal; from sluice.workers.processes.kernel import give_signs_of_life; give_signs_of_life(); signal.pause()"
LOCKING = (
    "import os, sqlite3, time; [time.sleep(0.02) for _ in iter(lambda: os.path.exists('go'), True)]; "
    "ledger = sqlite3.connect('ledger.sqlite'); ledger.execute('BEGIN IMMEDIATE'); os.remove('go')"
)
LARGE = "import signal; large = bytearray(150_000_000); open('large', 'w').close(); signal.pause()"
DETACHED = (
    "import os, signal; os.fork() or (os.setsid(), open(f'detached-{os.getpid()}', 'w').close()); "
    "os.kill(os.getpid(), signal.SIGSTOP) if os.getsid(0) == os.getpid() else signal.pause()"
)
QUICK = DeliverySettings(lease_seconds=0.2, deaf_after_seconds=5)


@pytest.fixture
def supervisor(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr(up.shutdown, "STOP_SECONDS", 0.2)
    monkeypatch.setattr(up, "END_MARGIN_SECONDS", 0.2)
    monkeypatch.chdir(tmp_path)
    settings = valkey.settings.model_copy(update={"delivery": QUICK})
    supervisor = Supervisor(settings)
    supervisor.foreign = frozenset(checks.own_children())
    yield supervisor
    for child in supervisor.children:
        child.kill()
        child.bury()
    supervisor.task_queue.kill()


@pytest.fixture
def ledger(valkey: Valkey) -> Iterator[Ledger]:
    with Ledger(valkey.settings.ledger_location) as ledger:
        yield ledger


def starts(supervisor: Supervisor, program: str) -> Child:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); {program}"]
    child = supervisor.add("crawl-1", command, is_worker=True)
    supervisor.start(child)
    return child


def holds_an_event(ledger: Ledger, worker: str) -> Event:
    """An event that this worker has claimed."""
    event = Event.of(page(), run_id=new_run_id(), corpus="docs")
    ledger.create_run(NewRun(event.run_id, "crawl", "docs", "0" * 64), [(event, Next(page()))])
    claim = ledger.claim_next("crawl", worker, 60.0)
    assert isinstance(claim, Claim)
    assert claim.event.id == event.id
    return event


def examines_the_reconciler(supervisor: Supervisor) -> None:
    supervisor.examine_reconciler()
    assert supervisor.task_queue.finish(30)


def named(child: Child) -> str:
    assert child.pid is not None
    return worker_name("crawl", child.pid)


def queued(supervisor: Supervisor) -> int:
    transport = Transport(supervisor.settings)
    try:
        return transport.queued("crawl")
    finally:
        transport.close()


def deaths(ledger: Ledger, event: Event) -> int:
    """How many deaths the event counts, which must be ready."""
    claim = ledger.claim_next("crawl", "prober", 60.0)
    assert isinstance(claim, Claim)
    assert claim.event.id == event.id
    return claim.deaths


def test_the_claims_of_a_killed_worker_and_of_its_children_are_handed_back_and_it_is_started_again(
    supervisor: Supervisor, ledger: Ledger
) -> None:
    child = starts(supervisor, OBEDIENT)
    of_its_own = holds_an_event(ledger, named(child))
    of_a_child = holds_an_event(ledger, child_name(named(child), 12345))
    elsewhere = holds_an_event(ledger, worker_name("crawl", 1))
    assert child.process is not None
    child.process.kill()
    child.process.wait()
    before = time.monotonic()
    supervisor.bury(child)
    assert supervisor.task_queue.finish(10)
    assert queued(supervisor) == 2
    assert [ledger.standing(event.id) for event in (of_its_own, of_a_child, elsewhere)] == ["ready", "ready", "claimed"]
    assert child.start_after > before
    assert child.pid is None
    until(lambda: (supervisor.look_after(child, 0.1), child.pid is not None)[1])


def test_what_was_asked_to_end_and_did_counts_no_death(supervisor: Supervisor, ledger: Ledger) -> None:
    child = starts(supervisor, "raise SystemExit(0)")
    event = holds_an_event(ledger, named(child))
    assert child.process is not None
    child.process.wait()
    supervisor.bury(child)
    assert supervisor.task_queue.finish(10)
    assert deaths(ledger, event) == 0


def test_a_worker_that_cannot_finish_in_time_is_killed_with_its_children_and_its_claims_count_no_death(
    supervisor: Supervisor, ledger: Ledger, tmp_path: Path
) -> None:
    child = starts(supervisor, STUBBORN)
    event = holds_an_event(ledger, named(child))
    until(lambda: len(list(tmp_path.glob("deaf-*"))) == 2)
    supervisor.stop_everything()
    supervisor.task_queue.finish(10)
    assert queued(supervisor) == 1
    assert deaths(ledger, event) == 0
    for file in tmp_path.glob("deaf-*"):
        assert not lives(int(file.name.removeprefix("deaf-")))


def test_a_second_signal_does_not_wait_for_anybody(supervisor: Supervisor, ledger: Ledger, tmp_path: Path) -> None:
    supervisor.settings = supervisor.settings.model_copy(update={"delivery": DeliverySettings(lease_seconds=600)})
    child = starts(supervisor, STUBBORN)
    event = holds_an_event(ledger, named(child))
    until(lambda: len(list(tmp_path.glob("deaf-*"))) == 2)
    supervisor.handle_signal(signal.SIGINT)
    supervisor.handle_signal(signal.SIGINT)
    supervisor.stop_everything()
    supervisor.task_queue.finish(10)
    assert deaths(ledger, event) == 0


def test_a_process_that_falls_silent_is_killed_and_started_again_though_it_keeps_everybody_from_the_ledger(
    supervisor: Supervisor, ledger: Ledger, tmp_path: Path
) -> None:
    child = starts(supervisor, f"{LOCKING}; {LIVELY}")
    first, event = child.pid, holds_an_event(ledger, named(child))
    (tmp_path / "go").touch()
    until(lambda: (child.listen(0.1), child.speaks)[1])
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    while child.pid == first:
        supervisor.look_after(child, 0.1)
        time.sleep(0.001)
    until(lambda: (supervisor.look_after(child, 0.1), child.pid is not None)[1])
    assert supervisor.task_queue.finish(30)
    assert deaths(ledger, event) == 1


def test_a_process_that_speaks_is_left_alone_and_one_that_never_did_too(supervisor: Supervisor) -> None:
    lively, quiet = starts(supervisor, LIVELY), starts(supervisor, OBEDIENT)
    pids = (lively.pid, quiet.pid)
    until(lambda: (lively.listen(0.1), lively.speaks)[1])
    for _ in range(3):
        until(lambda: (supervisor.look_after(lively, 0.01), not lively.silent_seconds)[1])
        for _ in range(100):
            supervisor.look_after(quiet, 0.1)
    assert (lively.pid, quiet.pid) == pids


def test_a_process_that_hangs_before_its_first_sign_of_life_is_killed_and_started_again(supervisor: Supervisor) -> None:
    child = starts(supervisor, OBEDIENT)
    child.gives_signs, first = True, child.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    for _ in range(10_000):
        supervisor.look_after(child, 0.1)
        if child.pid != first:
            break
    assert child.pid != first
    until(lambda: (supervisor.look_after(child, 0.1), child.pid is not None)[1])


def test_a_process_that_takes_long_to_start_is_left_alone_while_it_gets_on(supervisor: Supervisor) -> None:
    """A loaded machine takes minutes for what takes a second. One that only keeps a processor busy ends all the same."""
    child = starts(supervisor, "[None for _ in iter(int, 1)]")
    child.gives_signs, first = True, child.pid
    for _ in range(1_000):
        supervisor.look_after(child, 0.1)
        time.sleep(0.001)
    assert child.pid == first
    for _ in range(1_000):
        supervisor.look_after(child, 1.0)
    assert child.pid != first


@pytest.mark.slow
def test_a_broker_that_is_stopped_is_killed_and_started_again_and_what_was_accepted_is_done(tmp_path: Path) -> None:
    with Instance(tmp_path) as instance:
        stopped = instance.processes["broker"]
        os.kill(stopped, signal.SIGSTOP)
        body = {"documents": [{"id": "a", "text": "What is accepted while the broker stands still is indexed."}]}
        accepted = instance.http.post("/v1/documents", json=body, timeout=60).json()
        health = instance.http.get("/healthz", timeout=60).json()
        until(lambda: instance.processes.get("broker", stopped) != stopped)
        until(lambda: instance.http.get("/healthz", timeout=60).status_code == 200)
        assert instance.wait(accepted["run_id"])["status"] == "finished"
        assert "it did not answer" in instance.logs(last_lines=1_000)
        assert not health["checks"]["broker"]["ok"]


def test_a_worker_that_grew_too_large_is_asked_to_end_and_no_death_is_counted(
    supervisor: Supervisor, ledger: Ledger, tmp_path: Path
) -> None:
    supervisor.settings = supervisor.settings.model_copy(update={"pools": PoolSettings(max_memory_mb=100)})
    large, small = starts(supervisor, LARGE), starts(supervisor, OBEDIENT)
    pids = (large.pid, small.pid)
    until((tmp_path / "large").exists)
    supervisor.weigh_workers()
    assert large.process is not None
    assert large.process.wait(60) == -signal.SIGTERM
    assert small.pid == pids[1]


def test_a_reconciler_that_no_longer_ticks_is_killed(supervisor: Supervisor, ledger: Ledger) -> None:
    child = starts(supervisor, OBEDIENT)
    child.name = "reconciler"
    for _ in range(10):
        examines_the_reconciler(supervisor)
    assert child.condemned is None, "it has never ticked: it may be starting"
    assert ledger.lease("reconciler", "somebody", 0.01)
    until(lambda: (examines_the_reconciler(supervisor), child.condemned is not None)[1])
    pid = child.pid
    supervisor.look_after(child, 0.1)
    until(lambda: child.pid != pid)


def test_a_broker_that_does_not_answer_says_nothing_about_the_reconciler(
    supervisor: Supervisor, ledger: Ledger, valkey: Valkey
) -> None:
    child = starts(supervisor, OBEDIENT)
    child.name = "reconciler"
    assert ledger.lease("reconciler", "somebody", 0.01)
    valkey.kill()
    for _ in range(3):
        examines_the_reconciler(supervisor)
    assert child.late_seconds == 0
    assert child.condemned is None


def test_a_process_that_cannot_be_started_is_tried_again_and_the_others_are_looked_after(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    child = supervisor.add("crawl-1", [str(tmp_path / "nothing")], is_worker=True)
    open_before = len(os.listdir("/proc/self/fd"))
    before = time.monotonic()
    supervisor.look_after(child, 0.1)
    assert child.pid is None
    assert child.start_after > before
    assert len(os.listdir("/proc/self/fd")) == open_before
    child.program, child.start_after = [sys.executable, "-c", OBEDIENT], 0.0
    supervisor.look_after(child, 0.1)
    assert child.pid is not None


def test_a_worker_that_was_asked_to_end_is_not_hurried_by_being_asked_again(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    counting = "import signal; signal.signal(signal.SIGTERM, lambda *_: open('asked', 'a').write('x'))"
    child = starts(supervisor, f"{counting}; open('ready', 'w').close(); [signal.pause() for _ in range(3)]")
    until((tmp_path / "ready").exists)
    child.ask_to_end(60)
    until((tmp_path / "asked").exists)
    child.ask_to_end(60)
    supervisor.at_once = True
    supervisor.stop([child], 60)
    assert (tmp_path / "asked").read_text() == "x"


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
        supervisor.bury(child)
        pauses.append(child.pause_seconds)
        supervisor.start(child)
    assert pauses[:3] == [0.4, 0.8, 1.6]
    assert pauses[-1] == up.LONGEST_PAUSE_SECONDS


def test_pools_grow_and_shrink_while_it_runs(supervisor: Supervisor, valkey: Valkey) -> None:
    supervisor.program_of = lambda *_: [sys.executable, "-c", OBEDIENT]

    def follow(**asked: int) -> list[str]:
        PoolsWatch(valkey.settings.data_dir, lambda: asked).look()  # type: ignore[arg-type,return-value]
        assert supervisor.pools.is_changed() or not asked
        supervisor.resize()

        def is_done() -> bool:
            for child in tuple(supervisor.children):
                supervisor.look_after(child, 0.0)
            return all(child.pid and not child.is_retired for child in supervisor.children)

        until(is_done)
        assert not supervisor.pools.is_changed()
        assert {*ProcessTable(valkey.settings.data_dir).living()} == {child.name for child in supervisor.children}
        return [child.name for child in supervisor.children]

    usual = ["gate+query-1", "search+index+graph-1", "crawl-1", "chunk-1", "embed-1"]
    assert follow() == usual
    first = {child.name: child.pid for child in supervisor.children}
    assert follow(embed=3) == [*usual, "embed-2", "embed-3"]
    assert follow(embed=2, crawl=8) == [*(one for one in usual if one != "crawl-1"), "embed-2", "crawl-2"]
    assert follow(graph=0, crawl=0) == ["gate+query-1", "chunk-1", "embed-1", "search+index-1"]
    kept = {child.name: child.pid for child in supervisor.children}
    assert {name: first[name] for name in ("gate+query-1", "chunk-1", "embed-1")}.items() <= kept.items()
    wide = next(child for child in supervisor.children if child.name == "search+index-1")
    assert wide.settings is not None
    assert (wide.settings.pools.graph, wide.settings.pools.search) == (0, 4)


def test_the_children_of_a_supervisor_that_is_killed_end_with_it(valkey: Valkey, tmp_path: Path) -> None:
    told = tmp_path / "child"
    supervising = os.fork()
    if supervising == 0:  # pragma: no cover - another process
        child = starts(Supervisor(valkey.settings), OBEDIENT)
        tell(told, str(child.pid))
        signal.pause()
    until(told.exists)
    os.kill(supervising, signal.SIGKILL)
    os.waitpid(supervising, 0)
    until(lambda: not lives(int(told.read_text())))


def test_what_a_killed_worker_has_started_is_ended_and_reaped_whatever_group_it_is_in(
    valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = tmp_path / "told"
    supervising = os.fork()
    if supervising == 0:  # pragma: no cover - another process
        up.adopt_orphans()
        supervisor = Supervisor(valkey.settings)
        child = starts(supervisor, DETACHED)
        until(lambda: bool(list(tmp_path.glob("detached-*"))))
        child.kill()
        assert child.process is not None
        child.process.wait()
        supervisor.bury(child)
        supervisor.task_queue.finish(10)
        checks.end_all_orphans(supervisor.known_children)
        tell(told, json.dumps(sorted(checks.own_children())))
        os._exit(0)
    os.waitpid(supervising, 0)
    assert json.loads(told.read_text()) == [], "a child is left, or a zombie"
    [detached] = tmp_path.glob("detached-*")
    assert not Path(f"/proc/{detached.name.removeprefix('detached-')}").exists()


def test_what_a_killed_supervisor_has_left_is_ended_by_the_next_and_nothing_else_is(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    left, foreign = starts(supervisor, STUBBORN), starts(supervisor, OBEDIENT)
    until(lambda: len(list(tmp_path.glob("deaf-*"))) == 2)
    assert left.pid is not None
    assert foreign.pid is not None
    table = ProcessTable(tmp_path)
    table.write({"crawl-1": left.pid, "gate-1": 2**22 - 1})
    assert table.living() == {"crawl-1": left.pid}
    checks.end_left_behind(table.living())
    assert table.living() == {}
    assert foreign.pid is not None
    assert not [file for file in tmp_path.glob("deaf-*") if lives(int(file.name.removeprefix("deaf-")))]


def test_a_process_that_has_the_id_of_one_in_the_table_is_not_taken_for_it(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    table.write({"crawl-1": os.getpid()})
    assert table.living() == {"crawl-1": os.getpid()}
    started = tmp_path / "processes.started.json"
    of_this_boot = json.loads(started.read_text())
    started.write_text(json.dumps({**of_this_boot, "started": {str(os.getpid()): 1}}))
    assert table.living() == {}
    started.write_text(json.dumps({**of_this_boot, "boot": "another"}))
    assert table.living() == {}
    started.unlink()
    assert table.living() == {}


def test_a_forked_child_is_started_watched_and_killed_like_any_other(supervisor: Supervisor, tmp_path: Path) -> None:
    def speaks() -> None:
        give_signs_of_life()
        tell(tmp_path / "facts", json.dumps([os.getppid(), os.getpgrp(), open_files(os.listdir("/proc/self/fd"))]))
        signal.pause()

    supervisor.signals.open()
    supervisor.instance_lock.acquire()
    try:
        first = supervisor.add("gate-1", speaks, is_worker=True)
        supervisor.start(first)
        until((tmp_path / "facts").exists)
        parent, group, opened = json.loads((tmp_path / "facts").read_text())
        assert (parent, group) == (os.getpid(), first.pid)
        inherited = (*supervisor.instance_lock.descriptors, *supervisor.signals.descriptors)
        assert not set(open_files(map(str, inherited))) & set(opened)
        until(lambda: (first.listen(0.1), first.speaks)[1])
        pid = first.pid
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        until(lambda: (supervisor.look_after(first, 0.1), first.pid not in (None, pid))[1])
    finally:
        supervisor.instance_lock.release()


def test_how_a_forked_child_ended_is_told_as_of_any_other(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise InvalidSetting("pools", "no such thing")

    assert fork(lambda: None, "ends").wait(60) == 0
    assert fork(lambda: sys.exit(7), "exits").wait(60) == 7
    assert fork(fails, "fails").wait(60) == 1
    assert "pools" in capfd.readouterr().err
    asleep = fork(signal.pause, "sleeps")
    asleep.kill()
    assert asleep.wait(60) == -signal.SIGKILL


def test_a_data_directory_has_one_supervisor_and_a_fork_of_it_does_not_keep_the_lock(tmp_path: Path) -> None:
    first, second = InstanceLock(tmp_path), InstanceLock(tmp_path)
    first.acquire()
    with pytest.raises(Conflict):
        second.acquire()
    child = fork(signal.pause, "sleeps", close=first.descriptors)
    os.close(first.descriptors[0])  # as when the supervisor is killed
    until(lambda: takes(second))
    child.kill()
    second.release()


def test_what_is_imported_before_the_forks_starts_no_thread_and_opens_nothing() -> None:
    program = (
        "import os; from sluice.workers.settings import Settings; from sluice.workers.supervisor.child import preload;"
        "before = set(os.listdir('/proc/self/fd'));"
        "preload(Settings(crawl={'enabled': True}, search={'enabled': True, 'providers': ['ddgs']}));"
        "print(len(os.listdir('/proc/self/task')), set(os.listdir('/proc/self/fd')) == before)"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # it ends its threads itself before a fork
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout.split() == ["1", "True"]


def open_files(descriptors: Iterable[str]) -> list[str]:
    """What each descriptor of this process refers to, but for those that were closed meanwhile."""
    links = (Path("/proc/self/fd", descriptor) for descriptor in descriptors)
    return [os.readlink(link) for link in links if os.path.lexists(link)]


def takes(lock: InstanceLock) -> bool:
    try:
        lock.acquire()
    except Conflict:
        return False
    return True


def zombies_below(process_id: int) -> list[ProcessFacts]:
    """Processes that ended and were not waited for yet, as those are for a moment that were just killed."""
    return [process for process in descendants(process_id, all_processes()) if process.state == ZOMBIE]


@pytest.mark.timeout(600)
def test_a_whole_instance_comes_through_a_storm_of_kills_and_leaves_nothing_behind(tmp_path: Path) -> None:
    chance = random.Random(20_310_506)
    with Instance(tmp_path, DELIVERY__DEAF_AFTER_SECONDS="6") as instance:
        supervising = instance.process_id
        everything = len(instance.processes)
        frozen = instance.processes["gate+query-1"]
        os.kill(frozen, signal.SIGSTOP)
        until(lambda: instance.processes.get("gate+query-1", frozen) != frozen)
        for _ in range(20):
            table = instance.processes
            with suppress(ProcessLookupError):  # it may be dead already
                os.kill(table[chance.choice(sorted(table))], signal.SIGKILL)
            time.sleep(0.2)
        until(lambda: len(instance.processes) == everything)
        until(lambda: not zombies_below(supervising))
        instance.kill()
        until(lambda: not processes_of(instance.data_dir))


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidSetting, match="http_port"):
            require_free_port("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(("qdrant", "problem"), [({}, "not set"), ({"url": "embedded"}, "was removed")])
def test_an_engine_that_workers_cannot_share_is_refused_before_anything_starts(
    tmp_path: Path, qdrant: dict[str, str], problem: str
) -> None:
    settings = Settings.model_validate({"data_dir": tmp_path, "index": {"engine": "qdrant"}, "qdrant": qdrant})
    with subprocess.Popen(["sleep", "60"]) as stranger:
        with pytest.raises(InvalidSetting, match=problem):
            Supervisor(settings).run()
        assert stranger.poll() is None, "a child of somebody else's was ended"
        stranger.kill()
    assert processes_of(tmp_path) == []
    check = next(check for check in checks_of(settings) if check.name == "index")
    assert (check.state, problem in check.detail) == ("fail", True)


@pytest.mark.usefixtures("later_version")
def test_an_older_ledger_is_migrated_before_anything_starts(tmp_path: Path) -> None:
    old_ledger_in(tmp_path).close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    supervisor = Supervisor(Settings(data_dir=tmp_path, http_port=port))
    supervisor.prepare()
    [copy] = tmp_path.glob(f"ledger.sqlite.before-{LATER_VERSION}-*")
    assert f"{datetime.now(UTC):%Y}" in copy.name
    Ledger(supervisor.settings.ledger_location).close()


def processes_of(data_dir: Path) -> list[int]:
    """Every process that was started for the instance there, except this one's own."""
    return [
        process.pid
        for process in all_processes()
        if environment(process.pid).get("SLUICE_DATA_DIR") == str(data_dir) and process.state != ZOMBIE
    ]


def tell(path: Path, what: str) -> None:
    path.with_suffix(".partial").write_text(what)
    path.with_suffix(".partial").rename(path)


def lives(process_id: int) -> bool:
    facts = facts_of(process_id)
    return facts is not None and facts.state != ZOMBIE
