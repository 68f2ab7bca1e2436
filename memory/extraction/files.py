"""Finds the files that an iteration touched, and what it wrote into them.

Each path has one action, by this order:
1. Deleted, unless the file was written again afterwards: then it is Modified.
2. Created: a tool said that it made the file, or it was written without having been read or changed before, and no tool
   said that it existed.
3. Modified.
4. Read.

Calls that failed, were refused or got no result touch nothing. Of shell commands, only files named clearly count (`>`,
`>>`, `rm`, `mv`, `cp`, `touch`, `tee`, `sed -i`, `git rm`, `cat`, `head` …). Of a failed one, neither the effects of
its last program count nor files that its output complains of (`cat > a.py …; python a.py`). A submitted patch counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sluice.contracts.memory.model import FileAction, FileTouched
from sluice.memory.extraction.agent_run import PHRASES, AgentRun, CallStatus, ToolUseEvent
from sluice.memory.extraction.file_uses import FileUse, command_of, file_uses, join_directories, read_shell
from sluice.memory.extraction.paths import ProjectPaths

_LOOKED_AT_CHARACTERS = 10_000
_PATCH_FILE = re.compile(r"^diff --git (\"?)a/(.+?)\1 \"?b/(.+?)\"?\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One use of a file of the project, in the order of the run. `written` is "" where it was read or deleted."""

    path: str
    action: FileAction
    written: str = ""


@dataclass(frozen=True, slots=True)
class LocatedCall:
    """A call with the folder that it ran in, and its command's effects on files."""

    call: ToolUseEvent
    directory: str | None
    command: str | None = None
    """Command of a shell; None for other tools."""
    effects: tuple[FileUse, ...] = ()
    unclear: int = 0
    """Number of the command's words that name files which only its shell knows."""


def locate_calls(run: AgentRun, begun_in: str | None) -> list[LocatedCall]:
    """Locate each call: in the folder that the output states, else where the last `cd` led, else at the run's start."""
    found: list[LocatedCall] = []
    current = begun_in
    for call in run.calls:
        current = call.working_directory or current
        command = command_of(call)
        if command is None:
            found.append(LocatedCall(call, current))
            continue
        read = read_shell(command)
        found.append(LocatedCall(call, current, command, read.effects, read.unclear))
        if call.status is CallStatus.OK and not call.sub_agent:
            current = join_directories(current, read.directory)
    return found


def file_changes(
    calls: Iterable[LocatedCall], patch: str, paths: ProjectPaths, not_kept: Counter[str]
) -> list[FileChange]:
    """Return every use of a file inside the project, in order. Counts files outside and words that name none."""
    changes: list[FileChange] = []
    known: set[str] = set()
    for one in calls:
        for use in _uses(one, not_kept):
            path = paths.relative(use.path, join_directories(one.directory, use.directory))
            if path is not None:
                changes.append(FileChange(path, _action(use, one.call, path in known), use.written))
                known.add(path)
    changes.extend(_of_patch(patch, paths))
    return changes


def files_touched(changes: list[FileChange]) -> list[FileTouched]:
    """Return one entry per path, with its strongest action by the order above; files that were only read come last."""
    actions: dict[str, FileAction] = {}
    for change in changes:
        actions[change.path] = _stronger(actions.get(change.path), change.action)
    touched = [FileTouched(path=path, action=action) for path, action in actions.items()]
    return sorted(touched, key=lambda one: one.action is FileAction.READ)


def _stronger(before: FileAction | None, now: FileAction) -> FileAction:
    if before is FileAction.DELETED and now in (FileAction.CREATED, FileAction.MODIFIED):
        return FileAction.MODIFIED
    order = (None, FileAction.READ, FileAction.MODIFIED, FileAction.CREATED, FileAction.DELETED)
    return now if order.index(now) >= order.index(before) else before or now


def _uses(one: LocatedCall, not_kept: Counter[str]) -> Iterator[FileUse]:
    worked = one.call.status is CallStatus.OK
    if one.command is None:
        if worked:
            yield from file_uses(one.call)
        return
    if not worked and one.call.status is not CallStatus.FAILED:
        return
    not_kept["path_unclear"] += one.unclear
    for effect in one.effects:
        if worked or not (effect.by_last or _complains_of(effect.path, one.call.output)):
            yield effect


def _complains_of(path: str, output: str) -> bool:
    lines = output[:_LOOKED_AT_CHARACTERS].split("\n") if path in output else []
    return any(path in line and PHRASES["complaint"].search(line) for line in lines)


def _action(use: FileUse, call: ToolUseEvent, known: bool) -> FileAction:
    if use.kind == "read":
        return FileAction.READ
    if use.kind == "delete":
        return FileAction.DELETED
    if use.kind == "change":
        return FileAction.MODIFIED
    said = call.output[:500]
    if PHRASES["says_created"].search(said):
        return FileAction.CREATED
    return FileAction.MODIFIED if known or PHRASES["says_updated"].search(said) else FileAction.CREATED


def _of_patch(patch: str, paths: ProjectPaths) -> Iterator[FileChange]:
    found = list(_PATCH_FILE.finditer(patch))
    ends = [*(one.start() for one in found), len(patch)][1:]
    for match, end in zip(found, ends, strict=True):
        body = patch[match.end() : end]
        path = paths.relative(match[3])
        if path is not None:
            head = body.partition("\n@@")[0]
            created, deleted = "\nnew file mode" in head, "\ndeleted file mode" in head
            action = FileAction.CREATED if created else FileAction.DELETED if deleted else FileAction.MODIFIED
            yield FileChange(path, action, "" if deleted else re.sub(r"^index .*$", "", body, flags=re.MULTILINE))
