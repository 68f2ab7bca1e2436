"""The systemd units: systemd's own checks accept and rate them, and the processes speak to it as the units expect."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.disk.jail import NOBODY
from tests.support.instance import Instance
from tests.support.repository import REPOSITORY
from tests.support.waiting import until

UNITS = REPOSITORY / "deploy" / "systemd"
NAMES = ("sluice.service", "sluice-crawl.service")
MOST_EXPOSED = 3.0
KILLS_THE_BROWSER = ("MemoryDenyWriteExecute", "PrivateUsers")
COVERS_PROC = ("ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset")
"""Settings under which the kernel refuses a fresh /proc in a user namespace (mount_too_revealing)."""


def directives(name: str) -> dict[str, str]:
    """The settings of a unit; of one that is given several times, the last."""
    return dict(re.findall(r"^(\w+)=(.*)$", (UNITS / name).read_text(), re.MULTILINE))


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("no systemd-analyze here: install Debian's package systemd")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_systemd_has_nothing_to_say_about_a_unit(name: str, analyze: str, tmp_path: Path) -> None:
    for unit in NAMES:  # where Sluice is not installed, `verify` would miss its program
        (tmp_path / unit).write_text((UNITS / unit).read_text().replace("/opt/sluice/bin/sluice", sys.executable))
    done = subprocess.run([analyze, "verify", tmp_path / name], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_hardly_exposed(name: str, analyze: str) -> None:
    command = [analyze, "security", "--offline=yes", "--no-pager", UNITS / name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert float(re.findall(r"Overall exposure level for \S+ ([\d.]+)", done.stdout)[0]) <= MOST_EXPOSED, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_notified_watched_limited_and_stopped_in_order(name: str) -> None:
    given = directives(name)
    wanted = {
        "Type": "notify",
        "WatchdogSec": "30",
        "KillMode": "mixed",
        "TimeoutStopSec": "30",
        "StateDirectory": "sluice",
        "LoadCredential": "SLUICE:/etc/sluice/credentials",
        "OOMPolicy": "continue",
        "NoNewPrivileges": "yes",
    }
    assert {key: given.get(key) for key in wanted} == wanted
    assert given["MemoryMax"]


def test_the_browser_keeps_its_room() -> None:
    given = directives("sluice-crawl.service")
    assert not {*KILLS_THE_BROWSER, *COVERS_PROC} & set(given)
    assert {"user", "pid", "net", "mnt", "ipc"} <= set(given["RestrictNamespaces"].split())
    assert "@mount" in given["SystemCallFilter"].split()
    assert set(COVERS_PROC[:-1]) <= set(directives("sluice.service"))


def doctor_of_a_unit(covered: str = "") -> dict[str, str]:
    """What `sluice doctor`, as an unprivileged user, says of the browser after a shell has covered parts of /proc."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        reads = "--inh-caps +dac_read_search --ambient-caps +dac_read_search"  # the interpreter may be root's own
        user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {reads}"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{covered} exec {user} {sys.executable} -m sluice.cli doctor --json"],
            env={**Instance(Path(folder)).environment, "HOME": folder},
            capture_output=True,
            text=True,
            timeout=120,
        )
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    found: dict[str, str] = checks["chromium"]
    return found


def test_doctor_names_a_proc_that_the_browser_does_not_get() -> None:
    """As under a unit with ProtectKernelTunables, which covers /proc/sys."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("a mount namespace of our own takes root")
    free = doctor_of_a_unit()
    if "sandboxed" not in free["detail"]:
        pytest.skip(f"no browser here: {free['detail']}")
    assert "/proc of its own" not in free["detail"]
    covered = doctor_of_a_unit("mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys &&")
    assert covered["state"] == "warn"
    assert "/proc of its own" in covered["detail"]


@contextmanager
def manager(path: Path) -> Iterator[socket.socket]:
    """What systemd is to a service: a datagram socket that is told of its state."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(path))
        door.settimeout(120)
        yield door


def told(door: socket.socket, wanted: str) -> str:
    """The first message that holds `wanted`."""
    while wanted not in (message := door.recv(4_096).decode()):
        pass
    return message


@contextmanager
def service(instance: Instance, door: socket.socket, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with (instance.folder / f"{command[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sluice.cli", *command],
            env={**instance.environment, "NOTIFY_SOCKET": door.getsockname()},
            stdout=log,
            stderr=log,
        )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=40) == 0
        finally:
            process.kill()
            process.wait()


def health_of(instance: Instance) -> dict[str, Any]:
    checks: dict[str, Any] = httpx.get(f"{instance.url}/healthz").json()["checks"]
    return checks


def test_two_services_make_one_instance_and_tell_systemd_that_they_live(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    with manager(tmp_path / "up") as up, manager(tmp_path / "crawl") as crawl:
        with service(instance, up, "up", "--without", "crawl"):
            assert "STATUS=see http" in told(up, "READY=1")
            assert told(up, "WATCHDOG=1")
            # another unit is to run it, and health says that it lacks
            until(lambda: health_of(instance)["workers"]["detail"] == "no worker for crawl")
            with service(instance, crawl, "worker", "crawl"):
                assert told(crawl, "READY=1")
                assert told(crawl, "WATCHDOG=1")
                until(lambda: httpx.get(f"{instance.url}/healthz").status_code == 200)
        assert told(up, "STOPPING=1")
