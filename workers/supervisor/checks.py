"""Checks that a supervisor makes: its lock on the data directory, the port, the instance's health, the memory of
processes, whether the reconciler ticks, and which processes outlived their parents."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import structlog
from sqlalchemy import select

from sluice.contracts.errors import Conflict, InvalidSetting, SluiceError
from sluice.ledger.database import Database
from sluice.ledger.schema.tables import leases
from sluice.workers.broker.embedded import answers
from sluice.workers.broker.transport import BROKER_ERRORS, Transport
from sluice.workers.processes.kernel import ProcessFacts, all_processes, anonymous_bytes, descendants, facts_of, kill
from sluice.workers.processes.reconciler import LEASE
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)


class InstanceLock:
    """The supervisor's lock. A forked child must close its descriptor, else the lock outlives the supervisor."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Acquire the lock. Raises `Conflict` if another supervisor has it."""
        descriptor = os.open(self._data_dir / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise Conflict(f"another `sluice up` runs on {self._data_dir}") from error
        self._descriptor = descriptor

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that a forked child must close."""
        return () if self._descriptor is None else (self._descriptor,)

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def require_free_port(host: str, port: int) -> None:
    """Check that the port is free, now and not in a process that dies again and again.

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


LONGEST_SECONDS = 120.0
"""The first start of all builds the embedding graph, which takes a minute on a slow machine."""
PAUSE_SECONDS = 0.25
ANSWER_SECONDS, PING_SECONDS = 10.0, 3.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what a server listens on, not what we listen on


def await_health(host: str, port: int, path: str) -> None:
    """Return once `path` answers 200. Raises `SystemExit(1)` if it did not for `LONGEST_SECONDS`."""
    give_up_at = time.monotonic() + LONGEST_SECONDS
    while not _is_well(_EVERYWHERE.get(host, host), port, path):
        if time.monotonic() > give_up_at:
            raise SystemExit(1)
        time.sleep(PAUSE_SECONDS)


def _is_well(host: str, port: int, path: str) -> bool:
    connection = HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


_UNTIL = select(leases.c.until).where(leases.c.name == LEASE)


def largest_bytes(process_id: int, processes: Sequence[ProcessFacts]) -> int:
    """Return the memory of a worker, or of a child of its pool if that is larger."""
    children = [process.pid for process in processes if process.parent == process_id and process.group == process_id]
    return max(anonymous_bytes(one) for one in (process_id, *children))


def browser_bytes(process_id: int, processes: Sequence[ProcessFacts]) -> int:
    """Return the memory of a worker's browser, all its processes together: those below the worker in other groups."""
    below = descendants(process_id, processes)
    return sum(anonymous_bytes(process.pid) for process in below if process.group != process_id)


def reconciler_is_late(settings: Settings, age_seconds: float) -> bool:
    """Return whether a reconciler, started so long ago, has ticked but no longer does, though ledger and broker answer.

    At every tick it renews its lease; one that has just begun to start has none.
    """
    try:
        with closing(Transport(settings)) as transport:
            transport.ping()
            transport.declare()
        with closing(Database(settings.ledger_location)) as database, database.reading() as connection:
            until: float = connection.execute(_UNTIL).scalar() or 0.0
            now = database.clock()
    except (SluiceError, *BROKER_ERRORS):
        return False
    return now - age_seconds < until < now


def broker_is_silent(settings: Settings, _age_seconds: float) -> bool:
    """Return whether the embedded broker answers no ping."""
    return not answers(settings.broker_location, PING_SECONDS)


GONE_SECONDS = 2.0
"""Seconds that a killed process may take to be gone."""
_LOOK_SECONDS = 0.02


def own_children() -> set[int]:
    """Return every child of this process, adopted ones and zombies too."""
    return {process.pid for process in all_processes() if process.parent == os.getpid()}


def end_orphans(known: Collection[int]) -> None:
    """Kill and reap all children of this process, adopted ones included, that are not in `known`."""
    for process_id in own_children().difference(known):
        if _lives(process_id):
            log.info("orphan_killed", pid=process_id)
            kill(process_id)
        with suppress(ChildProcessError):
            os.waitpid(process_id, os.WNOHANG)


def end_all_orphans(known: Collection[int]) -> None:
    """Repeat until no orphan is left: the children of a killed one become ours, generation by generation."""
    deadline = time.monotonic() + GONE_SECONDS
    while own_children().difference(known) and time.monotonic() < deadline:
        end_orphans(known)
        time.sleep(_LOOK_SECONDS)


def end_left_behind(left: Mapping[str, int]) -> None:
    """Kill the processes left by a dead supervisor, with all their descendants."""
    processes = all_processes()
    everybody: list[int] = []
    for name, process_id in left.items():
        log.warning("left_behind_killed", name=name, pid=process_id)
        everybody += [process_id, *(process.pid for process in descendants(process_id, processes))]
    for process_id in everybody:
        kill(process_id)
    deadline = time.monotonic() + GONE_SECONDS
    while any(map(_lives, everybody)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _lives(process_id: int) -> bool:
    facts = facts_of(process_id)
    return facts is not None and facts.lives
