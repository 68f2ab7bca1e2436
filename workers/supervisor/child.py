"""Starts one process that `sluice up` keeps alive, listens to it, asks it to end, kills it with its process group.

A process is a command line, or a fork of the supervisor, which has imported the shared modules (`preload`). A fork
takes milliseconds where a new interpreter takes seconds, and pages that neither side writes to exist once for all. It
is safe because the process that forks has one thread and no connection: no other thread holds any of its state. The
child first gives up whatever it inherits but must not share (signals, lock, pipes).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from sluice.contracts.errors import SluiceError
from sluice.gate.profile import load_profiles
from sluice.ingest.embed.tokens import shared_tokenizer
from sluice.otel.log_files import VARIABLE
from sluice.otel.logs import redact_text
from sluice.otel.settings import disable_library_telemetry
from sluice.otel.start import detected_resource
from sluice.workers.processes import kernel
from sluice.workers.setting_names import SCALED_HERE
from sluice.workers.settings import Settings

PR_SET_NAME = 15
LONGEST_NAME = 15
"""Characters of a process's name in the kernel (prctl(2))."""
_LOOK_SECONDS = 0.01


@dataclass
class Forked:
    """A forked child, with the methods of `subprocess.Popen` that a supervisor needs."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code as `Popen.poll` does: a negative number names a signal; None while it runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # it was reaped elsewhere: its exit code is unknown
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends; return its exit code. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        deadline = time.monotonic() + timeout if timeout is not None else float("inf")
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(_LOOK_SECONDS)
        return code

    def kill(self) -> None:
        """Kill it at once."""
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
    descriptor of both its outputs; None keeps this process's own. Descriptors in `close` are closed in the child.
    The child gets the signal `die_with` when this process dies. Call it in the main thread.

    Raises `OSError` if no further process can be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, kernel.ENDING_SIGNALS)  # a signal for the child must not be lost
    try:
        pid = os.fork()
        if pid == 0:
            _be_child(run, name, output, close, die_with)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, kernel.ENDING_SIGNALS)
    _lead_group(pid)
    return Forked(pid)


def _be_child(
    run: Callable[[], object], name: str, output: int | None, close: Collection[int], die_with: signal.Signals
) -> None:
    """Run as the child; never returns."""
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
        if sys.platform.startswith("linux"):  # what `top` and `ps -o comm` show
            ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:LONGEST_NAME], 0, 0, 0)
        kernel.die_with_parent(die_with)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, kernel.ENDING_SIGNALS)
        code = _exit_code(run)
    except BaseException:  # noqa: BLE001 - the child must not go on as its parent
        sys.stderr.write(redact_text(traceback.format_exc()))
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
        sys.stderr.write(f"error {redact_text(str(error))}\n")
        return 1
    return 0


def _lead_group(pid: int) -> None:
    """Make the child lead a process group. Both sides call it, as neither knows which of them runs first."""
    try:
        os.setpgid(pid, 0)
    except OSError:  # it has ended already
        return


def _forget_signals() -> None:
    """Let signals end this process again, and keep them from the process that forked it."""
    signal.set_wakeup_fd(-1)
    for number in (*kernel.ENDING_SIGNALS, kernel.RETIRE):
        if signal.getsignal(number) != signal.SIG_IGN:  # respect nohup(1)
            signal.signal(number, signal.SIG_DFL)


Program = Sequence[str] | Callable[[], object]
"""The program of a child: a command line, or a function for a fork of the supervisor."""

FIRST_PAUSE_SECONDS = 0.2
LONGEST_START_SECONDS = 600.0
"""Time after which a program that has given no sign of life counts as silent, though it uses the processor."""
_MOST_SIGNS = 4_096


def command_of(_settings: Settings, *arguments: str) -> list[str]:
    """Return the command line of a process that is no fork: its command, for instance `worker`, `crawl`. It reads its
    settings from its environment."""
    return [sys.executable, "-m", "sluice.cli", *arguments]


@dataclass
class Child:
    """A named process across restarts. Only the supervisor's main thread starts and ends it."""

    name: str
    program: Program
    is_worker: bool = False
    settings: Settings | None = None
    """Its settings, where they are not the supervisor's: the sizes of pools change while it runs."""
    process: subprocess.Popen[bytes] | Forked | None = None
    started_at: float = 0.0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    start_after: float = 0.0
    deaths: int = 0
    gives_signs: bool = False
    """Whether the program gives signs of life. Before the first it may take long to start, as long as it gets on."""
    silent_seconds: float = 0.0
    """Seconds since its last sign of life, or before the first since it last used the processor or wanted it; 0 for a
    program that gives none."""
    late_seconds: float = 0.0
    """Time for which it was late whenever it was examined."""
    starting_seconds: float = 0.0
    used: int = 0
    """The processor's time that it has had before its first sign, in clock ticks."""
    condemned: str | None = None
    """The reason why it is to be killed."""
    gone_by: float = float("inf")
    """The time by which it must have ended, once asked to."""
    is_retired: bool = False
    """Whether it is to end and not to be started again."""
    _is_hurried: bool = False
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
        """Descriptors that another forked child must close."""
        return () if self._ear is None else (self._ear,)

    def start(self, environment: Mapping[str, str], output: int | None, close: Collection[int] = ()) -> None:
        """Start it, with both outputs on the descriptor `output`; None keeps the supervisor's own.

        It leads a process group of its own, so that Ctrl-C reaches the supervisor alone, which stops the others in
        order. A command line runs in `environment`; a fork has the supervisor's environment, is told which stages are
        resized and its log file, and closes `close`.
        """
        ear, mouth = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if callable(self.program):
                told = {name: environment[name] for name in (SCALED_HERE, VARIABLE) if name in environment}
                self.process = self._fork(self.program, told, output, mouth, (*close, ear))
            else:
                self.process = subprocess.Popen(  # noqa: S603 - our own command line
                    self.program,
                    env={**environment, kernel.LIFELINE: str(mouth)},
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    preexec_fn=kernel.tied_to_parent(),
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
        self.late_seconds, self.starting_seconds, self.used = 0.0, 0.0, 0

    def _fork(
        self, run: Callable[[], object], told: Mapping[str, str], output: int | None, mouth: int, close: Collection[int]
    ) -> Forked:
        def run_with_lifeline() -> None:
            os.environ.update(told)
            os.environ[kernel.LIFELINE] = str(mouth)
            run()

        return fork(run_with_lifeline, self.name, output=output, close=close)

    def listen(self, passed_seconds: float) -> None:
        """Read its signs of life, and update how long it has been silent."""
        try:
            heard = bool(self._ear is not None and os.read(self._ear, _MOST_SIGNS))
        except BlockingIOError:
            heard = False
        self.speaks = self.speaks or heard
        is_well = heard or (not self.speaks and (not self.gives_signs or self._gets_on(passed_seconds)))
        self.silent_seconds = 0.0 if is_well else self.silent_seconds + passed_seconds

    def _gets_on(self, passed_seconds: float) -> bool:
        """Return whether it still starts: since the last look it has used the processor, or it waits for it."""
        self.starting_seconds += passed_seconds
        facts = kernel.facts_of(self.pid) if self.pid else None
        if facts is None:
            return True
        before, self.used = self.used, facts.used
        return self.starting_seconds < LONGEST_START_SECONDS and (facts.state == kernel.RUNNABLE or facts.used > before)

    def ask_to_end(self, patience_seconds: float) -> None:
        """Send SIGTERM, once (twice would hurry it); after `patience_seconds` the supervisor kills it."""
        if self.pid and (self.gone_by == float("inf") or (self.is_retired and not self._is_hurried)):
            os.kill(self.pid, signal.SIGTERM)
            self.gone_by, self._is_hurried = time.monotonic() + patience_seconds, True

    def retire(self, patience_seconds: float) -> None:
        """Let it finish what it has in hand and end for good; after `patience_seconds` the supervisor kills it."""
        self.is_retired = True
        if self.pid and self.gone_by == float("inf"):
            os.kill(self.pid, kernel.RETIRE)
            self.gone_by = time.monotonic() + patience_seconds

    def kill(self) -> None:
        """Kill it at once, with all of its process group."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def bury(self) -> subprocess.Popen[bytes] | Forked | None:
        """Forget the process, which has ended, and kill the rest of its group; return it."""
        process = self.process
        self.kill()
        self.process = None
        if self._ear is not None:
            os.close(self._ear)
            self._ear = None
        return process


@cache
def shared_modules() -> tuple[str, ...]:
    """Return the modules that several processes use, and slow ones."""
    return tuple(files(__package__).joinpath("shared_modules.txt").read_text("utf-8").split())


def preload(settings: Settings) -> None:
    """Import and load shared modules, and freeze them for the garbage collector, which would write to every page."""
    kernel.limit_heaps()
    disable_library_telemetry()
    gc.disable()
    for module in (*shared_modules(), *_wanted(settings)):
        importlib.import_module(module)
    shared_tokenizer()
    detected_resource()
    with suppress(SluiceError):  # the process that needs them says what is wrong with them
        load_profiles(settings.gate.profiles_dir)
    gc.enable()
    gc.collect()
    kernel.return_free_memory()
    gc.freeze()


def _wanted(settings: Settings) -> Iterator[str]:
    """Yield modules that only some settings need. Modules left out here are imported where they are needed."""
    if settings.crawl.enabled:
        yield "sluice.workers.wiring.crawler"
    if settings.search.enabled:
        yield "sluice.ingest.search.search"
    if not settings.embed.uses_endpoint:
        yield "onnxruntime"
