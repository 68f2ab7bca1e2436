"""A tracer of system calls (ptrace): stops a forked child at each of them, kills it there, or refuses the call.

Linux only; refusing calls needs x86-64. All threads of the child are followed, and calls are counted over all of
them between two marks that the child sets by `mark`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

_TRACEME, _SYSCALL, _GETREGS, _SETREGS = 0, 24, 12, 13
_SETOPTIONS, _GET_SYSCALL_INFO = 0x4200, 0x420E
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x100000
"""Tell calls from signals, follow forks, vforks and threads, kill the child when the tracer dies."""
_ANY_THREAD = 0x40000000
_CALL_STOP = signal.SIGTRAP | 0x80
_INFO = struct.Struct("<B3xIQQqQQQQQQ")
_ENTRY, _EXIT = 1, 2
_REGISTERS = 27
_RESULT, _NUMBER = 10, 15
"""Places of rax and orig_rax among the registers of x86-64."""

NUMBERS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "writev": 20, "sendfile": 40, "fsync": 74, "fdatasync": 75, "ftruncate": 77,
        "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "symlink": 88, "open": 2, "truncate": 76,
        "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266,
        "fallocate": 285, "renameat2": 316, "copy_file_range": 326,
    }
}  # fmt: skip
"""The calls that change files, by architecture."""
NAMES = {number: name for name, number in NUMBERS.get(platform.machine(), {}).items()}
_MAKES_A_FILE = os.O_CREAT | os.O_TRUNC


def can_trace() -> str:
    """Why this machine cannot trace system calls; empty where it can."""
    if not sys.platform.startswith("linux") or platform.machine() not in NUMBERS:
        return "system calls are traced on Linux on x86-64 only"
    child = os.fork()
    if child == 0:
        os._exit(0 if _ptrace(_TRACEME, 0) == 0 else 1)
    _, status = os.waitpid(child, 0)
    return "" if status == 0 else "ptrace is forbidden here"


def mark() -> None:
    """Called by the child: counting begins, or ends."""
    os.kill(os.getpid(), signal.SIGUSR1)


@dataclass(frozen=True, slots=True)
class Call:
    """A system call that is about to be made."""

    process: int
    thread: int
    name: str
    arguments: tuple[int, ...]

    @property
    def changes_files(self) -> bool:
        """Whether files, their names or what is safe of them may be other after the call than before it."""
        if self.name in ("open", "openat"):
            return bool(self.arguments[1 if self.name == "open" else 2] & _MAKES_A_FILE)
        return not self.name.isdigit()

    def path_of(self, position: int) -> str:
        """The path that argument `position` points to, made absolute where it is relative to a descriptor before it."""
        text = self._text(self.arguments[position])
        if text.startswith("/") or not self.name.endswith(("at", "at2")) or position == 0:
            return text
        folder = ctypes.c_int(self.arguments[position - 1]).value
        return text if folder < 0 else os.path.join(self.file_of(position - 1), text)

    def file_of(self, position: int) -> str:
        """The path of the file whose descriptor is argument `position`."""
        try:
            return os.readlink(f"/proc/{self.process}/fd/{ctypes.c_int(self.arguments[position]).value}")
        except OSError:
            return ""

    def _text(self, address: int) -> str:
        with Path(f"/proc/{self.process}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return os.fsdecode(memory.read(4096).split(b"\0", 1)[0])


Decide = Callable[[Call], "int | None"]
"""Told of every call between the marks: the error number to refuse it with, `KILL`, or None to let it pass."""
KILL = -1


@dataclass(slots=True)
class Trace:
    """Follows one child. `decide` is asked at each call between the marks, `seen` told of every one that ended well."""

    decide: Decide
    seen: Callable[[Call], None] | None = None
    exit_status: int | None = None
    """What the child ended with, once it has."""
    _child: int = 0
    _is_counting: bool = False
    _known: set[int] = field(default_factory=set)
    _entered: dict[int, tuple[Call, int | None]] = field(default_factory=dict)

    def follow(self, work: Callable[[], None], timeout_seconds: float = 60.0) -> None:
        """Fork a child that does `work`; returns when it has ended, killed or not."""
        self._child = os.fork()
        if self._child == 0:
            _be_traced(work)
        with _limit(timeout_seconds, self._child):
            os.waitpid(self._child, 0)
            _check(_ptrace(_SETOPTIONS, self._child, 0, _OPTIONS))
            self._known.add(self._child)
            _ptrace(_SYSCALL, self._child)
            while self.exit_status is None:
                self._next_stop()

    def _next_stop(self) -> None:
        thread, status = os.waitpid(-1, _ANY_THREAD)
        if not os.WIFSTOPPED(status):
            if thread == self._child:
                self.exit_status = status
            return
        signal_number, event = os.WSTOPSIG(status), status >> 16
        delivered = 0
        if signal_number == _CALL_STOP:
            self._at_call(thread)
        elif signal_number == signal.SIGUSR1:
            self._is_counting = not self._is_counting
        elif event == 0 and not (signal_number == signal.SIGSTOP and thread not in self._known):
            delivered = signal_number
        self._known.add(thread)
        _ptrace(_SYSCALL, thread, 0, delivered)

    def _at_call(self, thread: int) -> None:
        found = _call_info(thread)
        if found is None:  # it died meanwhile
            return
        operation, first, arguments = found
        if operation == _ENTRY:
            self._enter(Call(self._child, thread, NAMES.get(first, str(first)), arguments))
        elif operation == _EXIT and thread in self._entered:
            self._leave(thread, first)

    def _enter(self, call: Call) -> None:
        verdict = None
        if self._is_counting:
            verdict = self.decide(call)
        if verdict == KILL:
            os.kill(self._child, signal.SIGKILL)
            return
        if verdict is not None:
            _set_register(call.thread, _NUMBER, -1)
        self._entered[call.thread] = (call, verdict)

    def _leave(self, thread: int, result: int) -> None:
        call, verdict = self._entered.pop(thread)
        if verdict is not None:
            _set_register(thread, _RESULT, -verdict)
        elif self.seen is not None and result >= 0:
            self.seen(call)


def _be_traced(work: Callable[[], None]) -> None:
    """The child's life: let itself be traced, wait to be followed, do the work."""
    code = 1
    try:
        _check(_ptrace(_TRACEME, 0))
        os.kill(os.getpid(), signal.SIGSTOP)
        work()
        code = 0
    except BaseException as error:
        print(f"a traced child failed: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _call_info(thread: int) -> tuple[int, int, tuple[int, ...]] | None:
    """Entry or exit; the call's number or its result; its arguments. None when the thread is gone."""
    buffer = ctypes.create_string_buffer(_INFO.size)
    if _ptrace(_GET_SYSCALL_INFO, thread, _INFO.size, ctypes.addressof(buffer)) <= 0:
        return None
    operation, _, _, _, first, *arguments = _INFO.unpack(buffer.raw)
    return operation, first, tuple(arguments)


def _set_register(thread: int, place: int, value: int) -> None:
    registers = (ctypes.c_ulonglong * _REGISTERS)()
    _check(_ptrace(_GETREGS, thread, 0, ctypes.addressof(registers)))
    registers[place] = value & 0xFFFF_FFFF_FFFF_FFFF
    _check(_ptrace(_SETREGS, thread, 0, ctypes.addressof(registers)))


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> int:
    return int(_LIBC.ptrace(request, thread, address, data))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {errno.errorcode.get(number, number)}")


def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return libc


_LIBC = _load_libc()


@contextmanager
def _limit(timeout_seconds: float, child: int) -> Iterator[None]:
    """Raise `TimeoutError` and kill the child when following it takes too long."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"a traced child ran longer than {timeout_seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, timeout_seconds)
    try:
        yield
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
