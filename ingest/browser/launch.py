"""Finds the Chromium on this machine, restricts it by switches, and starts it in its own namespaces.

`find_chromium` looks for a binary; `write_launcher` writes the small script that Playwright starts in its place. As
root Chromium has no sandbox, so root starts it as another, unprivileged user. Nothing here ever turns the sandbox off.

`Guards` are the switches that disable what no crawl needs. The egress proxy and the browser's own network are
the first line of defence; these are the second.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from sluice.contracts.errors import InvalidSetting, PolicyRefused
from sluice.disk.jail import child_command
from sluice.ingest.browser import namespace

PROJECT_CHROMIUM = Path(__file__).resolve().parents[2] / ".cache" / "chromium" / "chromium"
"""The launcher of a Chromium that `make setup` unpacked, if it had to."""

PATH_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPRIVILEGED_USERS = ("sluice-browser", "nobody")
"""The users that may run the browser when we are root, the dedicated one first."""

REMEDY = "run `make setup`, install Debian's chromium and chromium-sandbox, or name a binary in crawl.chromium_path"


@dataclass(frozen=True, slots=True)
class Launcher:
    """The script that starts the browser, and the files it leaves in the folder."""

    script: Path
    process_id: Path
    """File that receives the id of a process that lives as long as the browser and is an ancestor of it."""
    egress_grant: Path
    """Unix socket on which the worker waits for the report of `ingest.browser.namespace`."""


def find_chromium(configured: Path | None, playwright_own: str) -> Path:
    """Return the first Chromium that the user who will run it can execute.

    In order: the configured one (and then no other), Playwright's own, a known name on the PATH, the one of `make
    setup`. Raises InvalidSetting if the configured one cannot be executed, or none is found.
    """
    if configured is not None:
        if not _executable(configured):
            raise InvalidSetting("crawl.chromium_path", f"{configured} is not a program that can be run here", REMEDY)
        return configured
    for candidate in _candidates(playwright_own):
        if _executable(candidate):
            return candidate
    raise InvalidSetting("crawl.chromium_path", "no Chromium was found on this machine", REMEDY)


def _candidates(playwright_own: str) -> Iterator[Path]:
    yield Path(playwright_own)
    yield from (Path(found) for name in PATH_NAMES if (found := shutil.which(name)))
    yield PROJECT_CHROMIUM


def _executable(binary: Path) -> bool:
    """Return whether the browser's user may run `binary`; root's home, for instance, is closed to others."""
    if not os.access(binary, os.X_OK) or binary.is_dir():
        return False
    if os.geteuid() != 0:
        return True
    user = unprivileged_user()
    command = [shutil.which("test") or "/usr/bin/test", "-x", str(binary)]
    done = subprocess.run(command, check=False, user=user.pw_uid, group=user.pw_gid, extra_groups=[])  # noqa: S603
    return done.returncode == 0


def unprivileged_user() -> pwd.struct_passwd:
    """Return the user that runs the browser in root's place. Raises PolicyRefused without one: root has no sandbox."""
    for name in UNPRIVILEGED_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if user.pw_uid != 0:
            return user
    raise PolicyRefused("sandbox", "there is no unprivileged user to run the browser as", "run workers without root")


def write_launcher(folder: Path, binary: Path, *, network: bool, hidden: Sequence[Path] = ()) -> Launcher:
    """Write the script that starts `binary` into the private `folder`; with `network`, in its own network if possible.

    The browser cannot see inside the folders `hidden`, where a mount namespace can be created. Raises PolicyRefused
    (`sandbox`) if we are root and there is no other user to run the browser.
    """
    launcher = Launcher(folder / "launch-chromium", folder / "chromium.pid", folder / "way-out")
    user = unprivileged_user() if os.geteuid() == 0 else None
    plan = namespace.Plan(
        egress_grant=str(launcher.egress_grant),
        process_id=str(launcher.process_id),
        network=network,
        hidden=tuple(map(str, hidden)),
        uid=user.pw_uid if user else None,
        gid=user.pw_gid if user else None,
    )
    command = child_command(namespace.__name__, json.dumps(asdict(plan)), str(binary), has_packages=False)
    launcher.script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    launcher.script.chmod(0o700)
    return launcher


@cache
def switches(kind: str) -> tuple[str, ...]:
    """Return one table of `switches.toml`: `guards`, `lean` or `weakening`."""
    return tuple(tomllib.loads(Path(__file__).with_name("switches.toml").read_text("utf-8"))[kind])


class Guards:
    """The restrictions on pages within the browser. No setting switches a part of it off: tests that prove that the
    egress proxy and the browser's network hold without it override this class.
    """

    service_workers: Literal["block", "allow"] = "block"
    judges_navigations = True
    """Whether each further address of a page is judged before the page navigates to it."""

    def switches(self, *, proxy: str, script_memory_bytes: int) -> tuple[str, ...]:
        """Return the browser's switches. `proxy` is the only address, or address pattern, that it may look up."""
        guards = (switch.replace("{proxy}", proxy) for switch in switches("guards"))
        return (*guards, *lean_switches(script_memory_bytes))


def lean_switches(script_memory_bytes: int) -> tuple[str, ...]:
    """Return the switches that save processes and memory but guard nothing."""
    megabytes = str(max(64, script_memory_bytes // 1_048_576))
    return tuple(switch.replace("{megabytes}", megabytes) for switch in switches("lean"))
