"""Has a child process (ingest/extract/child.py) read a file of a foreign format, with limits that the kernel enforces.

A file of some kilobytes can need hours of work and gigabytes of text. Every end of the child has an error, and no child
is left behind.

| what happens | what is raised |
|---|---|
| the file is damaged or encrypted | `InvalidInput` |
| it takes more processor time than its size warrants, more memory, or holds more text than is kept | `InvalidInput` |
| it makes the reader crash | `InvalidInput` |
| the child does not start, or is killed from outside | `Unavailable`: another try may succeed |
"""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import dataclass
from typing import Any

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.disk.jail import child_command

COMMAND = tuple(child_command("sluice.ingest.extract.child"))
WALL_SECONDS = 90.0
"""Longest time for a file on a shared processor: less than a chunk worker waits for its child."""
MOST_CHARS = 10_000_000
"""Most characters of a file's whole text: 2,000 pages of 5,000 characters, more than any book has."""

_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""Numpy would reserve memory for each processor."""
_SPLIT_IT = "split or convert it"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the child that reads one file."""

    cpu_seconds: int
    address_space_bytes: int
    most_chars: int = MOST_CHARS
    wall_seconds: float = WALL_SECONDS


def read_jailed(what: str, reader: str, body: bytes, bounds: Bounds, *arguments: object) -> dict[str, Any]:
    """Return what the module `reader` of this package makes of `body`; `what` names the format in errors, as `PDF`.

    The module's `read` gets `arguments` as strings. Raises as the module's table says.
    """
    told = (reader, bounds.cpu_seconds, bounds.address_space_bytes, *arguments)
    try:
        ended = subprocess.run(  # noqa: S603 - our own command line
            [*COMMAND, *map(str, told)],
            input=body,
            capture_output=True,
            timeout=bounds.wall_seconds,
            check=False,
            cwd="/",
            env=_ENVIRONMENT,
        )
    except subprocess.TimeoutExpired as error:  # `run` has killed and reaped it
        raise _too_slow(what, bounds.wall_seconds) from error
    except OSError as error:
        raise Unavailable(f"the process that reads a {what} did not start: {error}") from error
    if ended.returncode == -signal.SIGXCPU:
        raise _too_slow(what, bounds.cpu_seconds)
    if ended.returncode:
        raise _death(what, ended.returncode, ended.stderr, bounds)
    return _success(what, json.loads(ended.stdout), bounds)


def _success(what: str, answer: dict[str, Any], bounds: Bounds) -> dict[str, Any]:
    match answer.get("failure"):
        case None:
            return answer
        case "encrypted":
            raise InvalidInput("body", f"the {what} is encrypted", "send it without a password")
        case "characters":
            raise InvalidInput("body", f"the {what} holds more than {bounds.most_chars} characters", _SPLIT_IT)
        case "memory":
            raise _too_large(what, bounds)
        case _:
            raise InvalidInput("body", f"the {what} cannot be read: {answer['detail']}", "repair or convert it")


def _too_slow(what: str, seconds: float) -> InvalidInput:
    return InvalidInput("body", f"the {what} takes more than {seconds:g} s to read", _SPLIT_IT)


def _too_large(what: str, bounds: Bounds) -> InvalidInput:
    return InvalidInput("body", f"the {what} needs more than {bounds.address_space_bytes} bytes of memory", _SPLIT_IT)


def _death(what: str, status: int, complaint: bytes, bounds: Bounds) -> InvalidInput | Unavailable:
    """Return the error for the child's death: a kill says nothing about the file, a crash does."""
    how = signal.Signals(-status).name if status < 0 else f"status {status}"
    if status in (-signal.SIGKILL, -signal.SIGTERM):
        return Unavailable(f"the process that reads a {what} was ended by {how}")
    last_line = complaint.decode(errors="replace").strip().rpartition("\n")[2]
    if "MemoryError" in last_line or "memory allocation" in last_line:
        return _too_large(what, bounds)
    why = last_line[:300] or f"it is damaged, or needs more than {bounds.address_space_bytes} bytes of memory"
    return InvalidInput("body", f"the {what} makes its reader end with {how}: {why}", "repair, split or convert it")
