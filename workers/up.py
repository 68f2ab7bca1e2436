"""`sluice up`: every process of one instance on one machine, kept alive.

A process that dies is started again, after a pause that doubles with every quick death. The claims
of a dead worker are handed back at once, so its events need not wait for their leases to run out. So
are those of a worker that could not finish its work in time when everything stops; that is no death.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from filelock import FileLock, Timeout

from contracts.errors import Conflict, InvalidSetting, Unavailable
from contracts.event import QUEUES
from otel.metrics import forget_process
from workers.api_keys import ApiKeys, check_exposure
from workers.app import POOLS, pool_size
from workers.broker import broker_command, prepare_broker
from workers.ledger import Ledger
from workers.life import tied_to_parent, worker_name
from workers.settings import Settings, environment_of
from workers.transport import BROKER_ERRORS, Transport

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 15.0
STEADY_AFTER_SECONDS = 30.0
STOP_SECONDS = 20.0
BROKER_START_SECONDS = 15.0


@dataclass
class Child:
    """One process that `up` keeps alive."""

    name: str
    command: Sequence[str]
    is_worker: bool = False
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    start_after: float = 0.0
    deaths: int = 0

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return self.process.pid if self.process and self.process.poll() is None else None


@dataclass
class Supervisor:
    """Starts, watches and stops the processes of one instance."""

    settings: Settings
    log_dir: Path | None = None
    children: list[Child] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; a second signal stops at once.

        Raises:
            Conflict: another `sluice up` runs on the same data directory.
            InvalidSetting: the HTTP port is taken, or open to the outside without a key.
            Unavailable: the broker does not come up.
        """
        self.settings.data_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.settings.data_dir / "up.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise Conflict(f"another `sluice up` runs on {self.settings.data_dir}") from error
        try:
            require_free_port(self.settings.http_host, self.settings.http_port)
            with Ledger(self.settings.ledger_location) as ledger:
                check_exposure(self.settings, ApiKeys(ledger))
            self._catch_signals()
            self._start_broker()
            self._start_everything()
            self._watch()
        finally:
            self._stop_everything()
            lock.release()

    def _catch_signals(self) -> None:
        def stop(number: int, _frame: object) -> None:
            if self._stopping.is_set():
                self._kill_everything()
                os._exit(128 + number)
            self._stopping.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)

    def _start_broker(self) -> None:
        if not self.settings.broker_url:
            prepare_broker(self.settings)
            self._start(self._add("broker", broker_command(self.settings)))
        deadline = time.monotonic() + BROKER_START_SECONDS
        with closing(Transport(self.settings)) as transport:
            while not self._stopping.wait(0.05):
                try:
                    transport.ping()
                    transport.declare()
                    break
                except BROKER_ERRORS as error:
                    if time.monotonic() > deadline:
                        raise Unavailable(f"the broker does not answer: {error}") from error

    def _start_everything(self) -> None:
        for stage in QUEUES:
            copies = pool_size(self.settings, stage) if POOLS[stage].kind == "solo" else 1
            for number in range(1, copies + 1):
                self._add(f"{stage}-{number}", _sluice("worker", stage), is_worker=True)
        self._add("reconciler", _sluice("reconcile"))
        self._add("api", _sluice("api"))
        for child in self.children:
            if child.process is None:
                self._start(child)
        log.info("up", processes=len(self.children), http_port=self.settings.http_port)

    def _add(self, name: str, command: Sequence[str], *, is_worker: bool = False) -> Child:
        child = Child(name, command, is_worker)
        self.children.append(child)
        return child

    def _start(self, child: Child) -> None:
        output = self._log_file(child.name)
        child.process = subprocess.Popen(  # noqa: S603 - our own command line
            child.command,
            env=self._environment(),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            preexec_fn=tied_to_parent(),
            process_group=0,  # so that Ctrl-C reaches the supervisor alone, which stops the others in order
        )
        if output is not None:
            os.close(output)
        child.started_at = time.monotonic()
        self._write_process_table()

    def _log_file(self, name: str) -> int | None:
        if self.log_dir is None:
            return None
        self.log_dir.mkdir(parents=True, exist_ok=True)
        return os.open(self.log_dir / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **environment_of(self.settings)}

    def _watch(self) -> None:
        while not self._stopping.wait(0.1):
            for child in self.children:
                if child.process is not None and child.process.poll() is not None:
                    self._bury(child)
                if child.process is None and time.monotonic() >= child.start_after:
                    self._start(child)

    def _bury(self, child: Child) -> None:
        process = child.process
        if process is None:
            return
        child.process = None
        child.deaths += 1
        steady = time.monotonic() - child.started_at > STEADY_AFTER_SECONDS
        child.pause_seconds = FIRST_PAUSE_SECONDS if steady else min(child.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        child.start_after = time.monotonic() + child.pause_seconds
        log.warning("process_died", name=child.name, pid=process.pid, status=process.returncode)
        forget_process(process.pid)
        if child.is_worker:
            self._hand_back(child, process.pid)

    def _hand_back(self, child: Child, process_id: int, *, died: bool = True) -> None:
        worker = worker_name(child.name.rsplit("-", 1)[0], process_id)
        try:
            with Ledger(self.settings.ledger_location) as ledger, closing(Transport(self.settings)) as transport:
                released = ledger.release(worker, max_deliveries=self.settings.delivery.max_deliveries, died=died)
                transport.publish(released)
        except (Unavailable, *BROKER_ERRORS) as error:
            log.warning("hand_back_failed", worker=worker, error=repr(error))
        else:
            log.info("claims_handed_back", worker=worker, events=len(released))

    def _stop_everything(self) -> None:
        workers = [child for child in self.children if child.name != "broker"]
        broker = [child for child in self.children if child.name == "broker"]
        for group in (workers, broker):
            for child in group:
                if child.pid:
                    os.kill(child.pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            for child in group:
                killed = _await_end(child, deadline)
                if killed and child.is_worker:
                    self._hand_back(child, killed, died=False)
        (self.settings.data_dir / "processes.json").unlink(missing_ok=True)

    def _kill_everything(self) -> None:
        for child in self.children:
            if child.pid:
                os.killpg(child.pid, signal.SIGKILL)

    def _write_process_table(self) -> None:
        table = {child.name: child.pid for child in self.children if child.pid}
        path = self.settings.data_dir / "processes.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(table, indent=1))
        partial.rename(path)


def require_free_port(host: str, port: int) -> None:
    """Find out now, and not from a process that dies again and again, whether the port can be had.

    Raises:
        InvalidSetting: it is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            problem = f"{host}:{port} cannot be had ({error.strerror})"
            raise InvalidSetting("http_port", problem, "set another one with SLUICE_HTTP_PORT") from error


def _sluice(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workers.cli", *arguments]


def _await_end(child: Child, deadline: float) -> int | None:
    """Wait for the child's end; the id of its process where that, with all it had forked, had to be killed."""
    if child.process is None:
        return None
    try:
        child.process.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        log.warning("process_killed", name=child.name, pid=child.process.pid)
        os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()
        return child.process.pid
    return None
