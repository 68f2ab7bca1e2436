"""A real, whole Sluice instance, for tests and benches: every process, on free ports, in a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from sluice.contracts.api import ENDED
from tests.support.repository import IMPORT_PATH, MODELS

START_SECONDS = 240.0
"""The first start of all builds the embedding graph from the weights."""
CHROMIUM = "SLUICE_CRAWL__CHROMIUM_PATH"
NOT_INHERITED = ("SLUICE_", "PROMETHEUS_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Variables of this process that would change how an instance behaves, or hide what it lacks."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Instance:
    """`sluice up` as a child process. `settings` are SLUICE_* variables without their prefix.

    `program` is an installed `sluice`; by default it is the one of this repository.
    """

    def __init__(self, folder: Path, *, program: Path | None = None, **settings: str) -> None:
        self.folder = folder
        self._command = [str(program)] if program else [sys.executable, "-m", "sluice.cli"]
        self.data_dir = folder / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)},
            **{name: os.environ[name] for name in (CHROMIUM,) if name in os.environ},
            "SLUICE_DATA_DIR": str(self.data_dir),
            "SLUICE_HTTP_PORT": str(self.port),
            "SLUICE_EMBED__MODEL_DIR": str(MODELS),
            "SLUICE_DELIVERY__LEASE_SECONDS": "5",
            **{f"SLUICE_{name}": value for name, value in settings.items()},
        }
        if not program:
            self.environment["PYTHONPATH"] = IMPORT_PATH
        self._process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=self.url, timeout=180)

    def start(self) -> None:
        """Begin to run it; it is not well yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = (self.folder / "up.log").open("ab")
        self._process = subprocess.Popen(
            [*self._command, "up", "--log-dir", str(self.folder / "logs")],
            cwd=self.folder,
            env=self.environment,
            stdout=log,
            stderr=log,
        )

    def __enter__(self) -> Self:
        self.start()
        try:
            self._await_health()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.http.close()
        self._stop()

    def kill(self) -> None:
        """End `sluice up` at once, by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def process_id(self) -> int:
        """Of `sluice up` itself, while the instance runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def processes(self) -> dict[str, int]:
        """Process ids by name, as `sluice up` records them."""
        table: dict[str, int] = json.loads((self.data_dir / "processes.json").read_text())
        return table

    def sluice(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command of the command line against this instance."""
        return subprocess.run(
            [*self._command, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def agent_key(self, corpus: str) -> str:
        """A new key of an agent, limited to this corpus."""
        made = self.sluice("keys", corpus, "--create", "--role", "agent", "--corpus", corpus, "--json")
        assert made.returncode == 0, made.stdout + made.stderr
        return str(json.loads(made.stdout)["key"])

    def ask(self, query: str, **fields: Any) -> dict[str, Any]:
        """`POST /v1/gate` with `wait`; the finished run."""
        response = self.http.post("/v1/gate", json={"query": query, "wait": True, "create_corpus": True, **fields})
        assert response.status_code == 200, response.text
        run: dict[str, Any] = response.json()
        return run

    def events(self, run_id: str) -> list[dict[str, Any]]:
        """Every event of a finished run, in order, from its stream."""
        streamed = self.http.get(f"/v1/runs/{run_id}/events").text.split("\n")
        return [json.loads(line.removeprefix("data:")) for line in streamed if line.startswith("data:")]

    def wait(self, run_id: str, timeout_seconds: float = 240) -> dict[str, Any]:
        """The run once it has ended."""
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            run: dict[str, Any] = self.http.get(f"/v1/runs/{run_id}").json()
            if run["status"] in ENDED:
                return run
            time.sleep(0.05)
        raise AssertionError(f"run {run_id} did not end: {run}")

    def _await_health(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        problem = "no answer"
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                response = self.http.get("/healthz", timeout=5)
                if response.status_code == 200:
                    return
                problem = response.text
            except httpx.TransportError as error:
                problem = repr(error)
            time.sleep(0.1)
        raise RuntimeError(f"the instance is not well: {problem}\n{self.logs()}")

    def logs(self, last_lines: int = 15) -> str:
        """The end of every process's log."""
        files = [self.folder / "up.log", *sorted((self.folder / "logs").glob("*.log"))]
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-last_lines:])
            for path in files
            if path.exists()
        )
