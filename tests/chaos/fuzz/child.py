"""Feeds one target until its time is over; started by `tests.chaos.fuzz.watch`, which sees it hang or die.

The input that is being read stands in a file before it is read. What goes wrong is shrunk and written down, and not
looked for a second time.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.chaos.fuzz.targets import TARGETS, Target

_PHASES = (Phase.generate, Phase.shrink)


class Over(BaseException):
    """The time is: ends the round at once, as nothing of hypothesis' own catches it."""


class Slow(Exception):
    """An input took more processor time than one may."""


class Feeder:
    """One target, its folder and what was found so far."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._target: Target = TARGETS[name]
        self._folder = folder
        self._known: set[str] = set()
        self._last = b""
        self._failed: Exception | None = None
        """What went wrong in this round, and with which input."""
        self._current = os.open(folder / f"{name}.current", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.fed = 0

    def feed(self, until: float, first_seed: int) -> None:
        """Rounds of inputs until the clock says so, and of one input at least: the first may take long to make."""
        number = first_seed
        while not self.fed or time.monotonic() < until:
            self._round(number, until)
            number += 1

    def _round(self, number: int, until: float) -> None:
        self._failed = None

        @seed(number)
        @settings(
            max_examples=self._target.examples,
            deadline=None,
            database=None,
            phases=_PHASES,
            suppress_health_check=list(HealthCheck),
        )
        @given(self._target.inputs)
        def one(value: Any) -> None:
            if self.fed and time.monotonic() > until:
                raise Over
            self._one(value)

        try:
            one()
        except (Exception, Over) as error:
            if self._failed is not None:  # when the time is over, as far as it was shrunk
                self._write_down(self._failed)
            elif not isinstance(error, Over):
                raise

    def _one(self, value: Any) -> None:
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        os.pwrite(self._current, raw, 0)
        os.ftruncate(self._current, len(raw))
        self.fed += 1
        started = time.process_time()
        try:
            self._target.run(value)
            seconds = time.process_time() - started
            if seconds > self._target.cpu_seconds:
                raise Slow(f"{seconds:.1f} s for {len(raw)} bytes")
        except Exception as error:
            if _kind(error) not in self._known:
                self._last, self._failed = raw, error
                raise

    def _write_down(self, error: Exception) -> None:
        self._known.add(_kind(error))
        digest = hashlib.sha256(self._last).hexdigest()[:12]
        path = self._folder / f"{self._name}-{type(error).__name__}-{digest}"
        path.with_suffix(".input").write_bytes(self._last)
        path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)))
        print(f"found {path.name}: {error}", file=sys.stderr, flush=True)


def _kind(error: Exception) -> str:
    """Where and how it went wrong: the same twice is one finding."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {frame.filename}:{frame.lineno}"


def main() -> None:
    """`python -m tests.chaos.fuzz.child NAME SECONDS SEED FOLDER`."""
    name, seconds, first_seed, folder = sys.argv[1:]
    feeder = Feeder(name, Path(folder))
    feeder.feed(time.monotonic() + float(seconds), int(first_seed))
    print(feeder.fed)


if __name__ == "__main__":
    main()
