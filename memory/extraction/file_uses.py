"""Finds the files that a tool call reads or changes: by a file tool, or by a shell command as far as it is clear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal

from sluice.memory.extraction.agent_run import ToolUseEvent
from sluice.memory.extraction.shell import PROGRAMS, SimpleCommand, Word, known, simple_commands

FileUseKind = Literal["write", "append", "change", "read", "delete"]
"""`write`: the file may be new; `append`: the same, or adds to an existing file; `change`: the file existed."""

_EDITORS = re.compile(
    r"str_replace_based_edit_tool|str_replace_editor|(?:planning_)?file_?editor(?:action)?|text_editor|edit_anthropic"
)
_PATH_KEYS = ("file_path", "notebook_path", "path", "filename", "file", "target_file")
_PATCHED_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_RUNS_SOMETHING = re.compile(r"run|exec|test|lint|build|compile|check|diagnos|(?:bash|task)_?output", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileUse:
    """A file that a tool read or changed; `written` is the text that it wrote, for comparing."""

    path: str
    kind: FileUseKind
    written: str = ""
    directory: str | None = None
    """Folder that the shell command had reached by `cd`; None: where it began."""
    by_last: bool = False
    """Whether the last program of a shell command did it; when the command fails, that program failed."""


def command_of(call: ToolUseEvent) -> str | None:
    """Return the shell command of a call; None if the call is another tool's."""
    if _bare(call.name) not in known("tools_shell"):
        return None
    command = call.input.get("command", call.input.get("cmd"))
    if isinstance(command, list):
        return " ".join(part for part in command if isinstance(part, str))
    return command if isinstance(command, str) else ""


def runs_something(call: ToolUseEvent) -> bool:
    """Return whether a tool that is no shell runs or checks code, by its name: its output may hold errors."""
    return is_file_tool(call) is False and _RUNS_SOMETHING.search(_bare(call.name)) is not None


def is_file_tool(call: ToolUseEvent) -> bool:
    """Return whether a call is one of an agent's own tools that read or write a file."""
    name = _bare(call.name)
    return name in _kinds("file_tools") or _EDITORS.fullmatch(name) is not None or name == "apply_patch"


def file_uses(call: ToolUseEvent) -> Iterator[FileUse]:
    """Yield the files of a call to one of an agent's own file tools, in order."""
    name = _bare(call.name)
    if name == "apply_patch":
        yield from _patched(call.input)
        return
    if _EDITORS.fullmatch(name):
        command = call.input.get("command")
        if command == "rename":
            yield from _renamed(call.input)
            return
        kind = _kinds("editor_commands").get(command if isinstance(command, str) else "")
    else:
        kind = _kinds("file_tools").get(name)
    path = path_of(call)
    if kind and path:
        yield FileUse(path, kind, "" if kind == "read" else _written(call.input))


def path_of(call: ToolUseEvent) -> str | None:
    """Return the file that a call names, else the one that is open."""
    for key in _PATH_KEYS:
        if isinstance(value := call.input.get(key), str) and value.strip():
            return value
    return call.open_file


@cache
def _kinds(table: str) -> dict[str, FileUseKind]:
    """Return the kind of file use for each word in a table of `programs.toml`."""
    return {word: kind for kind, words in PROGRAMS.tables[table].items() for word in words.split()}


def _bare(name: str) -> str:
    return name.strip().casefold()


def _written(fields: Mapping[str, Any]) -> str:
    rest = sorted((key, value) for key, value in fields.items() if key not in _PATH_KEYS)
    return "\n".join(f"{key}:\n{value if isinstance(value, str) else _as_text(value)}" for key, value in rest)


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (RecursionError, ValueError, TypeError):
        return type(value).__name__


def _renamed(fields: Mapping[str, Any]) -> Iterator[FileUse]:
    old, new = fields.get("old_path", fields.get("path")), fields.get("new_path")
    if isinstance(old, str) and isinstance(new, str):
        yield FileUse(old, "delete")
        yield FileUse(new, "write", old)


def _patched(fields: Mapping[str, Any]) -> Iterator[FileUse]:
    for patch in fields.values():
        if isinstance(patch, str):
            parts = _PATCHED_FILE.split(patch)
            for verb, path, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=False):
                yield FileUse(path, _kinds("patch_verbs")[verb], body)


@dataclass(frozen=True, slots=True)
class ShellReading:
    """A command's clear effects on files, and the folder that it leaves its shell in (None: where it began).

    `unclear` counts words that name files which only the shell knows.
    """

    effects: tuple[FileUse, ...]
    directory: str | None
    unclear: int


def read_shell(command: str) -> ShellReading:
    """Return the files that a command clearly touches, in order, and the folder that it reaches by `cd`."""
    effects: list[FileUse] = []
    unclear = 0
    directory: str | None = None
    commands = simple_commands(command)
    for one in commands:
        directory = _after(one, directory)
        for kind, word, written in _touched(one):
            if not word.clear:
                unclear += 1
            elif word.text and word.text != "-" and not word.text.startswith(("/dev/", "&")):
                effects.append(FileUse(word.text, kind, written, directory, one is commands[-1]))
    return ShellReading(tuple(effects), directory, unclear)


def join_directories(current: str | None, change: str | None) -> str | None:
    """Return the folder that `cd change` leads to from `current`; `current` for an unknown one, like a home folder."""
    if change is None or change.startswith("~"):
        return current
    return change if current is None or re.match(r"[/\\]|[A-Za-z]:", change) else f"{current}/{change}"


def directory_before(command: str, after: str) -> str:
    """Return the folder that a command began in, from the folder that it left its shell in."""
    change = read_shell(command).directory
    if change and after.endswith(f"/{change}") and ".." not in change:
        return after[: -len(change) - 1] or "/"
    return after


def _after(command: SimpleCommand, directory: str | None) -> str | None:
    operands = command.operands()
    if command.program != "cd" or len(operands) != 1 or not operands[0].clear or operands[0].text == "-":
        return directory
    return join_directories(directory, operands[0].text)


def _touched(command: SimpleCommand) -> Iterator[tuple[FileUseKind, Word, str]]:
    program, operands = command.program, command.operands()
    if program == "git" and operands:
        program, operands = f"git {operands[0].text}", operands[1:]
        if program == "git rm" and command.has_option("--cached"):
            return
    spoken = " ".join(word.text for word in command.call)
    if program in ("rm", "git rm", "unlink", "rmdir"):
        yield from (("delete", word, "") for word in operands)
    elif program in ("mv", "git mv", "cp") and len(operands) >= 2:
        for source in operands[:-1]:
            yield "read" if program == "cp" else "delete", source, ""
            yield "write", _into(operands[-1], source, many=len(operands) > 2), spoken
    elif program == "touch":
        yield from (("append", word, "") for word in operands)
    elif program == "tee":
        kind: FileUseKind = "append" if command.has_option("-a", "--append") else "write"
        yield from ((kind, word, "\n".join(command.text)) for word in operands)
    elif program == "sed" and command.has_option("-i", "--in-place"):
        yield from (("change", word, spoken) for word in _files_of_sed(command, operands))
    elif program in ("cat", "head", "tail", "less", "more", "nl", "bat", "tac", "wc"):
        yield from (("read", word, "") for word in _without_values(command, "-n", "-c"))
    elif program == "sed" and operands[1:] and not command.has_option("-e", "-f"):
        yield from (("read", word, "") for word in operands[1:])
    elif program in ("git checkout", "git restore") and (program == "git restore" or _after_dashes(command)):
        yield from (("change", word, spoken) for word in (_after_dashes(command) or operands))
    for operator, word in command.writes:
        told = "\n".join(command.text) if command.text else spoken
        yield "append" if operator == ">>" else "write", word, told


def _into(target: Word, source: Word, many: bool) -> Word:
    if many or target.text.endswith("/") or target.text in (".", ".."):
        return Word(
            f"{target.text.rstrip('/')}/{source.text.rstrip('/').rpartition('/')[2]}", target.clear and source.clear
        )
    return target


def _without_values(command: SimpleCommand, *options: str) -> list[Word]:
    """Return the operands without values of these options that stand apart (`head -n 5 f`)."""
    values = {id(value) for option, value in pairwise(command.arguments) if option.text in options}
    return [word for word in command.operands() if id(word) not in values]


def _files_of_sed(command: SimpleCommand, operands: list[Word]) -> list[Word]:
    if any(word.text in ("-e", "-f") for word in command.arguments):
        return _without_values(command, "-e", "-f")
    after_empty_suffix = command.arguments[:1] and command.arguments[0].text == "-i" and len(operands) > 2
    return operands[2:] if after_empty_suffix and operands[0].text == "" else operands[1:]


def _after_dashes(command: SimpleCommand) -> list[Word]:
    texts = [word.text for word in command.arguments]
    return command.arguments[texts.index("--") + 1 :] if "--" in texts else []
