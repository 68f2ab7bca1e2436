"""Errors of an iteration: those that its tools reported, and calls that failed without a known report.

`errors` reads a command's output and decides by the command and its exit status first: a command that only shows files
or logs gives none. A failed call without such errors (a refused edit, a missing permission, an unknown tool's failure)
is one error with its first meaningful line, of this type:

1. Permission: a person or a permission refused the call, or its output says so (`permission denied`, `EACCES` …).
2. Lint: an editor refused an edit because its linter reported something; each of the linter's lines is an error.
3. Logic: the agent tried something missing or impossible: no such file, a text to replace that is not in the file,
   wrong arguments of a tool or a command.
4. Unknown: all others.

A program like `grep` that ended with 1, as it found nothing, is no error. A check that failed behind a pipe is one,
also where no format is known. The last lines of an output with errors are kept unchanged beside the first of them.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.contracts.memory.model import MAX_MESSAGE_CHARACTERS, CheckRun, ErrorEntry, ErrorType, FileAction
from sluice.memory.extraction.agent_run import PHRASES, AgentRun, CallStatus, ToolUseEvent
from sluice.memory.extraction.checks import MAX_TARGETS, Ran, is_missing, last_checks, programs_run, takes_place
from sluice.memory.extraction.errors import find_errors, last_lines
from sluice.memory.extraction.errors.matchers import type_of
from sluice.memory.extraction.errors.output import plain
from sluice.memory.extraction.file_uses import is_file_tool, path_of, runs_something
from sluice.memory.extraction.files import LocatedCall, file_changes
from sluice.memory.extraction.paths import ProjectPaths
from sluice.memory.extraction.shell import found_nothing

_MAX_CHARACTERS = 20_000
MAX_WITH_EVIDENCE = 3
"""Most calls of an iteration whose last lines are kept: the last ones, whose errors may still stand."""
_SAYS_LITTLE = 40
"""A line of fewer characters is recorded with the command that printed it."""
_MAX_COMMAND, _MAX_SAID, _MOST_NAMED = 120, 200, 4


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run's tools reported: the errors that stand at its end, those that it solved, the last run of each check.

    `met` has all errors, each once, in order of first occurrence.
    """

    met: list[ErrorEntry]
    standing: list[ErrorEntry]
    solved: list[ErrorEntry]
    checks: list[CheckRun]


def iteration_errors(
    run: AgentRun, calls: Sequence[LocatedCall], paths: ProjectPaths, root: str | None, not_kept: Counter[str]
) -> Findings:
    """Return what the tools of a run reported. `root`: the project's folder.

    An error stands if no later run that covers its check passed, or failed without it.
    """
    met: dict[ErrorEntry, tuple[int, ErrorEntry]] = {}
    ran: list[list[Ran]] = []
    for at, one in enumerate(calls):
        errors = list(_of_call(one, paths, root, not_kept))
        ended = programs_run(one, errors, paths)
        if not errors and any(each.is_check and not each.run.passed for each in ended):
            errors = [_of_failure(one.call, one.command, one.directory, paths)]
        ran.append(ended)
        for error in errors:
            not_kept["repeated_error"] += error in met
            met[error] = (at, error.model_copy(update={"check": _check_of(error, ended, one, paths)}))
    standing, solved = [], []
    for at, error in met.values():
        started = any(one.started for one in ran[at])
        later = range(at + 1, len(calls))
        end = next((call for call in later if _ends(error, started, ran[call], met, call)), None)
        if end is None:
            standing.append((at, error))
        elif not started:  # what was misspelt teaches nothing; a program that is not there, how to call it
            if PHRASES["no_program"].search(error.message):
                called = f"ran `{_first_line(calls[end].command or '')}`"
                solved.append(error.model_copy(update={"solved_by": called}))
        elif (how := _how(run, calls, ran, at, end, root)) and _is_solved(error, ran[end:], met, end):
            solved.append(error.model_copy(update={"solved_by": how}))
    checks = last_checks(each for one in ran for each in one)
    after = {id(each.run): _how(run, calls, ran, -1, at, root) for at, one in enumerate(ran) for each in one}
    checks = [one.model_copy(update={"after": after[id(one)]}) for one in checks]
    return Findings(list(met), _with_evidence(standing, calls), solved, checks)


def _check_of(error: ErrorEntry, ended: Sequence[Ran], one: LocatedCall, paths: ProjectPaths) -> CheckRun:
    """Return the run that reported an error, on the places that failed in it, as far as it names them."""
    failed = [each for each in ended if not each.run.passed] or ended
    if not failed:
        return CheckRun(program=(error.tool or one.call.name)[:100])
    reported = next((each for each in failed if error.tool in each.run.program.split()), failed[-1])
    tests = [paths.find(path, one.directory) for path in PHRASES["failed_test"].findall(one.call.output)]
    places = [error.file_path] if reported.is_check and error.error_type is not ErrorType.TEST else tests
    named = tuple(dict.fromkeys(place for place in places if place))[:MAX_TARGETS]
    narrow = CheckRun(program=reported.run.program, targets=named)
    return narrow if named and reported.run.covers(narrow) else reported.run


def _ends(
    error: ErrorEntry, started: bool, ended: Sequence[Ran], met: Mapping[ErrorEntry, tuple[int, ErrorEntry]], at: int
) -> bool:
    """Return whether the runs of call number `at` show that an error met before it is gone.

    If the error's program had not even `started`, so does its first run that did.
    """
    if error.check is not None and not started and any(one.run.program == error.check.program for one in ended):
        return any(one.started for one in ended)
    covering = [one for one in ended if error.check is not None and one.run.covers(error.check)]
    if not covering or covering[-1].run.passed or not covering[-1].is_check:
        return bool(covering) and covering[-1].run.passed
    others = (one for place, one in met.values() if place == at)
    return is_missing(error, [one for one in others if one.check and one.check.program == covering[-1].run.program])


def _is_solved(
    error: ErrorEntry, ended: Sequence[Sequence[Ran]], met: Mapping[ErrorEntry, tuple[int, ErrorEntry]], at: int
) -> bool:
    """Return whether a missing error's check passed in the end, or no other error took its place."""
    if any(one.run.passed and error.check and one.run.covers(error.check) for each in ended for one in each):
        return True
    return not any(place == at and takes_place(one, error) for place, one in met.values())


def _how(
    run: AgentRun, calls: Sequence[LocatedCall], ran: Sequence[Sequence[Ran]], at: int, end: int, root: str | None
) -> str | None:
    """Tell what happened between an error and the run without it: files changed, else commands; the agent's words."""
    between = calls[at + 1 : end + 1]
    changes = file_changes(between, "", ProjectPaths.of(root), Counter())
    changed = dict.fromkeys(one.path for one in changes if one.action is not FileAction.READ)
    commands = dict.fromkeys(
        _first_line(one.command)
        for one, ended in zip(between, ran[at + 1 : end + 1], strict=True)
        if one.command is not None and any(each.run.passed and not each.is_check for each in ended)
    )
    said = run.said[calls[at].call.said_before if at >= 0 else 0 : calls[end].call.said_before]
    told = [f"changed {', '.join([*changed][:_MOST_NAMED])}"] if changed else []
    told += [f"ran {', '.join(f'`{one}`' for one in [*commands][-2:])}"] if commands and not changed else []
    told += [" ".join(said[0].split())[:_MAX_SAID]] if said else []
    again = "the same passed when it ran again" if any(each.is_check for each in ran[end]) else None
    return ": ".join(told) or again


def _first_line(command: str) -> str:
    return command.strip().partition("\n")[0][:_MAX_COMMAND]


def _with_evidence(standing: Sequence[tuple[int, ErrorEntry]], calls: Sequence[LocatedCall]) -> list[ErrorEntry]:
    """Return the errors, those met last at the end; of the last calls, the first error with the end of the output."""
    ordered = sorted(standing, key=lambda one: one[0])
    first = {at: number for number, (at, _) in reversed([*enumerate(ordered)])}
    ran = [at for at in sorted(first) if _runs(calls[at]) and calls[at].call.status is not CallStatus.DENIED]
    kept = [error for _, error in ordered]
    for at in ran[-MAX_WITH_EVIDENCE:]:
        error = kept[first[at]]
        lines = last_lines(PHRASES["exit_code"].sub("", calls[at].call.output, count=1))
        if lines not in ("", error.message):
            kept[first[at]] = error.model_copy(update={"evidence": lines})
    return kept


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
