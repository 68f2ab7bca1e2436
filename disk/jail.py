"""Locks up a child process in a bare interpreter. It needs only the standard library.

`child_command` is the command line of a child that runs one of our modules in isolation. Such a child calls the
functions that it needs: `limit` bounds its resources, the namespaces its view of the machine and the network, and
`close_in` does all of it:

    namespaces      its own users (unless it is root), mounts, network and messages: no packet leaves
    file system     one folder, mounted for reading only, is the root directory (pivot_root, or else chroot)
    Landlock        reading in that folder, and nothing else of any file system; no TCP (landlock(7))
    seccomp         no socket, no new process or program, no signal to another process, no tracing (seccomp(2))
    limits          address space, processor time, no byte written, few descriptors, no core file
    privileges      none, and no way to new ones; root becomes the folder's owner, or `nobody`

Layers that the system lacks are left out and reported. A jail closes *files* and *network*, each by at least one of the
layers; otherwise `close_in` raises `NoJail` and nothing may run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; sys.exit(main(*sys.argv[2:]))"
_SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder of `sluice`."""

NETWORK, PROCESSES, MOUNTS, MESSAGES, USERS = 0x40000000, 0x20000000, 0x00020000, 0x08000000, 0x10000000
"""CLONE_NEWNET, _NEWPID, _NEWNS, _NEWIPC and _NEWUSER of <linux/sched.h>, for `unshare`."""
READ_ONLY, NO_SETUID_DEVICES_PROGRAMS, AGAIN = 0x1, 0x2 | 0x4 | 0x8, 0x20
BIND, RECURSIVE, PRIVATE = 0x1000, 0x4000, 0x40000
"""MS_RDONLY, MS_NOSUID with _NODEV and _NOEXEC, MS_REMOUNT, _BIND, _REC and _PRIVATE of mount(2)."""
_DETACH = 2
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 4, 22, 38
NOBODY = 65534
"""User and group without rights of their own."""

_MAY_READ = 1 << 2
"""CAP_DAC_READ_SEARCH."""

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_READ_FILE, _LANDLOCK_READ_FOLDER = 1 << 2, 1 << 3
_LANDLOCK_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file rights in each version of Landlock; later versions have as many as the last."""


class _Calls(NamedTuple):
    """Numbers of system calls of one machine (asm/unistd.h) and its name in an audit record."""

    audit: int
    pivot_root: int
    capset: int
    clone: int
    clone3: int
    socketpair: int
    refused: tuple[int, ...]


# fork and vfork where they exist; socket, socketpair, connect, bind, listen; execve, execveat, ptrace;
# kill, tkill, tgkill, pidfd_open, pidfd_getfd, pidfd_send_signal; process_vm_readv, process_vm_writev;
# io_uring_setup, bpf, unshare, setns, mount, keyctl, userfaultfd, perf_event_open.
_MACHINES = {
    "x86_64": _Calls(
        0xC000003E, 155, 126, 56, 435, 53,
        (57, 58, 41, 53, 42, 49, 50, 59, 322, 101, 62, 200, 234, 434, 438, 424, 310, 311,
         425, 321, 272, 308, 165, 250, 323, 298),
    ),
    "aarch64": _Calls(
        0xC00000B7, 41, 91, 220, 435, 199,
        (198, 199, 203, 200, 201, 221, 281, 117, 129, 130, 131, 434, 438, 424, 270, 271,
         425, 280, 97, 268, 40, 219, 282, 241),
    ),
}  # fmt: skip
_THREAD = 0x00010000
"""CLONE_THREAD: a clone without it is a new process, and refused."""
_OTHER_ABI = 0x40000000
"""Bit of the x32 calls, which would bypass the numbers above."""

_libc = ctypes.CDLL(None, use_errno=True)


class Limits(NamedTuple):
    """Limits of the process."""

    cpu_seconds: int
    address_space_bytes: int
    descriptors: int | None = None


class Closed(NamedTuple):
    """The active layers. `missing` gives the reason for each other one."""

    layers: tuple[str, ...]
    missing: tuple[str, ...]


class NoJail(Exception):
    """Files or network could not be closed; `str()` lists the attempts that failed."""


def child_command(module: str, *arguments: str, has_packages: bool = True) -> list[str]:
    """Return the command line that runs `main` of the module, with the arguments, in an interpreter of its own.

    It is isolated: no variable of the environment and no folder of the user's changes its imports. Without
    `has_packages` it has the standard library and our own modules only, and starts in some milliseconds.
    """
    options = ["-I", "-B"] if has_packages else ["-I", "-S", "-B"]
    return [sys.executable, *options, "-c", _PROGRAM.format(module=module), _SOURCES, *arguments]


def close_in(
    folder: str,
    limits: Limits,
    kept: tuple[int, ...],
    without: frozenset[str] = frozenset(),
    *,
    has_socketpair: bool = False,
) -> Closed:
    """Lock this process up; `folder` becomes its working directory.

    Call it in a process of a single thread. `kept` are the descriptors that stay open. `without` leaves layers out, for
    tests. `has_socketpair` lets this process talk with itself, as some runtimes do between their threads; it reaches
    nobody else by it. Raises NoJail where files or network stay open, OSError where a limit cannot be set.
    """
    layers: list[str] = []
    missing: list[str] = []

    def attempt(layer: str, close: Callable[[], None]) -> bool:
        try:
            if layer in without:
                raise OSError("left out")
            close()
        except OSError as error:
            missing.append(f"{layer}: {error.strerror or error}")
            return False
        layers.append(layer)
        return True

    _close_descriptors(kept)
    os.environ.clear()
    is_root = os.geteuid() == 0
    owner = os.stat(folder)
    user, group = owner.st_uid or NOBODY, owner.st_gid or NOBODY
    if is_root or attempt("users", own_users):
        attempt("network", lambda: unshare(NETWORK))
        attempt("messages", lambda: unshare(MESSAGES))
        if attempt("mounts", lambda: unshare(MOUNTS)):
            attempt("root", lambda: _enter_mounted(folder))
        if "root" not in layers:
            attempt("root", lambda: _enter(folder))
    forbid_new_privileges()
    check(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl")
    landlocked = "/" if "root" in layers else folder
    os.chdir(landlocked)
    attempt("landlock", lambda: _landlock(landlocked))
    limit(limits)
    stays = is_root and "root" not in layers and not _others_may_enter(folder)
    if is_root and not stays:
        become(user, group)
    # Root that has to stay root may read files of any mode: Landlock restricts which.
    _drop_capabilities(_MAY_READ if stays else 0)
    die_with_parent()
    attempt("seccomp", lambda: _filter_calls(has_socketpair))
    if not {"root", "landlock"} & set(layers) or not {"network", "seccomp"} & set(layers):
        raise NoJail("; ".join(missing))
    return Closed(tuple(layers), tuple(missing))


def limit(limits: Limits) -> None:
    """Limit processor time (SIGXCPU, SIGKILL a second later), memory and descriptors; allow no file and no core."""
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_AS, limits.address_space_bytes, limits.address_space_bytes),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))
    if limits.descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits.descriptors, limits.descriptors))


def unshare(spaces: int) -> None:
    """Enter new namespaces (namespaces(7)). Like the functions below, raises OSError where the system refuses."""
    check(_libc.unshare(spaces), "unshare")


def own_users() -> None:
    """Enter a user namespace with this process's own ids, from which it may make the other namespaces."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(USERS)
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with suppress(FileNotFoundError), open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def mount(source: str | None, target: str, flags: int, kind: str | None = None, data: bytes | None = None) -> None:
    """Mount `source`, or change the mount of `target` (mount(2))."""
    written = [one.encode() if one is not None else None for one in (source, target, kind)]
    check(_libc.mount(*written, ctypes.c_ulong(flags), data), f"mount {target}")


def become(uid: int, gid: int) -> None:
    """Become that user for good, without further groups."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def forbid_new_privileges() -> None:
    """Keep every program that this process runs from gaining rights that it lacks."""
    check(_libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Becoming another user undoes it: prctl(2)."""
    check(_libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "prctl")


def check(result: int, call: str) -> None:
    """Raise the OSError of a failed call of the C library."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


def _close_descriptors(kept: tuple[int, ...]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in {0, 1, 2} - set(kept):
        os.dup2(nothing, standard)
    first = 3
    for descriptor in sorted(set(kept) - {0, 1, 2}):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, max(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096))


def _enter_mounted(folder: str) -> None:
    """Make the folder, for reading only, the whole file system."""
    mount(None, "/", PRIVATE | RECURSIVE)  # or the outer namespace would see it too
    mount(folder, folder, BIND)
    mount(None, folder, BIND | AGAIN | READ_ONLY | NO_SETUID_DEVICES_PROGRAMS)
    os.chdir(folder)
    calls = _MACHINES.get(platform.machine())
    if calls is None:
        raise OSError("pivot_root: not known for this machine")
    check(_libc.syscall(calls.pivot_root, b".", b"."), "pivot_root")
    check(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def _enter(folder: str) -> None:
    """Make the folder the root directory; without capabilities there is no way back."""
    os.chroot(folder)
    os.chdir("/")


def _others_may_enter(folder: str) -> bool:
    """Return whether all users may pass through the folders above, so that one other than root can reach the folder."""
    above = os.path.dirname(folder)
    while os.stat(above).st_mode & 0o001 and os.path.dirname(above) != above:
        above = os.path.dirname(above)
    return os.path.dirname(above) == above


def _landlock(folder: str) -> None:
    version = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    check(version, "landlock")
    rights = (1 << _LANDLOCK_RIGHTS.get(version, 16)) - 1
    # struct landlock_ruleset_attr: files; from version 4 TCP (bind, connect); from 6 signals and abstract sockets.
    attributes = struct.pack("=QQQ", rights, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = _libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    check(rules, "landlock")
    opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = struct.pack("=Qi", _LANDLOCK_READ_FILE | _LANDLOCK_READ_FOLDER, opened)
        check(_libc.syscall(_LANDLOCK_ADD, rules, 1, beneath, 0), "landlock")
        check(_libc.syscall(_LANDLOCK_RESTRICT, rules, 0), "landlock")
    finally:
        os.close(opened)
        os.close(rules)


def _drop_capabilities(kept: int) -> None:
    calls = _MACHINES.get(platform.machine())
    if calls is None:
        return
    header = struct.pack("=Ii", 0x20080522, 0)
    check(_libc.syscall(calls.capset, header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)), "capset")


def _filter_calls(has_socketpair: bool) -> None:
    """Install a program in classic BPF: another machine's calls kill, those listed are refused, the rest may pass."""
    calls = _MACHINES.get(platform.machine())
    if calls is None:
        raise OSError("not known for this machine")
    load, jump_equal, jump_least, jump_bits, give = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, refuse, not_there, allow = 0x80000000, 0x00050001, 0x00050026, 0x7FFF0000
    refused = [number for number in calls.refused if not (has_socketpair and number == calls.socketpair)]
    count = len(refused)
    program = [
        (load, 0, 0, 4),
        (jump_equal, 1, 0, calls.audit),
        (give, 0, 0, kill),
        (load, 0, 0, 0),
        (jump_equal, 0, 1, calls.clone3),
        (give, 0, 0, not_there),  # so that the C library uses clone, whose flags can be read
        (jump_equal, 0, 2, calls.clone),
        (load, 0, 0, 16),
        (jump_bits, count + 1, count + 2, _THREAD),
        (jump_least, count + 1, 0, _OTHER_ABI),
        *((jump_equal, count - place, 0, number) for place, number in enumerate(refused)),
        (give, 0, 0, allow),
        (give, 0, 0, refuse),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code)
    described = struct.pack("@HP", len(program), ctypes.addressof(held))
    check(_libc.prctl(_SET_SECCOMP, 2, described, 0, 0), "seccomp")
