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
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sluice.contracts.memory.model import (
    MAX_ENTRIES,
    MAX_MESSAGE_CHARACTERS,
    CheckRun,
    ErrorEntry,
    ErrorType,
    FileAction,
)
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
    evidence = _Evidence(run.said, calls, root)
    for one in calls:
        errors = list(_of_call(one, paths, root, not_kept))
        ended = programs_run(one, errors, paths)
        if not errors and any(each.is_check and not each.run.passed for each in ended):
            errors = [_of_failure(one.call, one.command, one.directory, paths)]
        not_kept["repeated_error"] += evidence.add(
            ended, errors, [_check_of(each, ended, one, paths) for each in errors]
        )
    standing: list[tuple[int, ErrorEntry]] = []
    solved: list[ErrorEntry] = []
    for at, error in evidence.met.values():
        end = evidence.end_of(error, at)
        if end is None:
            standing.append((at, error))
        elif how := evidence.solution(error, at, end):
            solved.append(error.model_copy(update={"solved_by": how}))
    return Findings(list(evidence.met), _with_evidence(standing, calls), solved, evidence.checks())


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


class _Evidence:
    """What each call of a run ran and reported, to find how an error ended. Calls are meant by their place."""

    def __init__(self, said: Sequence[str], calls: Sequence[LocatedCall], root: str | None) -> None:
        self.met: dict[ErrorEntry, tuple[int, ErrorEntry]] = {}
        """By error: where it was met last, and the error with its check."""
        self._said, self._calls, self._root = said, calls, root
        self._ran: list[Sequence[Ran]] = []
        self._reported: list[list[ErrorEntry]] = []
        self._calls_of: defaultdict[str, list[int]] = defaultdict(list)
        """By program, the calls that ran it."""
        self.before = cache(self._before)

    def add(self, ended: Sequence[Ran], errors: Sequence[ErrorEntry], checks: Sequence[CheckRun]) -> int:
        """Add a call's programs and its errors with their checks; return how many of these were met before."""
        at, known = len(self._ran), sum(error in self.met for error in errors)
        self._ran.append(ended)
        self._reported.append([one.model_copy(update={"check": run}) for one, run in zip(errors, checks, strict=True)])
        self.met.update(zip(errors, ((at, one) for one in self._reported[at]), strict=True))
        for program in {one.run.program for one in ended}:
            self._calls_of[program].append(at)
        return known

    def end_of(self, error: ErrorEntry, at: int) -> int | None:
        """Return the first call that shows that an error met last by call `at` is gone; None if it stands."""
        if error.check is None:
            return None
        later = self._calls_of[error.check.program]
        return next((end for end in later[bisect_right(later, at) :] if self._ends(error, error.check, at, end)), None)

    def _ends(self, error: ErrorEntry, check: CheckRun, at: int, end: int) -> bool:
        if not self._started(at):
            return self._started(end)
        covering = [one for one in self._ran[end] if one.run.covers(check)]
        if not covering or covering[-1].run.passed or not covering[-1].is_check:
            return bool(covering) and covering[-1].run.passed
        of_program = (one for one in self._reported[end] if one.check and one.check.program == check.program)
        return is_missing(error, [*of_program])

    def _started(self, at: int) -> bool:
        return any(one.started for one in self._ran[at])

    def solution(self, error: ErrorEntry, at: int, end: int) -> str | None:
        """Return how an error was solved between two calls; None if it was a slip, or another took its place.

        Of a program that did not start: only how it is called, if it is not there; what was misspelt teaches nothing.
        """
        if not self._started(at):
            missing = PHRASES["no_program"].search(error.message)
            return f"ran `{_first_line(self._calls[end].command or '')}`" if missing else None
        later = self._calls_of[error.check.program if error.check else ""]
        passed = (one for call in later if call >= end for one in self._ran[call] if one.run.passed)
        if any(error.check and one.run.covers(error.check) for one in passed):
            return self.before(end, at)
        replaced = any(takes_place(one, error) for one in self._reported[end])
        return None if replaced else self.before(end, at)

    def _before(self, end: int, since: int = -1) -> str | None:
        """Tell what happened before a call and after `since`: files changed, else commands; the agent's own words."""
        between = self._calls[since + 1 : end + 1]
        changes = file_changes(between, "", ProjectPaths.of(self._root), Counter())
        changed = dict.fromkeys(one.path for one in changes if one.action is not FileAction.READ)
        commands = dict.fromkeys(
            _first_line(one.command)
            for one, ended in zip(between, self._ran[since + 1 : end + 1], strict=True)
            if one.command is not None and any(each.run.passed and not each.is_check for each in ended)
        )
        begun = self._calls[since].call.said_before if since >= 0 else 0
        said = self._said[begun : self._calls[end].call.said_before]
        told = [f"changed {', '.join([*changed][:_MOST_NAMED])}"] if changed else []
        told += [f"ran {', '.join(f'`{one}`' for one in [*commands][-2:])}"] if commands and not changed else []
        told += [" ".join(said[0].split())[:_MAX_SAID]] if said else []
        again = "it passed when it ran again" if any(one.is_check for one in self._ran[end]) else None
        return ": ".join(told) or again

    def checks(self) -> list[CheckRun]:
        """Return the last run of each check, with what came before it."""
        places = {id(one.run): at for at, ended in enumerate(self._ran) for one in ended}
        last = last_checks(one for ended in self._ran for one in ended)[-MAX_ENTRIES:]
        return [one.model_copy(update={"after": self.before(places[id(one)])}) for one in last]


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
