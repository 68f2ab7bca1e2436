"""Prometheus and promtool of Debian's package, and a Prometheus that scrapes one instance."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.instance import free_port
from tests.support.repository import REPOSITORY

UNPACKED = REPOSITORY / ".cache" / "prometheus" / "usr" / "bin"
"""Where `make setup` puts it."""
START_SECONDS = 60.0


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; without it the test is skipped and says so."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        pytest.skip(f"no {name} here: `make setup` unpacks Debian's package prometheus")
    return found


class Prometheus:
    """A running Prometheus, asked over its HTTP interface."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that the expression gives now; an expression that it cannot evaluate fails the test."""
        told = self._http.get("/api/v1/query", params={"query": expression}).json()
        assert told["status"] == "success", f"{expression}: {told.get('error')}"
        found: Any = told["data"]["result"]
        return found if told["data"]["resultType"] == "vector" else [{"metric": {}, "value": found}]

    def series(self, selector: str) -> list[dict[str, str]]:
        """The label sets of the series that the selector matches."""
        told = self._http.get("/api/v1/series", params={"match[]": selector}).json()
        assert told["status"] == "success", f"{selector}: {told.get('error')}"
        found: list[dict[str, str]] = told["data"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Every rule, once each was evaluated, with how its last evaluation went."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            groups = self._http.get("/api/v1/rules").json()["data"]["groups"]
            rules: list[dict[str, Any]] = [rule for group in groups for rule in group["rules"]]
            if rules and all(rule["health"] != "unknown" for rule in rules):
                return rules
            assert time.monotonic() < deadline, "Prometheus did not evaluate its rules"
            time.sleep(0.1)

    def exemplars(self, selector: str) -> list[dict[str, Any]]:
        """The exemplars of the series that the selector matches, of the last hour."""
        now = time.time()
        asked = {"query": selector, "start": str(now - 3_600), "end": str(now + 60)}
        found: list[dict[str, Any]] = self._http.get("/api/v1/query_exemplars", params=asked).json()["data"]
        return found

    def wait_for_scrapes(self, count: int) -> None:
        """Until so many scrapes of the target have succeeded from now on."""
        began, deadline = time.time(), time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if sum(at > began for at, _ in self._samples("up")) >= count:
                return
            time.sleep(0.1)
        raise AssertionError("Prometheus did not scrape the instance")

    def _samples(self, name: str) -> list[Any]:
        try:
            told = self._http.get("/api/v1/query", params={"query": f"{name}[10m]"}).json()
        except httpx.TransportError:
            return []
        return [value for one in told["data"]["result"] for value in one["values"] if value[1] == "1"]


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes `/metrics` of `target` (host:port) every second, by the alerts of deploy/."""
    folder.mkdir(parents=True, exist_ok=True)
    scrape = {"job_name": "sluice", "static_configs": [{"targets": [target], "labels": {"service": "sluice"}}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(REPOSITORY / "deploy" / "alerts.yaml")],
        "scrape_configs": [scrape],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        running.terminate()
        running.wait(timeout=20)
