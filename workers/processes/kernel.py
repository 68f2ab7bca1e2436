"""What the kernel does for processes: ties their lives to their parents', hears signals, limits and measures them.

Facts about processes are from Linux (proc(5)), limits of memory from glibc (mallopt(3), malloc_trim(3)). On other
systems these functions find nothing and do nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIFELINE = "SLUICE_LIFELINE"
"""The variable that names the descriptor on which a process gives signs of life to its supervisor."""
SIGN_SECONDS = 1.0
"""Seconds between two signs of life."""
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
RETIRE = signal.SIGUSR1
"""Asks a worker to take no more, and to end once it has finished what it has in hand, however long that takes."""
_HEARD = (*ENDING_SIGNALS, RETIRE)


def worker_name(stage: str, process_id: int) -> str:
    """Return how the name of a worker begins, under which it claims: unique across machines with equal process ids.

    After a dot follow random characters: a container that starts again has the same host name and process id.
    """
    return f"{stage}-{socket.gethostname()}-{process_id}"


def child_name(worker: str, process_id: int | str) -> str:
    """Return the name under which a pool's child claims, so that its claims are known when it alone dies."""
    return f"{worker}.{process_id}"


def belongs_to(name: str, worker: str) -> bool:
    """Return whether the claimant `name` is that worker or a child of it."""
    return name == worker or name.startswith(f"{worker}.")


def tied_to_parent() -> Callable[[], None] | None:
    """Return a `preexec_fn` that ends a child with its parent, for programs that know nothing of us.

    Everything is looked up beforehand: between fork and exec nothing is imported and no lock is taken.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def limit_memory(most_bytes: int) -> None:
    """Limit the writable memory of this process and of each that it starts (setrlimit(2)); none leaves a core file.

    An allocation beyond it raises MemoryError, or ends the process if a library cannot go on without it.
    """
    if sys.platform.startswith("linux"):
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def die_with_parent(with_signal: int = signal.SIGTERM) -> None:
    """Ask the kernel to send this process a signal when its parent dies (Linux; prctl(2)).

    A supervisor that is killed outright then leaves no worker behind.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, with_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died between the two calls
        os.kill(os.getpid(), with_signal)


def adopt_orphans() -> None:
    """Become the parent of orphans below this process (Linux; prctl(2)), so that it can end them.

    Without it a killed crawl worker's browser would belong to the machine's first process, which knows nothing of it.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def send_signals_to(mouth: socket.socket) -> None:
    """Write the number of each signal that ends or retires to `mouth`. Call it in the main thread.

    A SIGHUP that nohup(1) has switched off stays so.
    """
    mouth.setblocking(False)
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    for number in _HEARD:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _note)


def hear_signals(heard: Callable[[int], None]) -> None:
    """Call `heard`, in a thread of its own, with the number of each signal that ends or retires.

    The signal is heard even while the main thread is busy. Call it in the main thread.
    """
    ear, mouth = socket.socketpair()
    send_signals_to(mouth)

    def hear() -> None:
        with mouth:  # the end that the kernel writes to stays open for as long as this thread listens
            while numbers := ear.recv(16):
                for number in numbers:
                    if number in _HEARD:
                        heard(number)

    os.register_at_fork(after_in_child=_stop_hearing)
    threading.Thread(target=hear, name="signals", daemon=True).start()


def _note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: Python writes a signal's number to the wake-up descriptor only where it has a handler."""


def _stop_hearing() -> None:
    """Stop a forked child from reporting its own signals to its parent."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)


def give_signs_of_life() -> None:
    """Write to the supervisor or to systemd, if there is one, every second that this process runs.

    The thread does nothing else, so only a stopped process, or one whose interpreter is stopped, falls silent.
    """
    descriptor = os.environ.pop(LIFELINE, None)
    if descriptor is not None:
        os.environ.pop("NOTIFY_SOCKET", None)  # the supervisor speaks to systemd
        os.set_blocking(int(descriptor), False)
    if descriptor is not None or "NOTIFY_SOCKET" in os.environ:
        threading.Thread(target=_sign, args=(descriptor and int(descriptor),), name="lifeline", daemon=True).start()


def _sign(descriptor: int | None) -> None:
    pause = threading.Event()
    while not pause.wait(SIGN_SECONDS):
        try:
            if descriptor is None:
                notify_system("WATCHDOG=1")
            else:
                os.write(descriptor, b".")
        except BlockingIOError:
            continue  # nobody has read for a long time
        except OSError:
            return  # nobody ever will


def notify_system(state: str) -> None:
    """Send `READY=1`, `WATCHDOG=1` or the like to systemd, if that started this process as a service (sd_notify(3))."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, suppress(OSError):
            manager.sendto(state.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


ZOMBIE, RUNNABLE = "Z", "R"
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process at one moment. `started` (clock ticks since boot) tells it from a later one with the same id; `used`
    is the processor's time that it has had, in clock ticks."""

    pid: int
    parent: int
    group: int
    state: str
    started: int
    used: int = 0

    @property
    def lives(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state != ZOMBIE


def all_processes() -> list[ProcessFacts]:
    """Return every process of the machine."""
    if not _PROC.is_dir():
        return []
    found = (facts_of(int(entry)) for entry in os.listdir(_PROC) if entry.isdigit())
    return [facts for facts in found if facts is not None]


def facts_of(pid: int) -> ProcessFacts | None:
    """Return one process, or None when it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    parent, group, user, system, started = (int(fields[place]) for place in (1, 2, 11, 12, 19))
    return ProcessFacts(pid, parent, group, state=fields[0], started=started, used=user + system)


def kill(pid: int) -> None:
    """Kill a process that may be gone. A helper of root's, which we may not kill, ends by itself."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int, processes: Iterable[ProcessFacts]) -> Iterator[ProcessFacts]:
    """Yield every process below `pid`, parents before their children."""
    children: dict[int, list[ProcessFacts]] = defaultdict(list)
    for process in processes:
        children[process.parent].append(process)
    found = children[pid]
    for process in found:  # grows while it is walked
        found.extend(children[process.pid])
        yield process


def anonymous_bytes(pid: int) -> int:
    """Return a process's own memory: neither a file's pages, such as a mapped index, nor shared. 0 when gone."""
    try:
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def environment(pid: int) -> Mapping[str, str]:
    """Return the environment that the process was started with; empty where we may not read it."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    entries = (entry.decode(errors="replace").partition("=") for entry in raw.split(b"\0"))
    return {name: value for name, is_one, value in entries if is_one}


_M_ARENA_MAX = -8
MOST_HEAPS = 2
"""glibc gives every thread a heap of its own, and freed memory stays in it: a process of forty threads holds
a few times what it needs."""


def limit_heaps() -> None:
    """Let the threads of this process, and of those that it forks, share two heaps. Call it before they start."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MOST_HEAPS)


def return_free_memory() -> None:
    """Return freed memory to the system. Loading a model frees some 30 MB, which would be held otherwise."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
