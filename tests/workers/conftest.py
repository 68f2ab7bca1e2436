"""Ledgers to test with: SQLite in a file, and a PostgreSQL cluster of this session's own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger.ledger import Ledger
from tests.ingest.conftest import Site
from tests.workers.instance import Instance, MakeInstance
from tests.workers.ledger_story import Clock, Story
from workers.broker.embedded import broker_command, prepare_broker
from workers.broker.transport import BROKER_ERRORS, Transport
from workers.settings import Settings


@dataclass
class Valkey:
    """A real broker that can be killed and started again, and the settings that find it."""

    settings: Settings
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it, and return once it answers and knows the queues."""
        prepare_broker(self.settings)
        self.process = subprocess.Popen(broker_command(self.settings), stdout=subprocess.DEVNULL)
        transport, deadline = Transport(self.settings), time.monotonic() + 20
        while True:
            try:
                transport.declare()
            except BROKER_ERRORS:
                assert time.monotonic() < deadline, "the broker does not start"
                time.sleep(0.02)
            else:
                transport.close()
                return

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    """An instance's own broker, running."""
    broker = Valkey(Settings(data_dir=tmp_path))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    cluster: str = request.getfixturevalue("postgresql_cluster")
    schema = f"t_{secrets.token_hex(6)}"
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return cluster.replace("postgresql://", "postgresql+psycopg://") + f"?options=-csearch_path%3D{schema}"


@pytest.fixture
def story(ledger_url: str, clock: Clock) -> Iterator[Story]:
    with Ledger(ledger_url, clock=clock) as ledger:
        yield Story(ledger, clock, ledger_url)


@pytest.fixture(scope="session")
def postgresql_cluster() -> Iterator[str]:
    """The URL of a throw-away cluster on loopback, run by an unprivileged user."""
    binaries = _server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries under /usr/lib/postgresql (Debian package postgresql)")
    folder, port = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp")), _free_port()
    as_user = _give_away(folder)
    data = str(folder / "data")
    initialise = [
        *as_user,
        str(binaries / "initdb"),
        "-D",
        data,
        "-U",
        "sluice",
        "-A",
        "trust",
        "--no-sync",
        "-E",
        "UTF8",
    ]
    subprocess.run([*initialise, "--locale=C.UTF-8"], check=True, capture_output=True, cwd=folder)
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder), "fsync": "off"}
    serve = [*as_user, str(binaries / "postgres"), "-D", data, "-p", str(port)]
    for name, value in options.items():
        serve += ["-c", f"{name}={value}"]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(serve, stdout=log, stderr=log, cwd=folder)
    try:
        url = f"postgresql://sluice@127.0.0.1:{port}/postgres"
        _await_server(url, server)
        yield url
    finally:
        server.send_signal(2)  # SIGINT: fast shutdown
        server.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def _server_binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _give_away(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root: the command prefix that makes it run as somebody else."""
    if os.geteuid() != 0:
        return []
    known = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in known else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _await_server(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def make_instance(valkey: Valkey) -> Iterator[MakeInstance]:
    with ExitStack() as opened:

        def make(**sections: Any) -> Instance:
            instance = Instance(valkey, sections)
            opened.callback(instance.close)
            return instance

        yield make


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    yield served
    served.close()
