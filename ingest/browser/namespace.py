"""The browser's namespaces: a network that leads to one listener only, and processes that end together.

Run as a program, in place of the browser and before it; beside the standard library it imports only `disk.jail`.
It enters new namespaces (namespaces(7)), hands the worker the listener that is the browser's only way out, gives
up every privilege and becomes the browser. Promises:

1. In its own network the browser finds the loopback device with our listener, and a virtual cable with both ends in
   that network, so that pages believe the machine is connected. Packets leave only through the listener.
2. In its own process namespace an init ends with the program, and the program ends with its parent: a
   worker that is killed leaves no browser behind.
3. Folders that the browser does not need appear empty, except for the browser's own files and working folders.
4. A report to the worker names what could not be set up, with the reason; it decides whether the browser may run.
5. The browser, its init and this program run as the unprivileged user of the plan, and cannot become another.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from sluice.disk.jail import (
    AGAIN,
    BIND,
    MESSAGES,
    MOUNTS,
    NETWORK,
    NO_SETUID_DEVICES_PROGRAMS,
    PRIVATE,
    PROCESSES,
    READ_ONLY,
    RECURSIVE,
    become,
    die_with_parent,
    forbid_new_privileges,
    mount,
    own_users,
    unshare,
)

LISTENER_PORT = 8080
"""Port of the relay, at any address of 127.0.0.0/8 in the browser's network. Nothing else listens there."""

_EMPTY_FOLDER = b"mode=0755,size=1m"
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sys", "/usr/bin", "/usr/lib", "/usr/share")
"""No program runs without these: neither they, their contents nor their parent folders are ever hidden."""
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_DEBUGGING_PIPE = (3, 4)
"""Descriptors that drive the browser; a process that keeps them open keeps the browser from seeing their end."""
PREFERENCES = {"net": {"network_prediction_options": 2}}
"""Profile preferences, which have no switch: no page is prefetched by speculation rules, which skip robots.txt."""
KILLED_FIRST = "500"
"""What the kernel adds to the browser's share of the memory (a thousand is all of it) where it has to kill: a browser
is started again, and costs a page."""
_MERGED_SWITCHES = ("--disable-features", "--enable-features", "--disable-blink-features")
"""Switches with lists. Chromium heeds only the last of several, so they are merged."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The isolation that the worker requests."""

    egress_grant: str
    """Path of the Unix socket on which the worker waits for the listener."""
    process_id: str
    """File that receives the process id of this program, which lives as long as the browser."""
    network: bool
    hidden: tuple[str, ...] = ()
    """Folders that appear empty to the browser."""
    uid: int | None = None
    """User id to switch to; None keeps the current user."""
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """The namespaces that the system granted. Each of `missing` is `name: reason`."""

    network: bool
    processes: bool
    mounts: bool
    missing: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str | bytes) -> Isolation:
        """Decode the JSON that the launcher sent."""
        found = json.loads(written)
        return cls(found["network"], found["processes"], found["mounts"], tuple(found["missing"]))


def main(*arguments: str) -> int:
    """Enter the namespaces and run the browser: `PLAN BINARY SWITCH…`. Returns the browser's exit status."""
    plan = Plan(**json.loads(arguments[0]))
    with open(plan.process_id, "w") as file:
        file.write(str(os.getpid()))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    command = [arguments[1], *merged_switches(list(arguments[2:]))]
    _write_preferences(command)
    _give_profile_away(plan, command)
    isolation = find_isolation(plan)
    if not isolation.network and not isolation.processes:
        _report(plan, isolation, None)
        _become(plan)
        _run(command)
    if _enter(plan) != isolation:
        raise OSError("namespaces that could be entered a moment ago cannot be entered now")
    return _as_parent(plan, lambda: _as_init(plan, isolation, command))


def find_isolation(plan: Plan) -> Isolation:
    """Try the namespaces in a child process, since a half-entered namespace cannot be left again."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with open(writing, "w") as pipe:
            json.dump(asdict(_enter(plan)), pipe)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return Isolation.read(found)


def _enter(plan: Plan) -> Isolation:
    """Enter every namespace that the system grants."""
    missing: list[str] = []

    def works(name: str, step: Callable[[], None]) -> bool:
        try:
            step()
        except OSError as error:
            missing.append(f"{name}: {error.strerror or error}")
            return False
        return True

    if os.geteuid() != 0 and not works("user namespace", own_users):
        return Isolation(network=False, processes=False, mounts=False, missing=tuple(missing))
    network = plan.network and works("network namespace", _own_network)
    if network:  # without a cable pages believe they are offline; nothing else breaks
        works("network cable", _connect_cable)
    processes = works("process namespace", lambda: unshare(PROCESSES))
    mounts = works("mount namespace", lambda: unshare(MOUNTS))
    works("message namespace", lambda: unshare(MESSAGES))
    return Isolation(network, processes, mounts, tuple(missing))


def _own_network() -> None:
    unshare(NETWORK)
    _raise_device("lo")


def _as_parent(plan: Plan, child_work: Callable[[], int]) -> int:
    """Fork, do `child_work` in the child, and end with its exit code."""
    child = os.fork()
    if child == 0:
        os._exit(child_work())
    _let_go_of_the_pipe()
    _become(plan)
    die_with_parent()
    return _exit_code(os.waitpid(child, 0)[1])


def _as_init(plan: Plan, isolation: Isolation, command: list[str]) -> int:
    """Run as init of the namespace: start the browser, reap processes, end all when the browser ends."""
    die_with_parent()
    if isolation.mounts:
        isolation = replace(isolation, missing=(*isolation.missing, *_own_folders(plan, isolation, command)))
    _report(plan, isolation, _listen() if isolation.network else None)
    browser = os.fork()
    _become(plan)
    if browser == 0:
        _run(command)
    die_with_parent()  # a change of user resets it: prctl(2)
    _let_go_of_the_pipe()
    while True:
        ended, status = os.wait()
        if ended == browser:
            return _exit_code(status)


def _own_folders(plan: Plan, isolation: Isolation, command: list[str]) -> list[str]:
    """Hide the folders of the plan that the browser does not need; return the failures."""
    try:
        mount(None, "/", PRIVATE | RECURSIVE)  # or the outer namespace would see it too
    except OSError as error:
        return [f"folders of its own: {error.strerror}"]
    missing: list[str] = []
    if isolation.processes:
        try:
            mount("proc", "/proc", NO_SETUID_DEVICES_PROGRAMS, "proc")
        except OSError as error:  # as where a container or a unit covers parts of /proc
            missing.append(f"a /proc of its own, so that it sees other processes: {error.strerror}")
    os.chdir("/")  # the old working directory would stay visible
    needed = {os.path.realpath(one) for one in (os.environ.get("TMPDIR"), _profile(command)) if one}
    needed.update(os.path.dirname(os.path.realpath(one)) for one in (command[0], plan.egress_grant, plan.process_id))
    for folder in map(os.path.realpath, plan.hidden):
        if not os.path.isdir(folder) or folder in needed or _is_of_the_system(folder):
            continue
        try:
            _hide(folder, [one for one in sorted(needed) if one.startswith(f"{folder}/")])
        except OSError as error:
            missing.append(f"hiding {folder}: {error.strerror}")
    return missing


def _hide(folder: str, needed: list[str]) -> None:
    """Mount an empty folder over `folder`, with only the `needed` folders visible in it."""
    held = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in needed]
    mount("none", folder, NO_SETUID_DEVICES_PROGRAMS, "tmpfs", _EMPTY_FOLDER)
    for path, descriptor in held:
        before = os.umask(0o022)  # the browser's user must be able to enter it
        os.makedirs(path, exist_ok=True)
        os.umask(before)
        mount(f"/proc/self/fd/{descriptor}", path, BIND | RECURSIVE)
        os.close(descriptor)
    mount("none", folder, AGAIN | READ_ONLY | NO_SETUID_DEVICES_PROGRAMS)


def _is_of_the_system(folder: str) -> bool:
    return any(f"{one}/".startswith(f"{folder.rstrip('/')}/") or folder.startswith(f"{one}/") for one in _SYSTEM)


def _listen() -> socket.socket:
    listener = socket.socket()
    listener.bind(("0.0.0.0", LISTENER_PORT))  # noqa: S104 - of a network with no other process
    listener.listen(128)
    return listener


def _report(plan: Plan, isolation: Isolation, listener: socket.socket | None) -> None:
    """Send the isolation report and the listener to the worker."""
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(plan.egress_grant)
        descriptors = [listener.fileno()] if listener is not None else []
        socket.send_fds(worker, [json.dumps(asdict(isolation)).encode()], descriptors)
    if listener is not None:
        listener.close()


def _become(plan: Plan) -> None:
    """Become the user of the plan, irrevocably."""
    if plan.uid is not None and plan.gid is not None:
        become(plan.uid, plan.gid)
        forbid_new_privileges()


def _write_preferences(command: list[str]) -> None:
    """Write the preferences that have no switch into the profile, before Chromium starts."""
    profile = _profile(command)
    if profile is not None:
        folder = os.path.join(profile, "Default")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.path.join(folder, "Preferences"), "w", encoding="utf-8") as file:
            json.dump(PREFERENCES, file)


def _give_profile_away(plan: Plan, command: list[str]) -> None:
    profile = _profile(command)
    if profile is not None and plan.uid is not None and plan.gid is not None:
        for folder, _, names in os.walk(profile):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                os.chown(path, plan.uid, plan.gid, follow_symlinks=False)


def _profile(command: list[str]) -> str | None:
    return next((switch.partition("=")[2] for switch in command if switch.startswith("--user-data-dir=")), None)


def _run(command: list[str]) -> None:
    profile, environment = _profile(command), dict(os.environ)
    if profile is not None:  # caches and crash reports go into the profile, which goes away with the browser
        environment.update(HOME=profile, XDG_CONFIG_HOME=profile, XDG_CACHE_HOME=profile)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(KILLED_FIRST)
    os.execve(command[0], command, environment)  # noqa: S606 - the browser, found and named by the worker


def merged_switches(switches: list[str]) -> list[str]:
    """Return the switches, with those that take lists merged into one each."""
    kept: list[str] = []
    lists: dict[str, list[str]] = {}
    for switch in switches:
        name, _, value = switch.partition("=")
        if name in _MERGED_SWITCHES:
            lists.setdefault(name, []).append(value)
        else:
            kept.append(switch)
    return [*(f"{name}={','.join(values)}" for name, values in lists.items()), *kept]


def _let_go_of_the_pipe() -> None:
    for descriptor in _DEBUGGING_PIPE:
        with suppress(OSError):
            os.close(descriptor)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _raise_device(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", name.encode(), 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", name.encode(), flags | _IFF_UP))


def _connect_cable() -> None:
    """Create two joined Ethernet devices in this network (rtnetlink(7), veth(4)): the browser counts as connected."""
    peer = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + _attribute(3, b"eth1\0")
    kind = _attribute(1, b"veth\0") + _attribute(2, _attribute(1, peer))
    body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + _attribute(3, b"eth0\0") + _attribute(18, kind)
    new_link, request_create_exclusive_acknowledge = 16, 0x1 | 0x4 | 0x200 | 0x400
    head = struct.pack("=IHHII", 16 + len(body), new_link, request_create_exclusive_acknowledge, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(head + body)
        code = -struct.unpack_from("=i", kernel.recv(4_096), 16)[0]
    if code not in (0, errno.EEXIST):
        raise OSError(code, f"a veth pair: {os.strerror(code)}")
    for device in ("eth0", "eth1"):
        _raise_device(device)


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)
