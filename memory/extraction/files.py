"""Finds the files that an iteration touched, what it wrote into them, and iterations that only repeat themselves.

Each path has one action, by this order:
1. Deleted, unless the file was written again afterwards: then it is Modified.
2. Created: a tool said that it made the file, or it was written without having been read or changed before, and no tool
   said that it existed.
3. Modified.
4. Read.

Calls that failed, were refused or got no result touch nothing. Of shell commands, only files named clearly count (`>`,
`>>`, `rm`, `mv`, `cp`, `touch`, `tee`, `sed -i`, `git rm`, `cat`, `head` …). Of a failed one, neither the effects of
its last program count nor files that its output complains of (`cat > a.py …; python a.py`). A submitted patch counts.

An iteration's effect is the set of changed files with the text written into them, and of errors met (type, file,
message). Equal hashes of effects in a row are stagnation. It does not depend on time: dates, times, durations,
addresses, temporary folders, ids and line ends are made alike first; in written text only whole dates with times, ids,
addresses and temporary folders, as a changed duration is work there. The hash is taken of the raw run, before anything
is cut, capped or sanitised for the record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sluice.contracts.memory.model import ErrorEntry, FileAction, FileTouched, IterationOutcome, IterationRecord
from sluice.memory.extraction.agent_run import PHRASES, AgentRun, CallStatus, ToolUseEvent
from sluice.memory.extraction.file_uses import FileUse, command_of, file_uses, join_directories, read_shell
from sluice.memory.extraction.paths import ProjectPaths
from sluice.text.pattern_file import PatternFile

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


DEFAULT_REPEATS = 3
"""Equal effects in a row, including the latest, that count as stagnation."""
_OF_MESSAGES = ("written", "messages")


def effect_sha256(changes: Iterable[FileChange], errors: Iterable[ErrorEntry]) -> str:
    """Return the hash of an effect. The order and repetition of changes and errors do not matter."""
    changed = {
        (change.path, change.action.value, _same(change.written, "written"))
        for change in changes
        if change.action is not FileAction.READ
    }
    met = {(error.error_type or "", error.file_path or "", _same(error.message, *_OF_MESSAGES)) for error in errors}
    plain = json.dumps([sorted(changed), sorted(met)], ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def effect_of_record(record: IterationRecord) -> str | None:
    """Return the effect of a plain record; None if it names no changed file and no error.

    A record lacks the text written. So if it has no error, its summary stands for that text.
    """
    written = "" if record.errors else _same(record.summary, *_OF_MESSAGES)
    changed = [one for one in record.files_touched if one.action is not FileAction.READ]
    changes = [FileChange(one.path, one.action, written) for one in changed]
    return effect_sha256(changes, record.errors) if changes or record.errors else None


def is_stagnating(effect: str | None, earlier: Sequence[IterationRecord], *, repeats: int = DEFAULT_REPEATS) -> bool:
    """Return whether an iteration and the `repeats - 1` before it had the same effect.

    `earlier` are the feature's records, the oldest first. Iterations stopped by a limit on requests are skipped, as
    nothing was tried in them. An unknown effect (None) equals no other.
    """
    if effect is None or repeats < 1:
        return False
    tried = [record for record in earlier if record.outcome is not IterationOutcome.RATE_LIMITED]
    last = tried[len(tried) - (repeats - 1) :] if repeats > 1 else []
    return len(last) == repeats - 1 and all(record.effect_sha256 == effect for record in last)


def without_volatile(text: str, *kinds: str) -> str:
    """Return a text with each time, id, address and temporary path replaced by a fixed word; see `volatile.toml`."""
    for pattern, instead in _volatile(kinds):
        text = pattern.sub(instead, text)
    return text


@cache
def _volatile(kinds: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    table = PatternFile(Path(__file__).with_name("volatile.toml"))
    return tuple((table.compiled(pattern), instead) for kind in kinds for instead, pattern in table.tables[kind])


def _same(text: str, *kinds: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return without_volatile("\n".join(line.rstrip() for line in lines), *kinds).strip()
