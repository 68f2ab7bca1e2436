"""A real RabbitMQ: one for each process of a test run, by an unprivileged user, in folders and on ports of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import kombu
import psutil
import pytest

from sluice.workers.broker.transport import BROKER_ERRORS
from tests.support.instance import free_port
from tests.support.postgresql import give_away
from tests.support.waiting import until

START_SECONDS = 180.0
"""It takes five seconds of a processor that it may have to share."""
SCRIPT = "/usr/lib/rabbitmq/bin/rabbitmq-server"
IDLE = "+sbwt none +sbwtdcpu none +sbwtdio none"
"""Options of Erlang: threads that have nothing to do sleep at once."""


class RabbitMq:
    """A server that can be killed, started again and stopped for a while."""

    def __init__(self, *configuration: str, arguments: str = "", certificate: tuple[Path, Path] | None = None) -> None:
        """`configuration` are lines of its rabbitmq.conf, `arguments` are Erlang's; with a certificate and its key it listens with TLS too, at
        `tls_url`. Skips the test where RabbitMQ is not installed."""
        if not os.path.exists(SCRIPT) or shutil.which("epmd") is None:
            pytest.skip(f"no RabbitMQ: {SCRIPT} or epmd is missing (Debian package rabbitmq-server)")
        self.folder = Path(tempfile.mkdtemp(prefix="rabbitmq-", dir="/tmp"))
        self.port, self._names_port, distribution_port = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        lines = ("loopback_users.guest = true", "log.console = false", "disk_free_limit.absolute = 1MB", *configuration)
        if certificate:
            tls_port = free_port()
            self.tls_url = f"amqps://guest:guest@127.0.0.1:{tls_port}//"
            lines += (f"listeners.ssl.default = 127.0.0.1:{tls_port}",)
            for name, path in zip(("certfile", "keyfile"), certificate, strict=True):
                (self.folder / name).write_bytes(path.read_bytes())
                (self.folder / name).chmod(0o644)
                lines += (f"ssl_options.{name} = {self.folder / name}",)
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "enabled_plugins").write_text("[].\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._names_port),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_NODENAME": f"sluice{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(self.folder / "rabbitmq.pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{127,0,0,1}} {IDLE} {arguments}",
        }
        self._as_user = give_away(self.folder)
        self._names = self._run(["epmd", "-address", "127.0.0.1", "-port", str(self._names_port)])
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it, and return once it answers."""
        sbin = next(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
        self._server = self._run([str(sbin / "rabbitmq-server")])
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            assert self._server.poll() is None, (self.folder / "out").read_text()[-4_000:]
            assert time.monotonic() < deadline, "RabbitMQ does not start"
            time.sleep(0.2)

    def answers(self) -> bool:
        """Whether it takes a connection now."""
        try:
            with kombu.Connection(self.url, connect_timeout=5, transport_options={"read_timeout": 5}) as connection:
                connection.ensure_connection(max_retries=0)
        except BROKER_ERRORS:
            return False
        return True

    @property
    def process(self) -> psutil.Process:
        """The one that does the work."""
        assert self._server is not None
        below = psutil.Process(self._server.pid).children(recursive=True)
        return next(one for one in below if one.name().startswith("beam"))

    def kill(self) -> None:
        """End it at once."""
        if self._server is not None:
            self._signal(signal.SIGKILL)
            self._server.wait()

    def hang(self) -> None:
        """Let it do nothing more, and return once it does nothing."""
        process = self.process
        self._signal(signal.SIGSTOP)
        until(lambda: process.status() == psutil.STATUS_STOPPED)

    def go_on(self) -> None:
        """End a hang."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._server is not None
        with suppress(ProcessLookupError):
            os.killpg(self._server.pid, number)

    def forget(self) -> None:
        """Remove all that it keeps, once it is dead."""
        shutil.rmtree(self.folder / "mnesia")

    def remove(self) -> None:
        """End it for good, and all that belongs to it."""
        self.kill()
        self._names.kill()
        self._names.wait()
        shutil.rmtree(self.folder)

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "out").open("ab") as out:
            return subprocess.Popen(
                [*self._as_user, *command],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMq]:
    """The RabbitMQ that the tests of this process share, each by another name of its instance."""
    server = RabbitMq()
    try:
        server.start()
        yield server
    finally:
        server.remove()
