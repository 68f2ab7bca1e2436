"""`sluice up`: keeps every process of one instance on one machine alive.

Promises:

- A process that dies is started again, after a pause that doubles with every quick death. A dead worker's claims are
  released at once, so its events need not wait for their leases to run out.
- One that lives but gives no sign of life (it is stopped, or its interpreter hangs, even while it starts) is killed and
  started again. So is a reconciler that no longer ticks, and an embedded broker that no longer answers. A worker that
  has grown too large is asked to end first.
- The first signal lets every worker finish its running events, for three seconds; the second kills. Either way
  the remaining claims are released, and count no death.
- When it has ended, no process that it started is left: no worker, no broker, no browser, no zombie. That also holds
  for a supervisor that is killed outright: the kernel signals its children, and the next `sluice up` ends the
  rest.

Its one thread never waits: work on ledger or broker goes to the task queue. So every process can be a fork of it
(see `workers.supervisor.child`), where the platform allows that.
"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import structlog

from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.event import QUEUES, Queue
from sluice.ledger.database import Database
from sluice.ledger.overview import PoolSizes
from sluice.ledger.schema.migrate import migrate
from sluice.otel.log_files import VARIABLE, Tail, opened, parsed, rotate
from sluice.otel.metrics import forget_process
from sluice.otel.story import is_of_the_story, story_of
from sluice.workers.broker.celery_app import processes_of, resized, threads_of, told_sizes
from sluice.workers.broker.embedded import broker_command, prepare_broker
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from sluice.workers.data_dir import make_private
from sluice.workers.processes import shutdown
from sluice.workers.processes.kernel import adopt_orphans, all_processes, belongs_to, notify_system, worker_name
from sluice.workers.processes.shutdown import hand_back
from sluice.workers.runtime.pools import PoolsFile
from sluice.workers.service.callers import require_key_beyond_loopback, secret_of
from sluice.workers.setting_names import SCALED_HERE
from sluice.workers.settings import Settings, environment_of
from sluice.workers.supervisor import checks
from sluice.workers.supervisor.child import FIRST_PAUSE_SECONDS, Child, Program, command_of
from sluice.workers.supervisor.process_table import ProcessTable
from sluice.workers.supervisor.task_queue import SignalInbox, TaskQueue

log = structlog.get_logger(__name__)

BROKER = "broker"
LONGEST_PAUSE_SECONDS = 15.0
STEADY_AFTER_SECONDS = 30.0
BROKER_START_SECONDS = 15.0
BROKER_STOP_SECONDS = 5.0
END_MARGIN_SECONDS = 2.0
"""Seconds that the supervisor waits for a worker beyond the time that the worker's end may take."""
TICK_SECONDS = 0.1
TIDY_TICKS = 10
"""Ticks between two searches for orphans."""
EXAMINE_TICKS = 50
"""Ticks between two checks of the processes' memory and of the reconciler."""
LATE = 3
"""Exit code of the task that examines a process, if that is late."""
BROKER_SILENT_SECONDS = 20.0
"""Longest time without an answer of the embedded broker, which takes milliseconds: four pings in a row. A stopped one
keeps its port, and answers nothing."""
MOST_LINES_A_TICK = 20
"""Lines that are shown of what was logged within a tick: two hundred a second, more than anybody can read."""
MOST_PASSED_SECONDS = 1.0
"""Most that one tick adds to a process's silence: time in which the supervisor itself was stopped must not count."""


@dataclass
class Supervisor:
    """Starts, watches and stops the processes of one instance."""

    settings: Settings
    log_dir: Path | None = None
    program_of: Callable[..., Program] = command_of
    """Returns the program of a process for its settings and its command: `worker` and its stage, `reconcile`, `api`."""
    tell: Callable[[str], object] = lambda _line: None
    """Shows a line to the person who has started the instance."""
    without: frozenset[Queue] = frozenset()
    """Stages whose workers something else runs: nothing is started for them, and readiness does not wait for them."""
    scaled: frozenset[Queue] = frozenset()
    """Stages whose sizes the settings say anew: what was asked for before no longer counts."""
    children: list[Child] = field(default_factory=list)
    _is_stopping: bool = False
    at_once: bool = False
    foreign: frozenset[int] = frozenset()
    """Children of this process that other code made."""

    def __post_init__(self) -> None:
        self.signals = SignalInbox()
        self._tail = Tail(self.log_dir) if self.log_dir else None
        self.pools = PoolsFile(self.settings.data_dir)
        self.instance_lock = checks.InstanceLock(self.settings.data_dir)
        self._table = ProcessTable(self.settings.data_dir)
        self.task_queue = TaskQueue("sluice-task", self._inherited)
        self._health = TaskQueue("sluice-health", self._inherited)
        self.pings = TaskQueue("sluice-ping", self._inherited)

    def run(self) -> None:
        """Run until SIGTERM, SIGINT or SIGHUP; a second signal stops at once.

        Raises:
            Conflict: another `sluice up` runs on the same data directory, or the ledger is a newer Sluice's.
            InvalidSetting: the HTTP port is taken, or open to the outside without a key; the index's engine cannot
                be shared.
            Unavailable: the broker does not come up, or the ledger cannot be migrated.
        """
        make_private(self.settings.data_dir)
        self.instance_lock.acquire()
        self.foreign = frozenset(
            checks.own_children()
        )  # before anything can fail: the end of this process kills all others
        try:
            left_behind = self._table.living()
            checks.end_left_behind(left_behind)
            self.prepare()
            self.signals.open()
            adopt_orphans()
            if self._tail:
                self._tail.skip()
            self._start_broker()
            names = [worker_name(name.rsplit("-", 1)[0], process_id) for name, process_id in left_behind.items()]
            if names:
                self.task_queue.do(lambda: self.release_claims(names, died=False))
            self._start_everything()
            self._watch()
        finally:
            self.stop_everything()
            self.instance_lock.release()

    # -- beginning

    def prepare(self) -> None:
        """Check that the instance can run, and migrate its ledger. Raises as `run`."""
        if self.settings.index.engine == "qdrant":
            self.settings.qdrant.require_url()
        checks.require_free_port(self.settings.http_host, self.settings.http_port)
        with closing(Database(self.settings.ledger_location)) as database:
            done = migrate(database, datetime.now(UTC))
            sizes = PoolSizes(database)
            for stage in sizes.all().keys() & self.scaled:
                sizes.ask(stage, None, getpass.getuser(), "sluice up --scale")
            self.pools.begin(sizes.all())
        if done.is_due:
            log.info("ledger_migrated", found=done.found, now=done.wanted, copy=done.copy)
        require_key_beyond_loopback(self.settings)
        secret_of(self.settings)

    def _pause(self, seconds: float) -> None:
        """Wait that long, or until a signal comes."""
        for number in self.signals.wait(seconds):
            self.handle_signal(number)

    def handle_signal(self, number: int) -> None:
        """Stop in order at the first signal, at once at the second, and exit without cleaning up at the third."""
        if self.at_once:
            os._exit(128 + number)
        self.at_once = self._is_stopping
        self._is_stopping = True

    def _inherited(self) -> tuple[int, ...]:
        """Return the descriptors that a fork of this process must close."""
        ears = (descriptor for child in self.children for descriptor in child.descriptors)
        return (*self.instance_lock.descriptors, *self.signals.descriptors, *ears)

    def _start_broker(self) -> None:
        if not self.settings.broker_url:
            prepare_broker(self.settings)
            self.start(self.add(BROKER, broker_command(self.settings)))
        deadline = time.monotonic() + BROKER_START_SECONDS
        with closing(Transport(self.settings)) as transport:
            while not self._is_stopping:
                try:
                    transport.ping()
                    transport.declare()
                    break
                except BROKER_ERRORS as error:
                    if time.monotonic() > deadline:
                        raise Unavailable(f"the broker does not answer: {error}") from error
                self._pause(0.05)

    def _start_everything(self) -> None:
        self.resize()
        self.add("reconciler", self.program_of(self.settings, "reconcile")).gives_signs = True
        self.add("api", self.program_of(self.settings, "api")).gives_signs = True
        started = time.monotonic()
        self.tell(f"starting {len(self.children) - 1} processes")
        self.tell(f"events handled at once: {told_sizes(self._sized, self.without)}")
        for child in self.children:
            if child.process is None:
                self.start(child)
        host, port = self.settings.http_host, self.settings.http_port
        path = "/readyz" if self.without else "/healthz"
        self._health.do(lambda: checks.await_health(host, port, path), lambda code: self._say_ready(code, started))
        log.info("up", processes=len(self.children), http_port=self.settings.http_port)

    def _say_ready(self, code: int, started: float) -> None:
        address = f"http://{self.settings.http_host}:{self.settings.http_port}"
        if code == 0:
            self.tell(f"ready at {address} after {time.monotonic() - started:.1f} s; Ctrl-C stops it")
        elif not self._is_stopping:
            self.tell(f"not ready yet; see {address}/healthz and the log, or ask `sluice doctor`")
        notify_system("READY=1\nSTATUS=" + ("" if code == 0 else "not ready yet: ") + f"see {address}/healthz")

    def add(self, name: str, program: Program, *, is_worker: bool = False) -> Child:
        """Add a process, which is not started yet."""
        child = Child(name, program, is_worker)
        self.children.append(child)
        return child

    def start(self, child: Child) -> None:
        """Start the process, its output in its log file, and store its process id in the table."""
        output, environment = None, dict(os.environ)
        if self.log_dir is not None:
            path = self.log_dir / f"{child.name}.log"
            self.log_dir.mkdir(parents=True, exist_ok=True)
            rotate(path)  # of a process that knows nothing of our files, such as the broker
            output, environment[VARIABLE] = opened(path), str(path)
        try:
            scaled = ",".join(stage for stage in QUEUES if stage not in self.without)
            settings = child.settings or self.settings
            environment |= {**environment_of(settings), SCALED_HERE: scaled}
            child.start(environment, output, self._inherited())
        finally:
            if output is not None:
                os.close(output)
        self._write_table()

    def _write_table(self) -> None:
        self._table.write({child.name: child.pid for child in self.children if child.pid})

    @property
    def _sized(self) -> Settings:
        """The settings with the pool sizes that operators ask for."""
        return resized(self.settings, self.pools.asked)

    def resize(self) -> None:
        """Add the workers that are wanted and missing, and retire those that are not wanted, or not in this size. They
        start and end as everything else does."""
        settings = self._sized
        missing = [name for name, copies in processes_of(settings, self.without).items() for _ in range(copies)]
        for child in [one for one in self.children if one.is_worker and not one.is_retired]:
            name, own = child.stage, child.settings or self.settings
            if name in missing and threads_of(own, name) == threads_of(settings, name):
                missing.remove(name)
            else:
                log.info("worker_retired", name=child.name)
                child.retire(self.settings.delivery.event_timeout_seconds + self._end_seconds)
        taken = {child.name for child in self.children}
        for name in missing:
            number = next(number for number in count(1) if f"{name}-{number}" not in taken)
            taken.add(f"{name}-{number}")
            child = self.add(f"{name}-{number}", self.program_of(settings, "worker", name), is_worker=True)
            child.settings, child.gives_signs = settings, True

    @property
    def known_children(self) -> set[int]:
        """Children of this process that are no orphans."""
        ours = {child.process.pid for child in self.children if child.process is not None}
        return ours | self.task_queue.children | self._health.children | self.pings.children | self.foreign

    # -- watching

    def _watch(self) -> None:
        ticks, looked_at = 0, time.monotonic()
        while not self._is_stopping:
            self._pause(TICK_SECONDS)
            self.task_queue.look()
            self._health.look()
            self.pings.look()
            ticks, now = ticks + 1, time.monotonic()
            passed_seconds, looked_at = min(now - looked_at, MOST_PASSED_SECONDS), now
            for child in tuple(self.children):
                self.look_after(child, passed_seconds)
            self.tell_story()
            if ticks % TIDY_TICKS == 0:
                if self.pools.is_changed():
                    log.info("pools_resized", asked=self.pools.asked)
                    self.resize()
                notify_system("WATCHDOG=1")
                checks.end_orphans(self.known_children)
            if ticks % EXAMINE_TICKS == 0:
                self.weigh_workers()
                self._examine(BROKER, checks.broker_is_silent, BROKER_SILENT_SECONDS, self.pings)
                self.examine_reconciler()

    def tell_story(self) -> None:
        """Show what the processes have logged since the last look: a line for each event, and what is unusual."""
        if self._tail is None:
            return
        told = (parsed(line.text) for line in self._tail.lines())
        story = [story_of(one) for one in told if one and is_of_the_story(one)]
        for line in story[:MOST_LINES_A_TICK]:
            self.tell(line)
        if len(story) > MOST_LINES_A_TICK:
            self.tell(f"… and {len(story) - MOST_LINES_A_TICK} more: see `sluice logs`")

    def look_after(self, child: Child, passed_seconds: float) -> None:
        """Listen to the process and do what is due: kill it, record its death, start it again."""
        child.listen(passed_seconds)
        if child.silent_seconds >= self.settings.delivery.deaf_after_seconds:
            child.condemned = "no sign of life"
        elif time.monotonic() > child.gone_by:
            child.condemned = "it did not end when asked to"
        if child.pid is None and child.process is not None:
            self.bury(child)
        elif child.pid is not None and child.condemned:
            log.error("process_killed", name=child.name, pid=child.pid, why=child.condemned)
            child.kill()
            child.condemned = None
        if child.process is None and child.is_retired:
            self.children.remove(child)
            self._write_table()
        elif child.process is None and time.monotonic() >= child.start_after:
            self._start_again(child)

    def _start_again(self, child: Child) -> None:
        try:
            self.start(child)
        except OSError as error:  # no more processes, no room on the disk: that passes, and everything else goes on
            log.error("start_failed", name=child.name, error=repr(error))
            child.start_after = time.monotonic() + LONGEST_PAUSE_SECONDS

    def bury(self, child: Child) -> None:
        """Record the death of the process, kill its leftovers, and release its claims."""
        steady = time.monotonic() - child.started_at > STEADY_AFTER_SECONDS
        process = child.bury()
        if process is None:
            return
        child.deaths += 1
        child.pause_seconds = FIRST_PAUSE_SECONDS if steady else min(child.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        child.start_after = time.monotonic() + child.pause_seconds
        has_retired = child.is_retired and process.returncode == 0
        (log.info if has_retired else log.warning)(
            "process_ended" if has_retired else "process_died",
            name=child.name,
            pid=process.pid,
            status=process.returncode,
        )
        forget_process(process.pid)
        checks.end_orphans(self.known_children)
        if child.is_worker:
            died = process.returncode != 0  # else it was asked to end, and its events are not to blame
            names = [worker_name(child.stage, process.pid)]
            self.task_queue.do(lambda: self.release_claims(names, died=died))

    def release_claims(self, workers: Collection[str], *, died: bool) -> None:
        """Release the claims of these workers; with `died` each of their events counts a death."""
        try:
            hand_back(self.settings, lambda name: any(belongs_to(name, worker) for worker in workers), died=died)
        except (SluiceError, *BROKER_ERRORS) as error:
            log.warning("hand_back_failed", workers=list(workers), error=repr(error))

    def weigh_workers(self) -> None:
        """Ask workers that exceed their memory limit to end."""
        most, processes = self.settings.pools.max_memory_mb * 1_000_000, all_processes()
        for child in self.children:
            if not child.is_worker or child.pid is None or child.gone_by < float("inf"):
                continue
            own, browser = checks.largest_bytes(child.pid, processes), checks.browser_bytes(child.pid, processes)
            if max(own, browser) > most:
                log.warning("process_too_large", name=child.name, megabytes=own // 10**6, browser=browser // 10**6)
                child.ask_to_end(self._end_seconds)

    def examine_reconciler(self) -> None:
        """Check whether the reconciler still ticks."""
        self._examine(
            "reconciler", checks.reconciler_is_late, self.settings.delivery.deaf_after_seconds, self.task_queue
        )

    def _examine(
        self, name: str, is_late: Callable[[Settings, float], bool], most_seconds: float, queue: TaskQueue
    ) -> None:
        """Ask `is_late` in a process of its own; condemn the process that was late for so long."""
        child = next((one for one in self.children if one.name == name and one.pid is not None), None)
        if child is None or not queue.is_idle:
            return
        process_id, began = child.pid, child.started_at

        def ask() -> None:
            raise SystemExit(LATE if is_late(self.settings, time.monotonic() - began) else 0)

        def judge(code: int) -> None:
            if child.pid != process_id:
                return
            child.late_seconds = child.late_seconds + EXAMINE_TICKS * TICK_SECONDS if code == LATE else 0.0
            if child.late_seconds >= most_seconds:
                child.condemned = f"it did not answer for {child.late_seconds:.0f} s"

        queue.do(ask, judge)

    # -- ending

    @property
    def _end_seconds(self) -> float:
        """Seconds that the supervisor waits for a process that was asked to end."""
        return self.settings.pools.stop_seconds + shutdown.STOP_SECONDS + END_MARGIN_SECONDS

    def stop_everything(self) -> None:
        """Stop all processes, the broker last, and return once they have ended."""
        notify_system("STOPPING=1")
        if self.children:
            self.tell("stopping: what is in hand may finish; Ctrl-C again stops at once")
        self._health.kill()
        self.pings.kill()
        brokers = [child for child in self.children if child.name == BROKER]
        killed = self.stop([child for child in self.children if child not in brokers], self._end_seconds)
        if killed:
            self.task_queue.do(lambda: self.release_claims(killed, died=False))
        self.task_queue.finish(shutdown.STOP_SECONDS)
        self.at_once = False  # the broker needs no patience, only the time to write its data
        self.stop(brokers, BROKER_STOP_SECONDS)
        self._table.remove()

    def stop(self, group: Sequence[Child], patience_seconds: float) -> list[str]:
        """Ask all to end and wait until they have; return the worker names of those that had to be killed."""
        killed: list[str] = []
        for child in group:
            child.ask_to_end(patience_seconds)
        give_up_at = time.monotonic() + patience_seconds + checks.GONE_SECONDS
        while (living := [child for child in group if child.pid]) and time.monotonic() < give_up_at:
            for child in living:
                if child.process and (self.at_once or time.monotonic() > child.gone_by):
                    if child.gone_by < float("inf"):
                        killed.append(worker_name(child.stage, child.process.pid))
                        log.warning("process_killed", name=child.name, pid=child.process.pid, why="everything stops")
                    child.kill()
                    child.gone_by = float("inf")
            self._pause(TICK_SECONDS / 5)
        for child in group:
            child.bury()
        checks.end_all_orphans(self.known_children)
        return killed
