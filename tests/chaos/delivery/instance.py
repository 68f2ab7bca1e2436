"""A whole instance under test, and what the suite does to it: submit, kill, look."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.chaos.delivery import up
from tests.chaos.delivery.failpoints import Cell, arm, disarm
from tests.chaos.delivery.proxy import Proxy
from tests.chaos.delivery.witness import Witness
from tests.support.engines import BROKER, CREDENTIALS, engine_settings
from tests.support.instance import Instance
from tests.support.repository import IMPORT_PATH

LEASE_SECONDS = 5.0
EVENT_TIMEOUT_SECONDS = 8.0
"""Of one event; a hang costs this much. Handlers here take some ten milliseconds, up to seconds while all start."""
DEAF_AFTER_SECONDS = 10.0
"""A hang outside an event's handling costs this much."""
REQUEST_SECONDS = 10.0
"""Of one request, which a hang in the interface may leave without an answer."""
ACCEPT_PATIENCE_SECONDS = 120.0
"""How long a submission is tried again while the interface is killed and started."""
START_PATIENCE_SECONDS = 60.0
BLAMELESS = {"DELIVERY__MAX_DELIVERIES": "20"}
"""For kills from outside, which may hit the workers of one event again and again: it is not to be taken for poison."""


class ChaosInstance(Instance):
    """An instance whose processes have failpoints and say to the witness what they do."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, *, heals: bool = True, proxied: bool = False
    ) -> None:
        defaults = {
            "DELIVERY__LEASE_SECONDS": str(LEASE_SECONDS),
            "DELIVERY__EVENT_TIMEOUT_SECONDS": str(EVENT_TIMEOUT_SECONDS),
            "DELIVERY__DEAF_AFTER_SECONDS": str(DEAF_AFTER_SECONDS),
            "DELIVERY__RETRY_BASE_SECONDS": "0.2",
            "CRAWL__RENDER": "never",
        }
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, **(defaults | engine_settings(folder) | dict(settings or {})))
        self.environment |= CREDENTIALS
        self.environment[up.BROKER] = os.environ.get(BROKER, "")
        self.proxy = Proxy(lambda: self.broker_port) if proxied else None
        self.environment[up.FOLDER] = str(folder)
        self.environment[up.HEALING] = "on" if heals else "off"
        if self.proxy:
            self.environment[up.BROKER_PORT] = str(self.proxy.port)
        self.witness_path = folder / up.WITNESS_FILE
        self.witness = Witness(self.witness_path, "suite")

    def start(self) -> None:
        """Begin to run it with its faults; it is not well yet."""
        if self.proxy:
            self.proxy.start()
        log = (self.folder / "up.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.delivery.up", str(self.folder / "logs")],
            cwd=self.folder,
            env={**self.environment, "PYTHONPATH": IMPORT_PATH},
            stdout=log,
            stderr=log,
        )

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        if self.proxy:
            self.proxy.stop()
        self.witness.close()

    @property
    def ledger_url(self) -> str:
        """Where the ledger is."""
        return self.environment.get("SLUICE_LEDGER_URL") or f"sqlite:///{self.data_dir / 'ledger.sqlite'}"

    @property
    def broker_url(self) -> str:
        """The broker itself, past the proxy."""
        return (self.data_dir / "broker.url").read_text().strip()

    @property
    def broker_port(self) -> int:
        """The broker's own port."""
        return int(self.broker_url.rpartition(":")[2].partition("/")[0])

    def broker(self) -> redis.Redis:
        """A connection to the broker itself."""
        return redis.Redis.from_url(self.broker_url, socket_timeout=5, socket_connect_timeout=2)

    # -- work

    def submit(self, path: str, key: str, body: dict[str, Any]) -> str:
        """Hand in a request under its idempotency key, again for as long as the interface is away; the run's id."""
        deadline = time.monotonic() + ACCEPT_PATIENCE_SECONDS
        problem = ""
        while time.monotonic() < deadline:
            try:
                response = self.http.post(path, json=body, headers={"Idempotency-Key": key}, timeout=REQUEST_SECONDS)
                if response.status_code == 202:
                    run_id: str = response.json()["run_id"]
                    return run_id
                problem = f"{response.status_code} {response.text[:200]}"
                if response.status_code < 500:
                    break
            except httpx.TransportError as error:
                problem = repr(error)
            time.sleep(0.1)
        raise AssertionError(f"{path} {key} was not accepted: {problem}")

    # -- harm

    def arm(self, cell: Cell, **facts: Any) -> None:
        """Let a fault happen at a failpoint."""
        arm(self.folder, cell, **facts)

    def disarm(self) -> None:
        """Take back what has not happened."""
        disarm(self.folder)

    def process_id(self, target: str) -> int | None:
        """The process that has a stage, as `sluice up` records it; `chunk-1/child` is the child of a prefork pool."""
        name, _, of_pool = target.partition("/")
        stage = name.removesuffix("-1")
        names = self.processes if (self.data_dir / "processes.json").exists() else {}
        pid = next((pid for one, pid in names.items() if stage in one.removesuffix("-1").split("+")), None)
        if pid is None or not of_pool:
            return pid
        return next(iter(_children_of(pid)), None)

    def kill(self, target: str, stopping: threading.Event | None = None) -> int:
        """SIGKILL a process, once it is there; its id."""
        deadline = time.monotonic() + START_PATIENCE_SECONDS
        while time.monotonic() < deadline and not (stopping and stopping.is_set()):
            pid = self.process_id(target)
            if pid is not None:
                killed = [pid, *_children_of(pid)]
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                else:
                    self.witness.say("killed", target=target, killed=killed)
                    return pid
            time.sleep(0.02)
        raise AssertionError(f"there is no {target} to kill")


def _children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
