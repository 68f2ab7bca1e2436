"""Classifies a tool call of any agent: a shell command, or an operation on files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sluice.memory.extraction.agent_run import ToolUseEvent
from sluice.memory.extraction.shell import known

FileUseKind = Literal["write", "append", "change", "read", "delete"]
"""`write`: the file may be new; `append`: as write, or an existing one is added to; `change`: it was there."""

_EDITORS = re.compile(
    r"str_replace_based_edit_tool|str_replace_editor|(?:planning_)?file_?editor(?:action)?|text_editor|edit_anthropic"
)
_EDITOR_KINDS: dict[str, FileUseKind] = {
    "view": "read",
    "create": "write",
    "str_replace": "change",
    "insert": "change",
    "undo_edit": "change",
    "delete": "delete",
}
_PATH_KEYS = ("file_path", "notebook_path", "path", "filename", "file", "target_file")
_PATCHED_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_PATCH_KINDS: dict[str, FileUseKind] = {"Add": "write", "Update": "change", "Delete": "delete"}
_RUNS_SOMETHING = re.compile(r"run|exec|test|lint|build|compile|check|diagnos|(?:bash|task)_?output", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FileUse:
    """A file that a tool read or changed; `written` is what it wrote, for comparing."""

    path: str
    kind: FileUseKind
    written: str = ""
    directory: str | None = None
    """Where a shell command had gone before, from where it began."""


def command_of(call: ToolUseEvent) -> str | None:
    """The shell command of a call; None where it is another tool's."""
    if _bare(call.name) not in known("tools_shell"):
        return None
    command = call.input.get("command", call.input.get("cmd"))
    if isinstance(command, list):
        return " ".join(part for part in command if isinstance(part, str))
    return command if isinstance(command, str) else ""


def runs_something(call: ToolUseEvent) -> bool:
    """Whether the name of a tool that is no shell says that it runs or checks code: its output may hold errors."""
    return is_file_tool(call) is False and _RUNS_SOMETHING.search(_bare(call.name)) is not None


def is_file_tool(call: ToolUseEvent) -> bool:
    """Whether a call is one of an agent's own tools that read or write a file."""
    name = _bare(call.name)
    return name in _kinds() or _EDITORS.fullmatch(name) is not None or name == "apply_patch"


def file_uses(call: ToolUseEvent) -> Iterator[FileUse]:
    """The files of a call to one of an agent's own file tools, in order."""
    name = _bare(call.name)
    if name == "apply_patch":
        yield from _patched(call.input)
        return
    if _EDITORS.fullmatch(name):
        command = call.input.get("command")
        if command == "rename":
            yield from _renamed(call.input)
            return
        kind = _EDITOR_KINDS.get(command if isinstance(command, str) else "")
    else:
        kind = _kinds().get(name)
    path = path_of(call)
    if kind and path:
        yield FileUse(path, kind, "" if kind == "read" else _written(call.input))


def path_of(call: ToolUseEvent) -> str | None:
    """The file that a call names, or the one that stood open."""
    for key in _PATH_KEYS:
        if isinstance(value := call.input.get(key), str) and value.strip():
            return value
    return call.open_file


@cache
def _kinds() -> dict[str, FileUseKind]:
    """What each of the agents' file tools does."""
    named: dict[FileUseKind, frozenset[str]] = {
        "write": known("tools_write"),
        "change": known("tools_change"),
        "read": known("tools_read"),
        "delete": frozenset(("delete", "delete_file", "remove_file")),
    }
    return {name: kind for kind, names in named.items() for name in names}


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
                yield FileUse(path, _PATCH_KINDS[verb], body)
