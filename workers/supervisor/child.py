"""One process that `sluice up` keeps alive: started, listened to, asked to end, killed with all that belongs to it.

A process is a command line, or a fork of the supervisor, which has imported what all share. A fork takes milliseconds
where an interpreter of its own takes seconds, and pages that neither side writes to are held once for all. It is safe
because the process that forks has one thread and no connection: nothing of its state is in another's hands. What is
inherited and must not be shared (its signals, its lock, its pipes) is given up first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sluice.contracts.errors import SluiceError
from sluice.workers.processes.process_group import ENDING_SIGNALS, LIFELINE, die_with_parent, tied_to_parent

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


Program = Sequence[str] | Callable[[], object]
"""What a child runs: a command line, or a function in a fork of the supervisor."""

FIRST_PAUSE_SECONDS = 0.2
_MOST_SIGNS = 4_096


def command_of(*arguments: str) -> list[str]:
    """The command line of a process that is no fork: its command, for instance `worker`, `crawl`."""
    return [sys.executable, "-m", "sluice.cli", *arguments]


@dataclass
class Child:
    """A process by its name, whichever it is at the moment. Only the supervisor's main thread starts and ends it."""

    name: str
    program: Program
    is_worker: bool = False
    process: subprocess.Popen[bytes] | Forked | None = None
    started_at: float = 0.0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    start_after: float = 0.0
    deaths: int = 0
    silent_seconds: float = 0.0
    """How long it has given no sign of life; nought for a program that knows nothing of them."""
    condemned: str | None = None
    """Why it is to be killed."""
    gone_by: float = float("inf")
    """When it must have ended: it was asked to."""
    _ear: int | None = field(default=None, repr=False)
    speaks: bool = False
    """Whether it has given a sign of life since it started."""

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return self.process.pid if self.process and self.process.poll() is None else None

    @property
    def stage(self) -> str:
        """The stage of a worker: its name without its number."""
        return self.name.rsplit("-", 1)[0]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What another forked child must close."""
        return () if self._ear is None else (self._ear,)

    def start(self, environment: Mapping[str, str], output: int | None, close: Collection[int] = ()) -> None:
        """Start it, with both outputs on the descriptor `output`; they are the supervisor's own without one.

        It leads a process group of its own, so that Ctrl-C reaches the supervisor alone, which stops the others in
        order. `environment` is that of a command line; a fork has the supervisor's, and closes `close`.
        """
        ear, mouth = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if callable(self.program):
                self.process = self._fork(self.program, output, mouth, (*close, ear))
            else:
                self.process = subprocess.Popen(  # noqa: S603 - our own command line
                    self.program,
                    env={**environment, LIFELINE: str(mouth)},
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    preexec_fn=tied_to_parent(),
                    pass_fds=[mouth],
                    process_group=0,
                )
        except OSError:
            os.close(ear)
            raise
        finally:
            os.close(mouth)
        self._ear, self.started_at = ear, time.monotonic()
        self.silent_seconds, self.condemned, self.gone_by, self.speaks = 0.0, None, float("inf"), False

    def _fork(self, run: Callable[[], object], output: int | None, mouth: int, close: Collection[int]) -> Forked:
        def run_with_lifeline() -> None:
            os.environ[LIFELINE] = str(mouth)
            run()

        return fork(run_with_lifeline, self.name, output=output, close=close)

    def listen(self, passed_seconds: float) -> None:
        """Hear whether it gave a sign of life while that time passed."""
        try:
            heard = bool(self._ear is not None and os.read(self._ear, _MOST_SIGNS))
        except BlockingIOError:
            heard = False
        self.speaks = self.speaks or heard
        self.silent_seconds = 0.0 if heard or not self.speaks else self.silent_seconds + passed_seconds

    def ask_to_end(self, patience_seconds: float) -> None:
        """Let it finish what it has in hand; where that takes longer it is to be killed. Once: twice would hurry it."""
        if self.pid and self.gone_by == float("inf"):
            os.kill(self.pid, signal.SIGTERM)
            self.gone_by = time.monotonic() + patience_seconds

    def kill(self) -> None:
        """End it at once, with all of its process group."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def bury(self) -> subprocess.Popen[bytes] | Forked | None:
        """Forget the process, which has ended; what is left of its group is killed."""
        process = self.process
        self.kill()
        self.process = None
        if self._ear is not None:
            os.close(self._ear)
            self._ear = None
        return process
