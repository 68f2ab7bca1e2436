"""Errors of an iteration: those that its tools reported, and calls that failed without a known report.

`errors` reads a command's output and decides by the command and its exit status first: a command that only shows files
or logs gives none. A failed call without such errors (a refused edit, a missing permission, an unknown tool's failure)
is one error with its first meaningful line, of this type:

1. Permission: a person or a permission refused the call, or its output says so (`permission denied`, `EACCES` …).
2. Lint: an editor refused an edit because its linter reported something; each of the linter's lines is an error.
3. Logic: the agent tried something missing or impossible: no such file, a text to replace that is not in the file,
   wrong arguments of a tool or a command.
4. Unknown: all others.

A program like `grep` that ended with 1, as it found nothing, is no error. The last lines of an output with errors are
kept unchanged beside the first of them.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from sluice.contracts.memory.model import MAX_MESSAGE_CHARACTERS, ErrorEntry, ErrorType
from sluice.memory.extraction.agent_run import PHRASES, CallStatus, ToolUseEvent
from sluice.memory.extraction.errors import find_errors, last_lines
from sluice.memory.extraction.errors.matchers import type_of
from sluice.memory.extraction.errors.output import plain
from sluice.memory.extraction.file_uses import is_file_tool, path_of, runs_something
from sluice.memory.extraction.files import LocatedCall
from sluice.memory.extraction.paths import ProjectPaths
from sluice.memory.extraction.shell import found_nothing

_MAX_CHARACTERS = 20_000
MAX_WITH_EVIDENCE = 3
"""Most calls of an iteration whose last lines are kept: the last ones, whose errors may still stand."""
_SAYS_LITTLE = 40
"""A line of fewer characters is recorded with the command that printed it."""


def iteration_errors(
    calls: Iterable[LocatedCall], paths: ProjectPaths, root: str | None, not_kept: Counter[str]
) -> list[ErrorEntry]:
    """Return the errors of a run, each once, in order of first occurrence. `root`: the project's folder."""
    found: dict[ErrorEntry, str] = {}
    for one in calls:
        for number, error in enumerate(_of_call(one, paths, root, not_kept)):
            if error in found:
                not_kept["repeated_error"] += 1
            elif number == 0 and one.call.status is not CallStatus.DENIED and _runs(one):
                found[error] = last_lines(one.call.output)
            else:
                found[error] = ""
    last = [error for error, lines in found.items() if lines not in ("", error.message)][-MAX_WITH_EVIDENCE:]
    return [one.model_copy(update={"evidence": found[one]}) if one in last else one for one in found]


def _runs(one: LocatedCall) -> bool:
    return one.command is not None or runs_something(one.call)


def first_meaningful_line(output: str) -> str:
    """Return the first line that reports an error, else the first meaningful line; "" if there is none."""
    text = plain(output[:_MAX_CHARACTERS].replace("\r\n", "\n").replace("\r", "\n"))
    lines = [PHRASES["tool_error_tag"].sub("", line).strip() for line in text.split("\n")]
    meaningful = [line for line in lines if not PHRASES["no_meaning"].fullmatch(line)]
    return next((line for line in meaningful if PHRASES["telling"].search(line)), meaningful[0] if meaningful else "")


def _of_call(one: LocatedCall, paths: ProjectPaths, root: str | None, not_kept: Counter[str]) -> Iterable[ErrorEntry]:
    call, directory, command = one.call, one.directory, one.command
    if call.status in (CallStatus.UNANSWERED, CallStatus.INTERRUPTED):
        return ()
    if call.status is CallStatus.DENIED:
        what = f"{call.name} was refused: {command or path_of(call) or ''}".rstrip(": ")
        return [_entry(what, ErrorType.PERMISSION)]
    if PHRASES["refused_edit"].match(call.output):
        return _of_linter(call, directory, paths)
    found: list[ErrorEntry] = []
    if _runs(one):
        found = list(_reported(call, command, directory, root, not_kept))
    failed = call.status is CallStatus.FAILED and not (command is not None and found_nothing(command, call.exit_code))
    return found or ([_of_failure(call, command, directory, paths)] if failed else ())


def _reported(
    call: ToolUseEvent, command: str | None, directory: str | None, root: str | None, not_kept: Counter[str]
) -> Iterator[ErrorEntry]:
    if command is not None and directory and directory != root:
        command = f"cd {shlex.quote(directory)} && {command}"
    for error in find_errors(call.output, command=command, exit_code=call.exit_code, root=root):
        if error.outside:
            not_kept["path_outside"] += 1
        yield _entry(error.message, error.error_type, error.file_path, line=error.line, tool=error.tool)


def _of_linter(call: ToolUseEvent, directory: str | None, paths: ProjectPaths) -> list[ErrorEntry]:
    path = path_of(call)
    inside = paths.find(path, directory) if path else None
    lines = PHRASES["linter_line"].findall(call.output) or [first_meaningful_line(call.output)]
    return [_entry(line, type_of(line, ErrorType.LINT), inside, tool="flake8") for line in lines]


def _of_failure(call: ToolUseEvent, command: str | None, directory: str | None, paths: ProjectPaths) -> ErrorEntry:
    line = first_meaningful_line(call.output)
    first = (command or call.name).strip().partition("\n")[0][:300] or "a command"
    if not line:
        line = f"{first} ended with " + (f"exit code {call.exit_code}" if call.exit_code is not None else "an error")
    elif command is not None and len(line) < _SAYS_LITTLE:
        line = f"{first}: {line}"
    kinds = {"permission": ErrorType.PERMISSION, "logic": ErrorType.LOGIC}
    kind = next((kind for name, kind in kinds.items() if PHRASES[name].search(line)), ErrorType.UNKNOWN)
    path = path_of(call) if is_file_tool(call) else None
    return _entry(line, kind, paths.find(path, directory) if path else None, tool=call.name[:100])


def _entry(message: str, error_type: ErrorType, file_path: str | None = None, **place: Any) -> ErrorEntry:
    message = message.strip()[:MAX_MESSAGE_CHARACTERS] or "an error without a message"
    return ErrorEntry(message=message, error_type=error_type, file_path=file_path, **place)
