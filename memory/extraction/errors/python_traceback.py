"""Python's tracebacks: chains, exception groups, syntax errors, and those whose head was cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

HEADER = "Traceback (most recent call last):"

FRAME = re.compile(r'\s*File "([^"]{1,500})", line (\d{1,7})(, in .{1,200})?$')
RAISED = re.compile(
    r"(?!(?:Traceback|File|During|The) )((?:[A-Za-z_]\w{0,100}\.){0,12}[A-Z]\w{0,100}|[a-z_][\w.]{0,100}(?:Error|Exception|error|timeout))(?::(?: (.*))?)?$"
)
_BARS = re.compile(r"\s*(?:\| |\||\+-\+-|\+-|\+ )")
_LINK = re.compile(
    r"(?:During handling of the above exception, another exception occurred|The above exception was the direct cause of the following exception):$"
)
_KNOWN = re.compile(
    r"(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Group|NotFound|Timeout|Failed|Failure|DoesNotExist|Invalid\w*|Missing\w*|Not\w+)$"
)
_PARSE = re.compile(r"(?:SyntaxError|IndentationError|TabError|_IncompleteInputError)\b")


@dataclass(frozen=True, slots=True)
class Traceback:
    """What one traceback tells: its frames (file, line), outermost first, and what was raised; lines [first, last]."""

    frames: tuple[tuple[str, int], ...]
    raised: str
    first: int
    last: int

    def place(self, output: Output) -> tuple[str | None, int | None]:
        """The last frame inside the project; else the last one that names a file."""
        for path, line in reversed(self.frames):
            if output.project.holds(path):
                return path, line
        return self.frames[-1] if self.frames else (None, None)


def read_tracebacks(output: Output) -> Iterator[Mention]:
    """One error a traceback; a chain is one, told by its last part; a group gives its parts that have frames."""
    for one in tracebacks(output, 0, len(output.lines)):
        path, line = one.place(output)
        yield Mention(one.raised, "python", one.first, one.last, path, line)


def tracebacks(output: Output, start: int, end: int) -> Iterator[Traceback]:
    """The tracebacks in the lines [start, end) that no reader took; chains are joined."""
    number = start
    chained: Traceback | None = None
    while number < end:
        line = output.lines[number]
        if output.taken[number] or not line:
            number += 1
            continue
        if HEADER in line or (' File "' in line and FRAME.match(line)):
            if "Exception Group Traceback" in line:
                if chained is not None:
                    yield chained
                    chained = None
                parts, number = _group(output, number, end)
                yield from parts
                continue
            found, number = _one(output, number, end)
            if found is None:
                continue
            if chained is not None and not _linked(output, chained.last, found.first):
                yield chained
            elif chained is not None:
                found = Traceback(found.frames or chained.frames, found.raised, chained.first, found.last)
            chained = found
            continue
        number += 1
    if chained is not None:
        yield chained


def _one(output: Output, number: int, end: int) -> tuple[Traceback | None, int]:
    """The traceback that begins in this line, and the line after it."""
    first = number
    indent = ""
    if HEADER in output.lines[number]:
        indent = output.lines[number][: output.lines[number].index(HEADER)]
        number += 1
    else:
        indent = output.lines[number][: len(output.lines[number]) - len(output.lines[number].lstrip()) - 2]
    prefix = indent if indent.strip(" \t|E>") == "" else ""
    frames: list[tuple[str, int]] = []
    shown = 0
    while number < end:
        line = output.lines[number]
        body = line[len(prefix) :] if line.startswith(prefix) else line.lstrip()
        frame = FRAME.match(body) if 'File "' in body else None
        if frame:
            frames.append((frame[1], int(frame[2])))
            shown = 0
        elif body.startswith((" ", "\t")) or not body.strip():
            shown += 1
            if shown > 40:
                break
        else:
            raised = RAISED.match(body)
            if raised and (frames or HEADER in output.lines[first]):
                if HEADER not in output.lines[first] and not _KNOWN.search(raised[1]):
                    return None, number
                return Traceback(tuple(frames), body.strip(), first, number), number + 1
            if HEADER in body:
                return None, number
            break
        number += 1
    return None, max(number, first + 1)


def _linked(output: Output, last: int, first: int) -> bool:
    """Whether the traceback that begins in line `first` goes on with the one that ended in `last`."""
    for number in range(first - 1, max(last, first - 5), -1):
        line = output.lines[number].strip(" |E")
        if line:
            return bool(_LINK.match(line))
    return False


def _group(output: Output, number: int, end: int) -> tuple[list[Traceback], int]:
    """The parts of an exception group that have frames of their own; the group itself where none has."""
    first = number
    own: list[tuple[str, int]] = []
    raised = ""
    parts: list[Traceback] = []
    frames: list[tuple[str, int]] = []
    depth_of_own = None
    began = number
    while number < end:
        line = output.lines[number]
        bar = _BARS.match(line)
        if not bar and number > first:
            break
        body = line[bar.end() :] if bar else line
        stripped = body.strip()
        frame = FRAME.match(body) if 'File "' in body else None
        if frame:
            frames.append((frame[1], int(frame[2])))
        elif HEADER in stripped:
            frames, began = [], number
        elif not body.startswith(" ") and stripped and not stripped.startswith("---") and not _LINK.match(stripped):
            match = RAISED.match(stripped)
            if match and "Group" in match[1] and "sub-exception" in stripped:
                if depth_of_own is None:
                    own, raised, depth_of_own = frames, stripped, number
                frames = []
            elif match and frames:
                following = next(
                    (output.lines[n] for n in range(number + 1, min(number + 4, end)) if output.lines[n].strip(" |")),
                    "",
                )
                if not _LINK.match(following.strip(" |")):
                    parts.append(Traceback(tuple(frames), stripped, began, number))
                frames = []
        number += 1
    if not parts and raised:
        parts = [Traceback(tuple(own), raised, first, number - 1)]
    output_end = number - 1
    return [
        Traceback(part.frames, part.raised, part.first, output_end if part is parts[-1] else part.last)
        for part in parts
    ], number


def is_parse_error(raised: str) -> bool:
    """Whether Python could not parse its source."""
    return bool(_PARSE.match(raised))
