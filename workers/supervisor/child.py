"""One process that `sluice up` keeps alive: started, listened to, asked to end, killed with all that belongs to it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from workers.processes.process_group import LIFELINE, tied_to_parent

FIRST_PAUSE_SECONDS = 0.2
_MOST_SIGNS = 4_096


@dataclass
class Child:
    """A process by its name, whichever it is at the moment. Only the supervisor's main thread starts and ends it."""

    name: str
    command: Sequence[str]
    is_worker: bool = False
    process: subprocess.Popen[bytes] | None = None
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
    _speaks: bool = False

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return self.process.pid if self.process and self.process.poll() is None else None

    @property
    def stage(self) -> str:
        """The stage of a worker: its name without its number."""
        return self.name.rsplit("-", 1)[0]

    def start(self, environment: Mapping[str, str], output: int | None) -> None:
        """Start it, with both outputs on the descriptor `output`; they are the supervisor's own without one."""
        ear, mouth = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                self.command,
                env={**environment, LIFELINE: str(mouth)},
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                preexec_fn=tied_to_parent(),
                pass_fds=[mouth],
                process_group=0,  # so that Ctrl-C reaches the supervisor alone, which stops the others in order
            )
        except OSError:
            os.close(ear)
            raise
        finally:
            os.close(mouth)
        self._ear, self.started_at = ear, time.monotonic()
        self.silent_seconds, self.condemned, self.gone_by, self._speaks = 0.0, None, float("inf"), False

    def listen(self, passed_seconds: float) -> None:
        """Hear whether it gave a sign of life while that time passed."""
        try:
            heard = bool(self._ear is not None and os.read(self._ear, _MOST_SIGNS))
        except BlockingIOError:
            heard = False
        self._speaks = self._speaks or heard
        self.silent_seconds = 0.0 if heard or not self._speaks else self.silent_seconds + passed_seconds

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

    def bury(self) -> subprocess.Popen[bytes] | None:
        """Forget the process, which has ended; what is left of its group is killed."""
        process = self.process
        self.kill()
        self.process = None
        if self._ear is not None:
            os.close(self._ear)
            self._ear = None
        return process
