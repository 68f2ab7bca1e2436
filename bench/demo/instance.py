"""A whole Sluice for the demonstration: its own folder, free ports, `sluice up` as a child process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import tomlkit
from pydantic import ValidationError

from bench.demo.web import DemoWeb
from contracts.api import Health

START_SECONDS = 120.0
"""The first start builds the embedding graph from the weights."""
ANSWER_SECONDS = 10.0
STOP_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 0.25


class DemoInstance:
    """One instance in `folder`, which is emptied first. `start` returns when every part of it is well."""

    def __init__(self, folder: Path, web: DemoWeb) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._port = _free_port()
        self.config = folder / "sluice.toml"
        self.config.write_text(_configuration(folder, self._port, web))
        self.log = folder / "sluice.log"
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a command meets this instance and no other."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        chromium = os.environ.get("SLUICE_CRAWL__CHROMIUM_PATH")
        given = {"SLUICE_CRAWL__CHROMIUM_PATH": chromium} if chromium else {}
        return {**inherited, **given, "SLUICE_CONFIG": str(self.config)}

    def start(self) -> None:
        """Start every pool and wait until `/healthz` says that all is well.

        Raises:
            RuntimeError: it ended, or was not well in time; names what is not.
        """
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [_sluice(), "up"], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline, problem = time.monotonic() + START_SECONDS, "it does not answer"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"`sluice up` ended with {self._process.returncode}; see {self.log}")
            problem = _unwell(self.url)
            if not problem:
                return
            time.sleep(LOOK_AGAIN_SECONDS)
        raise RuntimeError(f"Sluice was not ready after {START_SECONDS:g} s: {problem}; see {self.log}")

    def trace(self, run_id: str) -> str:
        """What `sluice trace` prints; empty when it failed."""
        command = [_sluice(), "trace", run_id]
        printed = subprocess.run(
            command, env={**self.environment, "COLUMNS": "120"}, capture_output=True, text=True, check=False
        )
        return printed.stdout if printed.returncode == 0 else ""

    def stop(self) -> None:
        """End `sluice up` and with it all its children; may be called again."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


def _sluice() -> str:
    return str(Path(sys.executable).parent / "sluice")


def _unwell(url: str) -> str:
    """What is not well yet; empty when all is. Asked once: whether to ask again is the caller's business."""
    try:
        health = Health.model_validate_json(httpx.get(f"{url}/healthz", timeout=ANSWER_SECONDS).content)
    except (httpx.HTTPError, ValidationError) as error:
        return str(error)
    return ", ".join(f"{name}: {check.detail}" for name, check in health.checks.items() if not check.ok)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _configuration(folder: Path, port: int, web: DemoWeb) -> str:
    settings = {
        "data_dir": str(folder / "data"),
        "instance": "demo",
        "http_port": port,
        "search": {"enabled": True, "providers": ["searxng"], "searxng_url": web.search_url},
        "crawl": {"enabled": True, "render": "always", "max_pages": 6, "requests_per_second_per_host": 20.0},
        "egress": {"allow": [web.host_and_port]},
    }
    return tomlkit.dumps(settings)
