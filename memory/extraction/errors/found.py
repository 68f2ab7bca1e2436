"""An error that a tool printed: as its reader saw it, and as it is given out."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.contracts.memory.model import ErrorType

MAX_FOUND = 200
"""Errors that one output gives at most; as many as a record holds."""


@dataclass(frozen=True, slots=True)
class FoundError:
    """An error that a tool reported.

    `file_path` is relative to the project's folder; None where the tool named no file, or one outside (`outside`).
    `line` is 1-based and belongs to `file_path`.
    """

    message: str
    error_type: ErrorType
    file_path: str | None
    line: int | None
    tool: str
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """What one reader saw in the lines [first, last] of an output: `path` is as printed, `tool` names who reported it.

    `follows`: it only says that something failed (`make: *** … Error 1`), so that it counts where nothing else does.
    `error_type` is given where the reader knows better than the table of `kinds`; `column` tells two of one line apart.
    """

    message: str
    tool: str
    first: int
    last: int
    path: str | None = None
    line: int | None = None
    follows: bool = False
    error_type: ErrorType | None = None
    column: str = ""
