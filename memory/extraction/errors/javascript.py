"""ESLint, and what Node.js says when a script dies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

FRAME = re.compile(
    r"\s+at (?:.{0,300}? \(|async )?(?P<path>(?:file://|node:|[A-Za-z]:[\\/])?[^()\s:][^():]{0,400}):(?P<line>\d{1,7}):\d{1,6}\)?(?:,.*| \{)?$"
)
RAISED = re.compile(
    r"(?:Uncaught )?(?P<name>[A-Z]\w{0,60}(?:Error|Exception|Rejection|Warning)?(?: \[\w{1,60}\])?)(?: \[\w{1,60}\])?: (?P<message>.*)$"
)
_BARE = re.compile(r"(?:Uncaught )?[A-Z]\w{0,60}(?:Error|Exception)(?: \[\w{1,60}\])?$")

_ESLINT = re.compile(r"  +(?P<line>\d{1,7}):\d{1,6}  +(?P<level>error|warning|✖|×)  +(?P<message>\S.*)$")
_ESLINT_UNIX = re.compile(
    r"(?P<path>[^\s:][^:]{0,300}):(?P<line>\d{1,7}):\d{1,6}: (?P<message>.*) \[Error(?:/[\w@/.-]{1,100})?\]$"
)
_ESLINT_COMPACT = re.compile(
    r"(?P<path>[^\s:][^:]{0,300}): line (?P<line>\d{1,7}), col \d{1,6}, Error - (?P<message>.*)$"
)
_ESLINT_OOPS = re.compile(r"(?:Oops! Something went wrong! :\(|ESLint couldn't find)")
_PRETTIER = re.compile(
    r"\[error\] (?P<path>[^\s:][^:]{0,300}): (?P<message>\w*Error: .*?)(?: \((?P<line>\d{1,7}):\d{1,6}\))?$"
)
_PRETTIER_STYLE = re.compile(r"\[warn\] (?P<path>\S[^:]{0,300}\.\w{1,10})$")

_HEAD = re.compile(r"(?P<path>(?:file://|node:|[A-Za-z]:[\\/])?[^\s:][^:]{0,400}):(?P<line>\d{1,7})$")


def read_eslint(output: Output) -> Iterator[Mention]:
    """A path on a line of its own, then its findings; the one-line shapes; prettier."""
    path: str | None = None
    for number, line in enumerate(output.lines):
        if not line or output.taken[number]:
            continue
        if line[0] == " ":
            found = _ESLINT.match(line)
            if found and path is not None and found["level"] != "warning":
                message = re.sub(r" {2,}", "  ", found["message"]).strip()
                yield Mention(message, "eslint", number, number, path, int(found["line"]))
        elif "Error" in line and (found := _ESLINT_UNIX.match(line) or _ESLINT_COMPACT.match(line)):
            yield Mention(found["message"], "eslint", number, number, found["path"], int(found["line"]))
        elif line[0] == "[" and (found := _PRETTIER.match(line)):
            at = int(found["line"]) if found["line"] else None
            yield Mention(found["message"], "prettier", number, number, found["path"], at)
        elif line[0] == "[" and "prettier" in output.words and (found := _PRETTIER_STYLE.match(line)):
            yield Mention("Code style issues found", "prettier", number, number, found["path"])
        elif ":" not in line or line[1:3] in (":\\", ":/"):
            path = line.strip() if "." in line or "/" in line else None
    if _ESLINT_OOPS.search(output.text):
        yield from _oops(output)


def _oops(output: Output) -> Iterator[Mention]:
    start = next((n for n, line in enumerate(output.lines) if _ESLINT_OOPS.match(line)), None)
    if start is None:
        return
    for number in range(start + 1, min(start + 12, len(output.lines))):
        line = output.lines[number].strip()
        if line and not line.startswith("ESLint:"):
            path, at, last = first_frame(output, number + 1, min(number + 60, len(output.lines)))
            yield Mention(line, "eslint", start, max(last, number), path, at)
            return


def read_node(output: Output) -> Iterator[Mention]:
    """An uncaught error: the frame where it was raised, or the place at its head where it has no frames of ours."""
    lines = output.lines
    number = 0
    while number < len(lines):
        line = lines[number]
        if output.taken[number] or not line or line[0] in " \t":
            number += 1
            continue
        raised = RAISED.match(line) or _BARE.match(line)
        if raised and number + 1 < len(lines):
            mention = _uncaught(output, number, line)
            if mention:
                yield mention
                number = mention.last + 1
                continue
        elif line.startswith(("Uncaught:", "node:internal/process/promises")):
            pass
        elif line.startswith(("Uncaught ", "[UnhandledPromiseRejection")):
            yield Mention(line.strip("[] {"), "node", number, number)
        elif (head := _HEAD.match(line)) and (thrown := _thrown_value(output, number)):
            yield Mention(thrown[0], "node", number, thrown[1], head["path"], int(head["line"]))
            number = thrown[1]
        number += 1


def _uncaught(output: Output, number: int, line: str) -> Mention | None:
    """The error whose name is in this line, if a stack or the head of an uncaught error belongs to it."""
    head, first = _head(output, number)
    start = number + 1
    stack = next(
        (ahead for ahead in range(start, min(start + 30, len(output.lines))) if FRAME.match(output.lines[ahead])), None
    )
    if stack is not None and any(_ends(output.lines[between]) for between in range(start, stack)):
        stack = None
    if stack is None and head is None:
        return None
    path, at, last = first_frame(output, stack, len(output.lines)) if stack is not None else (None, None, number)
    at_run_time = path is not None
    if head is not None and (path is None or line.startswith("SyntaxError")) and output.project.holds(head["path"]):
        path, at, at_run_time = head["path"], int(head["line"]), False
    while last + 1 < len(output.lines) and (
        output.lines[last + 1].startswith((" ", "}", "Node.js v", "- "))
        or (not output.lines[last + 1] and output.line(last + 2).startswith("Node.js v"))
    ):
        last += 1
    test = stack is not None and "TestContext" in "\n".join(output.lines[stack : stack + 3])
    # `JSON.parse` raises a SyntaxError too; then the head names no file of ours and a frame does.
    kind = ErrorType.RUNTIME if at_run_time and not test and line.startswith("SyntaxError") else None
    return Mention(line.removesuffix(" {"), "node test" if test else "node", first, last, path, at, error_type=kind)


def _ends(line: str) -> bool:
    return line.startswith("Node.js v") or bool(RAISED.match(line))


def _head(output: Output, number: int) -> tuple[re.Match[str] | None, int]:
    """`/p/x.js:2`, the source and its caret, above an uncaught error."""
    for above in range(number - 1, max(-1, number - 12), -1):
        line = output.lines[above]
        if output.taken[above]:
            break
        if line and line[0] not in " \t" and (head := _HEAD.match(line)):
            return head, above
        if line.startswith("Node.js v") or FRAME.match(line):
            break
    return None, number


def _thrown_value(output: Output, number: int) -> tuple[str, int] | None:
    """What was thrown where it is no error (`throw 'boom'`): told after the caret, and a hint of `--trace-uncaught`."""
    for ahead in range(number + 1, min(number + 14, len(output.lines))):
        line = output.lines[ahead]
        if "--trace-uncaught" in line:
            said = [text for text in output.lines[number + 1 : ahead] if text.strip() and text.strip("^ ~")]
            return (said[-1].strip(), ahead) if said else None
        if RAISED.match(line) or FRAME.match(line):
            return None
    return None


def first_frame(output: Output, start: int, end: int) -> tuple[str | None, int | None, int]:
    """The first frame inside the project, from the line `start` on, and the last line of the stack."""
    path: str | None = None
    at: int | None = None
    outer: tuple[str, int] | None = None
    last = start
    seen = False
    for number in range(start, end):
        frame = FRAME.match(output.lines[number])
        if frame:
            seen, last = True, number
            if path is None and output.project.holds(frame["path"]):
                path, at = frame["path"], int(frame["line"])
            outer = outer or (frame["path"], int(frame["line"]))
        elif seen and not output.lines[number].lstrip().startswith("at "):
            break
    if path is None and outer is not None and not outer[0].startswith("node:"):
        return outer[0], outer[1], last
    return path, at, last
