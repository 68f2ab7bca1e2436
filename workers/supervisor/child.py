"""One process that `sluice up` keeps alive: started, listened to, asked to end, killed with all that belongs to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sluice.workers.processes.process_group import LIFELINE, tied_to_parent
from sluice.workers.supervisor.forking import Forked, fork

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
