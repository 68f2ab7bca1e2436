"""Forks the processes of an instance from the one that has imported what they share.

A fork takes milliseconds where an interpreter of its own takes seconds, and pages that neither side writes to are
held once for all. It is safe because the process that forks has one thread and no connection: nothing of its state is
in another's hands. What is inherited and must not be shared (its signals, its lock, its pipes) is given up first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sluice.contracts.errors import SluiceError
from sluice.workers.processes.process_group import ENDING_SIGNALS, die_with_parent

PR_SET_NAME = 15
LONGEST_NAME = 15
"""Characters of a process's name in the kernel (prctl(2))."""
_LOOK_SECONDS = 0.01


@dataclass
class Forked:
    """A forked child, with those methods of `subprocess.Popen` that a supervisor needs."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, as `Popen.poll` says it: a negative number names a signal; None while it runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # it was reaped elsewhere: how it ended is not known
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has.

        Raises:
            subprocess.TimeoutExpired: it has not within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout if timeout is not None else float("inf")
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(_LOOK_SECONDS)
        return code

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def fork(
    run: Callable[[], object],
    name: str,
    *,
    output: int | None = None,
    close: Collection[int] = (),
    die_with: signal.Signals = signal.SIGTERM,
) -> Forked:
    """Run `run` in a child of this process, which leads a process group of its own and ends when `run` does.

    Its exit code is that of `SystemExit`; 1 where `run` raises anything else, which is printed. `output` is the
    descriptor of both its outputs, this process's own without one. Descriptors in `close` are closed in the child.
    `die_with` is the signal that it gets when this process dies. To be called in the main thread.

    Raises:
        OSError: there is no room for another process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)  # one that is meant for the child must not be lost
    try:
        pid = os.fork()
        if pid == 0:
            _be_child(run, name, output, close, die_with)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
    _lead_group(pid)
    return Forked(pid)


def _be_child(
    run: Callable[[], object], name: str, output: int | None, close: Collection[int], die_with: signal.Signals
) -> None:
    """Never returns."""
    code = 1
    try:
        _lead_group(0)
        _forget_signals()
        for descriptor in close:
            os.close(descriptor)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        if output is not None:
            os.dup2(output, 1)
            os.dup2(output, 2)
        _set_name(name)
        die_with_parent(die_with)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        code = _exit_code(run)
    except BaseException:  # noqa: BLE001 - the child must not go on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code(run: Callable[[], object]) -> int:
    try:
        run()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except SluiceError as error:
        sys.stderr.write(f"error {error}\n")
        return 1
    return 0


def _lead_group(pid: int) -> None:
    """Both sides do it, as neither knows which of them runs first."""
    try:
        os.setpgid(pid, 0)
    except OSError:  # it has ended already
        return


def _forget_signals() -> None:
    """Signals end this process again, and are not told to the one that forked it."""
    signal.set_wakeup_fd(-1)
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup(1) means what it says
            signal.signal(number, signal.SIG_DFL)


def _set_name(name: str) -> None:
    """What `top` and `ps -o comm` show."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:LONGEST_NAME], 0, 0, 0)
