"""The Chromium on this machine: where it is, how it is started, and proof that its sandbox is on.

`find_chromium` looks for a binary; `write_launcher` writes the small script that starts it (as an
unprivileged user when we are root, because Chromium has no sandbox as root); `require_sandbox` reads
from the kernel what really confines the renderers. Nothing here ever turns the sandbox off.
"""

from __future__ import annotations

import os
import pwd
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from contracts.errors import InvalidSetting, PolicyRefused

PROJECT_CHROMIUM = Path(__file__).resolve().parents[1] / ".cache" / "chromium" / "chromium"
"""Where `make setup` leaves the launcher of a Chromium that it had to unpack itself."""

PATH_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPRIVILEGED_USERS = ("sluice-browser", "nobody")
"""Who runs the browser when we are root: a dedicated user where one exists."""

SECCOMP_FILTER = "2"
"""The `Seccomp:` mode of /proc/PID/status that means a filter is installed (proc(5))."""

END_SECONDS = 5.0
"""How long a killed process may take to be gone."""

REMEDY = "run `make setup`, install Debian's chromium and chromium-sandbox, or name a binary in crawl.chromium_path"

SANDBOX_REMEDY = (
    "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1; in a container, a seccomp profile "
    "that permits them), or run workers without root and install chromium-sandbox (its setuid helper)"
)

CHROMIUM_FLAGS = (
    # WebRTC speaks UDP, past any proxy. Browsers read the first name, the bare shell and old ones the second.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    "--no-first-run",
    # Names are the proxy's business: the browser itself may resolve nothing but the way to a local proxy.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]",
)

WEAKENING_DEFAULTS = (
    # A test tool wants these, a browser among strangers does not: Playwright is told to leave them out.
    "--disable-popup-blocking",  # a page would open windows faster than we close them
    "--disable-ipc-flooding-protection",  # it would navigate, print and push history without end
    "--disable-hang-monitor",
    "--enable-unsafe-swiftshader",  # 3D graphics drawn by the processor, in a library that is known to be attacked
    "--unsafely-disable-devtools-self-xss-warnings",
)


def find_chromium(configured: Path | None, playwright_own: str) -> Path:
    """The first Chromium that the user who will run it can execute.

    In order: the configured one (and then no other), Playwright's own, a known name on the PATH, the
    one that `make setup` unpacked.

    Raises:
        InvalidSetting: the configured one cannot be executed, or there is none at all.
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
    """Whether the browser's user may run it; a home of root's, for instance, is closed to others."""
    if not os.access(binary, os.X_OK) or binary.is_dir():
        return False
    if os.geteuid() != 0:
        return True
    command = [*_become(unprivileged_user()), "test", "-x", str(binary)]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603


def unprivileged_user() -> pwd.struct_passwd:
    """The user that runs the browser for root.

    Raises:
        PolicyRefused: no such user exists; Chromium is never run as root, where it has no sandbox.
    """
    for name in UNPRIVILEGED_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if user.pw_uid != 0:
            return user
    raise PolicyRefused("sandbox", "there is no unprivileged user to run the browser as", "run workers without root")


def _become(user: pwd.struct_passwd) -> list[str]:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise PolicyRefused("sandbox", "setpriv is missing, so root cannot hand the browser over", "util-linux")
    identity = ["--reuid", user.pw_name, "--regid", str(user.pw_gid), "--init-groups"]
    return [setpriv, *identity, "--no-new-privs", "--"]


def write_launcher(folder: Path, binary: Path) -> tuple[Path, Path]:
    """A script in the private `folder` that starts `binary`, and the file in which it leaves its process id.

    For root the script gives the profile folder away and drops every privilege before it becomes the
    browser.
    """
    launcher, process_id = folder / "launch-chromium", folder / "chromium.pid"
    lines = ["#!/bin/sh", "set -e", f"echo $$ > {shlex.quote(str(process_id))}", *_PROFILE_LOOP]
    if os.geteuid() == 0:
        user = unprivileged_user()
        lines.append(f'if [ -n "$profile" ]; then chown -R {user.pw_uid}:{user.pw_gid} "$profile"; fi')
        lines.append(f'exec {shlex.join(_become(user))} {shlex.quote(str(binary))} "$@"')
    else:
        lines.append(f'exec {shlex.quote(str(binary))} "$@"')
    launcher.write_text("\n".join([*lines, ""]))
    launcher.chmod(0o700)
    return launcher, process_id


_PROFILE_LOOP = (
    "profile=",
    'for argument in "$@"; do',
    '  case "$argument" in --user-data-dir=*) profile="${argument#--user-data-dir=}" ;; esac',
    "done",
    # Caches and crash reports go into the profile, which goes away with the browser.
    'if [ -n "$profile" ]; then export HOME="$profile" XDG_CONFIG_HOME="$profile" XDG_CACHE_HOME="$profile"; fi',
)


def require_sandbox(browser_pid: int) -> None:
    """Refuse the browser unless every renderer is confined: not root, a namespace of its own, seccomp.

    Raises:
        PolicyRefused: rule `sandbox`; says which renderer lacks what.
    """
    renderers = [pid for pid in family(browser_pid) if "--type=renderer" in _command_line(pid)]
    weaknesses = [weakness for pid in renderers for weakness in _weaknesses(pid)]
    if not renderers:
        weaknesses.append("it has no renderer process of its own")
    if weaknesses:
        raise PolicyRefused(
            "sandbox",
            f"Chromium's sandbox is not on: {'; '.join(weaknesses)}",
            SANDBOX_REMEDY,
        )


def _weaknesses(pid: int) -> Iterator[str]:
    status = _status(pid)
    if not status:
        return  # it ended meanwhile
    if "0" in status.get("Uid", "").split():
        yield f"renderer {pid} runs as root"
    if status.get("Seccomp") != SECCOMP_FILTER:
        yield f"renderer {pid} has no system call filter"
    if len(status.get("NSpid", "").split()) <= len(_status(os.getpid()).get("NSpid", "").split()):
        yield f"renderer {pid} shares our process namespace"


def family(pid: int) -> list[int]:
    """`pid`, every process that descends from it, and those that left it but still work on its profile."""
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    children: dict[int, list[int]] = {}
    for process in everyone:
        children.setdefault(int(_status(process).get("PPid", 0)), []).append(process)
    found = [pid]
    for member in found:  # grows while it is walked
        found.extend(children.get(member, []))
    profile = _profile(pid)
    # Crash handlers detach themselves from their browser; their crash database gives them away.
    return found + [other for other in everyone if profile and other not in found and profile in _command_line(other)]


def _profile(pid: int) -> str:
    _, flag, rest = _command_line(pid).partition("--user-data-dir=")
    return rest.split()[0] if flag else ""


def process_handles(pid: int) -> list[int]:
    """File descriptors that stand for `pid` and all its descendants, whatever their numbers are used for later."""
    handles = []
    for member in family(pid):
        with suppress(ProcessLookupError):
            handles.append(os.pidfd_open(member))
    return handles


def end_processes(handles: list[int]) -> None:
    """Kill what still runs, and return when it is gone. The handles are used up."""
    for handle in handles:
        with suppress(ProcessLookupError, PermissionError):  # the setuid helper is root's; it ends by itself
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], END_SECONDS)  # readable once the process has ended: pidfd_open(2)
        os.close(handle)


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
