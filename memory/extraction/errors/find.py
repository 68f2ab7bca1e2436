"""The errors that a command's output tells.

What was run decides first, then the exit status, then the text: a command that only shows files tells of no errors but
its own, one that succeeded of none, and otherwise each tool's reader looks for that tool's shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sluice.contracts.memory.model import MAX_MESSAGE_CHARACTERS
from sluice.memory.extraction.errors.commands import Commands, Step, read_command
from sluice.memory.extraction.errors.found import MAX_FOUND, FoundError, Mention
from sluice.memory.extraction.errors.json_reports import unfold_go_test
from sluice.memory.extraction.errors.kinds import kind_of
from sluice.memory.extraction.errors.output import Output
from sluice.memory.extraction.errors.project import Project
from sluice.memory.extraction.errors.shell import read_shell
from sluice.memory.extraction.errors.tools import KNOWN_PROGRAMS, TOOLS, Tool

_STATED_EXIT = re.compile(r"\s*(?:Error: )?Exit code:? (-?\d{1,5})\s*\n")
_NOT_MOVED = re.compile(r"\bcd: (?:can't cd to )?\S.{0,300}")
_FROM_THE_ROOT = frozenset({"rustc", "clippy", "cargo", "cargo test", "rust", "go test"})
"""They name files from the folder of the workspace or module, wherever they were started."""
_TWO_WORDS = frozenset({"go", "cargo", "npm", "ruff", "git"})


def find_errors(output: str, *, command: str | None, exit_code: int | None, root: str | None) -> tuple[FoundError, ...]:
    """The errors in `output`, in its order; one failure that is told twice is one error.

    Args:
        output: what the command wrote, as a terminal or a pipe got it: coloured, with CR, cut at an end.
        command: the shell command; None where it is not known (then only shapes that are a tool's own count).
        exit_code: of the whole command; None or negative where it is not known.
        root: the project's folder, absolute; None where it is not known (then absolute paths are outside).
    """
    if not output.strip():
        return ()
    if exit_code is None and (stated := _STATED_EXIT.match(output)):
        exit_code, output = int(stated[1]), output[stated.end() :]
    if exit_code is not None and exit_code < 0:
        exit_code = None
    commands = read_command(command) if command is not None else None
    steps = _may_have_failed(commands, exit_code)
    if steps is not None and not steps:
        return ()
    moved = commands.folder if commands and not _NOT_MOVED.search(output) else None
    text = Output(output, Project.of(root, moved), _words(commands), unfold_go_test)
    if steps is not None and all(step.reads for step in steps):
        names = frozenset(step.program for step in steps)
        return _told(text, read_shell(text, names)) if exit_code != 0 else ()
    mentions: list[Mention] = []
    for tool in _tools(steps):
        if any(mark in text.text for mark in tool.marks):
            for mention in tool.read(text):
                mentions.append(mention)
                text.take(mention.first, mention.last)
                if len(mentions) >= 4 * MAX_FOUND:
                    break
    return _told(text, mentions)


def _may_have_failed(commands: Commands | None, exit_code: int | None) -> Sequence[Step] | None:
    """Steps that may have failed; None where it is not known what was run."""
    if commands is None or not commands.steps:
        return () if exit_code == 0 else None
    if exit_code == 0:
        return [step for step in commands.doubtful() if not step.reads]
    return commands.steps


def _tools(steps: Sequence[Step] | None) -> Iterable[Tool]:
    """Readers of the programs that were run; all of them where one of the programs may run anything."""
    if steps is None:
        return [tool for tool in TOOLS if not tool.only]
    programs = {step.program for step in steps if not step.reads}
    if programs <= KNOWN_PROGRAMS:
        return [tool for tool in TOOLS if tool.anywhere or tool.programs & programs]
    return [tool for tool in TOOLS if not tool.only or tool.programs & programs]


def _words(commands: Commands | None) -> frozenset[str]:
    """Programs of the command, those with a subcommand also by both words (`go vet`), and its arguments."""
    words: set[str] = set()
    for step in commands.steps if commands else ():
        words |= {step.program, *step.words[1:]}
        if step.program in _TWO_WORDS:
            words |= {f"{step.program} {word}" for word in step.words[1:3]}
    return frozenset(words)


def _told(output: Output, mentions: Iterable[Mention]) -> tuple[FoundError, ...]:
    """Each failure once, in the order of the output. What follows from another counts where nothing else was told."""
    ordered = sorted(mentions, key=lambda mention: mention.first)
    if any(not mention.follows for mention in ordered):
        ordered = [mention for mention in ordered if not mention.follows]
    else:
        ordered = ordered[:1]
    found: dict[tuple[object, ...], FoundError] = {}
    for mention in ordered:
        error = _error(output, mention)
        key = (error.file_path, error.line, mention.column, error.outside, " ".join(error.message.split()))
        found.setdefault(key, error)
        if len(found) >= MAX_FOUND:
            break
    return tuple(found.values())


def _error(output: Output, mention: Mention) -> FoundError:
    message = mention.message.strip()[:MAX_MESSAGE_CHARACTERS] or f"{mention.tool} failed"
    printed = mention.path
    if printed is not None and mention.tool in _FROM_THE_ROOT:
        printed = output.project.anchored(printed)
    path, outside = output.project.locate(printed, output.folder_at(mention.first))
    line = mention.line if path is not None and mention.line else None
    kind = mention.error_type or kind_of(mention.tool, message)
    return FoundError(message, kind, path, line, mention.tool, outside)
