"""Reads from each tool call which programs ran, on what, and whether they passed: the evidence for an outcome.

A check is a test, a lint, a type check or a build (`checks` in `programs.toml`). A call's exit status decides, as far
as it is the program's own: behind a pipe or a `;` the output decides. A program that did not run at all (`command not
found`, still in the background, stopped by its user) is evidence of nothing.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from sluice.contracts.memory.model import CheckRun, ErrorEntry, ErrorType
from sluice.memory.extraction.agent_run import PHRASES, CallStatus
from sluice.memory.extraction.errors import last_lines
from sluice.memory.extraction.errors.matchers import matchers
from sluice.memory.extraction.file_uses import path_of
from sluice.memory.extraction.files import LocatedCall, without_volatile
from sluice.memory.extraction.paths import ProjectPaths
from sluice.memory.extraction.shell import PROGRAMS, Step, found_nothing, known, program_name, read_command

MAX_TARGETS = 20
_IN_FILE = re.compile(r"\A[^\s:]{1,300}::")
READS = re.compile(r"(?i)read|view|open|glob|grep|search|find|fetch")
"""Tools that only look: one that missed a file is no matter any more once it found another."""
_DID_NOT_RUN = (126, 127)


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that a call ran. `is_check`: it is a test, lint, type check or build; `started`: it did run."""

    run: CheckRun
    is_check: bool
    started: bool = True


def programs_run(one: LocatedCall, errors: Sequence[ErrorEntry], paths: ProjectPaths) -> list[Ran]:
    """Return the programs that a call ran and that ended, those that failed among them by `errors` and exit status."""
    call = one.call
    if call.status in (CallStatus.UNANSWERED, CallStatus.INTERRUPTED):
        return []
    if one.command is None:
        path = None if READS.match(call.name) else paths.find(path_of(call) or "", one.directory)
        return [Ran(_run(call.name, [path] if path else [], call.status is CallStatus.OK), is_check=False)]
    if call.exit_code is None and PHRASES["background"].match(call.output):
        return []
    commands = read_command(one.command)
    commands.steps = [_in_container(step) for step in commands.steps]
    steps = [step for step in commands.steps if step.program not in ("cd", "")]
    steps = [step for step in steps if not step.reads] or steps
    exit_code = _stated(commands.steps, call.output, call.exit_code)
    failed = call.status is not CallStatus.OK if exit_code is None else exit_code != 0
    failed = failed and not found_nothing(one.command, exit_code)
    masked = steps if failed or exit_code is None else [one for one in commands.doubtful() if one in steps]
    red, is_sure = _failed(steps, masked, failed, errors, call.output)
    folder = posixpath.join(one.directory or "", commands.folder or "") or None
    did_not_run = exit_code in _DID_NOT_RUN or any(
        PHRASES[name].search(call.output[:2_000]) for name in ("no_program", "misused")
    )
    ran = []
    for step in _ended(steps, masked, red, is_sure):
        name, is_check, words = _identity(step)
        run = _run(name, _targets(name, words, folder, paths), step not in red)
        ran.append(Ran(run, is_check, started=not (step in red and did_not_run)))
    return ran


def last_checks(ran: Iterable[Ran]) -> list[CheckRun]:
    """Return the last run of each check, in order; a run takes the place of those before it that it covers."""
    last: list[CheckRun] = []
    for one in ran:
        if one.is_check and one.started:
            last = [*(before for before in last if not one.run.covers(before)), one.run]
    return last


def is_missing(error: ErrorEntry, reported: Sequence[ErrorEntry]) -> bool:
    """Return whether a failed run that covers an error's check would have `reported` it if it still stood.

    So it would if it reported others of the same tool, unless code does not compile, which hides tests.
    """
    if any(is_same(error, one) for one in reported):
        return False
    hidden = any(one.error_type is ErrorType.COMPILE for one in reported) and error.error_type is not ErrorType.COMPILE
    return bool(reported) and not hidden and all(one.tool == error.tool for one in reported)


def takes_place(one: ErrorEntry, of: ErrorEntry) -> bool:
    """Return whether an error stands where another one stood: in the same test, else in the same file."""
    in_test = of.error_type is ErrorType.TEST and one.error_type is ErrorType.TEST
    same_test = _IN_FILE.sub("", one.message).partition(":")[0] == _IN_FILE.sub("", of.message).partition(":")[0]
    return same_test if in_test else of.file_path is not None and one.file_path == of.file_path


def is_same(one: ErrorEntry, other: ErrorEntry) -> bool:
    """Return whether two errors are the same failure in two forms: with a traceback, or in a line of a summary.

    A summary names the test by its file (`tests/test_a.py::test_x`), and may cut the message.
    """
    first, second = (_IN_FILE.sub("", without_volatile(each.message, "errors")) for each in (one, other))
    shorter, longer = sorted((first, second), key=len)
    is_cut = shorter.endswith("...") and longer.startswith(shorter.removesuffix("...").rstrip())
    return one.tool == other.tool and (first == second or is_cut)


def _run(name: str, targets: Sequence[str], passed: bool) -> CheckRun:
    return CheckRun(program=name[:100], targets=tuple(dict.fromkeys(targets))[:MAX_TARGETS], passed=passed)


def _in_container(step: Step) -> Step:
    """Return the program that a step runs in a container: `docker exec app pytest -q` is `pytest -q`."""
    if step.program not in known("containers"):
        return step
    starts = known("interpreters") | known("run_scripts") | {name.split()[0] for name in PROGRAMS.tables["checks"]}
    at = max((at for at, word in enumerate(step.words) if program_name(word) in starts - {step.program}), default=0)
    inner = read_command(shlex.join(step.words[at:])).steps if at else []
    return replace(inner[0], then=step.then) if inner else step


def _stated(steps: Sequence[Step], output: str, exit_code: int | None) -> int | None:
    """Return the exit code that a last `echo $?` printed, else the call's own."""
    asks = bool(steps) and steps[-1].program == "echo" and any("$?" in word for word in steps[-1].words)
    printed = re.findall(r"\d{1,3}", output.rstrip().rpartition("\n")[2]) if asks else []
    return int(printed[-1]) if printed else exit_code


def _failed(
    steps: Sequence[Step], masked: Sequence[Step], failed: bool, errors: Sequence[ErrorEntry], output: str
) -> tuple[list[Step], bool]:
    """Return which of the `masked` steps, whose own exit status is unknown, failed; and whether that is sure.

    Errors name their tool. Without such a one the last check of the call is blamed.
    """
    tools = {error.tool for error in errors}
    blamed = [step for step in masked if tools & _tools(step)]
    if blamed and failed and blamed[-1].then != "&&" and steps[-1] not in blamed:
        blamed.append(steps[-1])  # its exit status is that of the call
    checks = [step for step in masked if _identity(step)[1]]
    if blamed or not (failed or errors or (checks and _tells_failure(output))):
        return blamed, True
    return (checks or list(masked))[-1:], len(masked) < 2


def _tells_failure(output: str) -> bool:
    """Return whether the last lines of an output tell of a failure; a summary that counts none goes before all else."""
    told = PHRASES["counts_no_failure"].sub("", last_lines(output))
    if PHRASES["counts_failures"].search(told):
        return True
    return not PHRASES["counts_passes"].search(told) and PHRASES["telling"].search(told) is not None


def _ended(steps: Sequence[Step], masked: Sequence[Step], red: Sequence[Step], is_sure: bool) -> Iterator[Step]:
    """Yield the steps whose end is known, up to a failed one behind which `&&` ends the command."""
    for step in steps:
        if is_sure or step in red or step not in masked:
            yield step
        if step in red and step.then == "&&":
            return


def _tools(step: Step) -> frozenset[str]:
    """Return the names by which errors call a step's program: `clippy` and `rustc` for `cargo`."""
    return _tools_of(step.program) | {step.program, " ".join(step.words[:2])}


@cache
def _tools_of(program: str) -> frozenset[str]:
    return frozenset(tool for row in matchers() if program in row.programs for tool in row.tools)


def _identity(step: Step) -> tuple[str, bool, tuple[str, ...]]:
    """Return a step's program with its subcommand, whether that is a check, and the words behind it."""
    program, words = step.program, step.words[1:]
    operands = [one for before, one in pairwise(("", *words)) if one[:1] != "-" and before not in _VALUED]
    first = operands[0] if operands else ""
    if program in known("interpreters"):
        is_code = not operands or {"-c", "-e"} & {*words}
        return program, not is_code and any(map(_names_a_check, operands[:2])), ("-",) if is_code else words
    if program in known("run_scripts") and (script := next((one for one in operands if one != "run"), "")):
        return f"{program} {script}", _names_a_check(script), words[words.index(script) + 1 :]
    for name in (f"{program} {first}", program):
        if name in PROGRAMS.tables["checks"]:
            return name, True, words if name == program else words[words.index(first) + 1 :]
    name = f"{program} {first}" if re.fullmatch(r"[a-z][a-z:-]{1,30}", first) else program
    return name, "/" in step.words[0] and _names_a_check(step.words[0]), ()


def _names_a_check(name: str) -> bool:
    return PROGRAMS["names_a_check"].search(name) is not None


_SELECTORS = known("selectors")
_VALUED = _SELECTORS | known("valued_by_checks")


def _targets(name: str, words: Sequence[str], folder: str | None, paths: ProjectPaths) -> list[str]:
    """Return what a run is about, relative to the project: files and folders, with the tests selected in them."""
    found, selected = [], []
    for before, word in pairwise(("", *words)):
        if before in _SELECTORS:
            selected.append(f"{before} {word}")
        elif word[:1] != "-" and word != "run" and before not in _VALUED:
            path, colons, part = word.removesuffix("...").partition("::")
            inside = paths.find(path, folder)
            found.append(f"{inside or ''}{colons}{part}")
    if name in known("interpreters"):
        return [" ".join(found) or "-"]
    if "" in found or not found:  # the whole folder
        found = [paths.find(folder or "") or ""]
    return [target for one in found if (target := " ".join((one, *selected)).strip())]
