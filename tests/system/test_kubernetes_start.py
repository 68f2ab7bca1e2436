"""The command of every container of deploy/kubernetes, started with exactly the environment of its manifest, as its user, with
its volumes and a root that nobody writes to, until its probes say ready; and ended as a kubelet does.

The ledger is a real PostgreSQL, the broker a real Valkey, the object store a folder. What the image adds is set as well:
its variables, and where its programs are.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest

from sluice.workers.broker.embedded import broker_command
from sluice.workers.settings import Settings
from tests.support.kubernetes.manifests import BASE, Object, containers_of, environment_of, name_of, pod_of, resources
from tests.support.postgresql import new_database
from tests.support.repository import REPOSITORY
from tests.support.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(900)]

ENTER = Path(__file__).parents[1] / "support" / "kubernetes" / "container.sh"
OBJECTS = [*resources(BASE)]
ORDER = [("Job", "upgrade"), *sorted(name_of(one) for one in OBJECTS if pod_of(one) and one["kind"] != "Job")]
OF_THE_IMAGE = {
    "PATH": "/app/.venv/bin:/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": "/app/src:/app/clients/python",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HOME": "/tmp",
    "SLUICE_DATA_DIR": "/data",
}
PATIENCE_SECONDS = 600.0
"""More than startup probes allow: the machine may be busy."""


@dataclass
class Stores:
    """The ledger's socket, the object store and the secrets, in a folder; the broker's network, which containers share."""

    folder: Path
    network: Path


@pytest.fixture(scope="module")
def stores(postgresql_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """What the Secrets name."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("LOUD: only root makes containers out of namespaces; nothing was started")
    folder = tmp_path_factory.mktemp("stores")
    for part in folder.parents[:2]:
        part.chmod(0o711)
    folder.chmod(0o755)
    (folder / "objects").mkdir()
    (folder / "objects").chmod(0o777)
    with psycopg.connect(postgresql_cluster) as connection:
        (sockets,) = connection.execute("SHOW unix_socket_directories").fetchone() or ("",)
        port = connection.info.port
    Path(sockets).chmod(0o711)
    (folder / "ledger").mkdir()
    subprocess.run(["mount", "--bind", sockets, folder / "ledger"], check=True)
    database = new_database(postgresql_cluster).rpartition("/")[2]
    secrets = {
        "SLUICE_LEDGER_URL": f"postgresql+psycopg://sluice@/{database}?host=/stores/ledger&port={port}",
        "SLUICE_BROKER_URL": "redis://127.0.0.1:6379/0",
        "SLUICE_OBJECT_STORE__URL": "file:///stores/objects",
        "SLUICE_SIGNING_KEY": "ab" * 32,
    }
    (folder / "secrets").mkdir()
    for name, value in secrets.items():
        (folder / "secrets" / name).write_text(value)
    server = broker_command(Settings(data_dir=folder))[0]
    serve = f"ip link set lo up && exec {server} --port 6379 --save ''"
    broker = subprocess.Popen(["unshare", "--net", "sh", "-c", serve], stdout=subprocess.DEVNULL, cwd=folder)
    try:
        yield Stores(folder, Path(f"/proc/{broker.pid}/ns/net"))
    finally:
        broker.kill()
        broker.wait()
        subprocess.run(["umount", folder / "ledger"], check=True)


@dataclass
class Container:
    """A container of a manifest, for as long as it runs."""

    manifest: Object
    running: subprocess.Popen[bytes]
    log: Path

    @property
    def process(self) -> psutil.Process:
        """The process that the kubelet would signal."""
        (found,) = psutil.Process(self.running.pid).children() or [None]
        assert found, self.told()
        return found

    def told(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-4_000:]

    def status(self, probe: str) -> int:
        """What its probe gets, asked from inside of its network; 0 where nobody answers."""
        (spec,) = containers_of(self.manifest)
        asked = spec[probe]["httpGet"]
        port = next(one["containerPort"] for one in spec["ports"] if one["name"] == asked["port"])
        ask = (
            "import http.client, sys\n"
            f"one = http.client.HTTPConnection('127.0.0.1', {port}, timeout=5)\n"
            f"one.request('GET', {asked['path']!r})\nprint(one.getresponse().status)"
        )
        inside = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", sys.executable, "-S", "-c", ask]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=30)
        return int(done.stdout or 0)

    def is_ready(self) -> bool:
        """Whether its startup, liveness and readiness probes are answered well."""
        assert self.running.poll() is None, self.told()
        return all(self.status(f"{one}Probe") == 200 for one in ("startup", "liveness", "readiness"))

    def megabytes(self) -> int:
        """Memory of its processes, what they share counted once."""
        every = [self.process, *self.process.children(recursive=True)]
        return round(sum(one.memory_full_info().pss for one in every) / 1e6)


@pytest.fixture
def start(stores: Stores, tmp_path: Path) -> Iterator[object]:
    """Starts the container of a manifest."""
    started: list[Container] = []

    def make(manifest: Object, *instead: str) -> Container:
        (spec,) = containers_of(manifest)
        mounts = {one["mountPath"] for one in spec["volumeMounts"]} - {"/dev/shm"}
        assert mounts == {"/data", "/tmp", "/run/metrics", "/run/secrets"}, "container.sh has these"
        environment = OF_THE_IMAGE | environment_of(spec, OBJECTS)
        root, log = tmp_path / f"root-{len(started)}", tmp_path / f"{len(started)}.log"
        root.mkdir()
        alone = ["nsenter", f"--net={stores.network}", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
        variables = [f"{name}={value}" for name, value in environment.items()]
        with log.open("wb") as output:
            command = [
                *alone,
                "sh",
                ENTER,
                root,
                REPOSITORY,
                stores.folder,
                "-i",
                *variables,
                *(instead or spec["args"]),
            ]
            running = subprocess.Popen(command, stdout=output, stderr=output)
        started.append(Container(manifest, running, log))
        return started[-1]

    yield make
    for container in started:
        container.running.kill()
        container.running.wait()


@pytest.mark.parametrize("which", ORDER, ids="/".join)
def test_it_starts_as_its_manifest_says_until_it_is_ready_and_ends_in_order(
    which: tuple[str, str], start: object, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = next(one for one in OBJECTS if name_of(one) == which)
    if which == ("Deployment", "api"):  # it does not start without a key; the README makes one so
        gate = next(one for one in OBJECTS if name_of(one) == ("Deployment", "gate"))
        made = start(gate, "sluice", "keys", "me", "--create", "--role", "operator")  # type: ignore[operator]
        assert made.running.wait(PATIENCE_SECONDS) == 0, made.told()
    began = time.monotonic()
    container = start(manifest)  # type: ignore[operator]
    if which[0] == "Job":
        assert container.running.wait(PATIENCE_SECONDS) == 0, container.told()
        with capsys.disabled():
            print(f"\n  {'/'.join(which):24} done after {time.monotonic() - began:.1f} s")
        return
    until(lambda: len(psutil.Process(container.running.pid).children()) == 1)
    until(container.is_ready, PATIENCE_SECONDS)
    seconds, megabytes = time.monotonic() - began, container.megabytes()
    process = container.process
    assert process.uids().real == 10001
    assert "Read-only file system" not in container.told()
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert container.running.wait(60) == 0, container.told()
    ended = time.monotonic() - began
    asked = containers_of(manifest)[0]["resources"]["requests"]["memory"]
    with capsys.disabled():
        print(
            f"\n  {'/'.join(which):24} ready after {seconds:.1f} s with {megabytes} MB of {asked}, gone in {ended:.1f} s"
        )
