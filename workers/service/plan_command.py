"""The command of an operator that is handed a refresh plan: run without a shell, for a limited time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from sluice.contracts.errors import InvalidInput, TimedOut

PLAN_VARIABLE = "SLUICE_REFRESH_PLAN"
"""In the environment of the command: the path of the plan, which is also its last argument."""
_TERM_SECONDS = 5.0
"""Between SIGTERM and SIGKILL."""


def run_with_plan(command: str, plan: Path, timeout_seconds: float, *, stdout: int | None = None) -> int:
    """Run `command` with the path of the plan behind its arguments; its exit code (128 + the signal that ended it).

    `stdout` is where its output goes; by default where ours does.

    Raises:
        InvalidInput: there is no such command.
        TimedOut: it took longer, and was ended with all that it had started.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InvalidInput("exec", f"cannot be read: {error}", "quote it as for a shell") from error
    if not arguments:
        raise InvalidInput("exec", "is empty", "name a program")
    environment = {**os.environ, PLAN_VARIABLE: str(plan)}
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            [*arguments, str(plan)], env=environment, stdout=stdout, start_new_session=True
        )
    except OSError as error:
        raise InvalidInput("exec", f"{arguments[0]!r} cannot be run: {error.strerror}", "name a program") from error
    try:
        code = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise TimedOut(f"{arguments[0]} took longer than {timeout_seconds:g} seconds, and was ended") from error
    except BaseException:
        _end(process)
        raise
    return code if code >= 0 else 128 - code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
