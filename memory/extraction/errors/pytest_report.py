"""pytest's reports: a failure has a block with its place, and a line in the summary without; both are one error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output
from sluice.memory.extraction.errors.python_traceback import FRAME, tracebacks

_SECTION = re.compile(r"={3,} ?(.{1,200}?) ?={3,}$")
_BLOCK = re.compile(r"(?:_{3,} |(?=.{72})_{1,2} )([^_\s].{0,1500}?|_\w.{0,1500}?) _+$")
"""A long name leaves room for one `_` on each side; `_ _ _ _` stands between frames."""
_PLACE = re.compile(
    r"(?P<path>(?:[A-Za-z]:)?[^\s:][^:]{0,300}?):(?P<line>\d{1,7}): ?(?P<what>in \S.{0,200}|[A-Za-z_][\w.]{0,200}(?:: .*)?|)$"
)
_DEFINED = re.compile(r"file (?P<path>\S.{0,300}), line (?P<line>\d{1,7})$")
"""Where a test stands that wants a fixture which is not there."""
_PLACE_ALONE = re.compile(r"(?P<path>(?:[A-Za-z]:)?[^\s:][^:]{0,300}?):(?P<line>\d{1,7}): (?P<message>\S.*)$")
_SESSION = re.compile(r"=+ test session starts =+$")
_SUMMARY = re.compile(r"(FAILED|ERROR) (\S.*)$")
_PROGRESS = re.compile(
    r"(?:\[gw\d+\] (?:\[ *\d+%\] )?)?(\S[^:]{0,300}\.\w{1,8}::\S.*?) (FAILED|ERROR)(?: +\[ *\d+%\])?$"
)
_PROGRESS_XDIST = re.compile(r"\[gw\d+\] (?:\[ *\d+%\] )?(FAILED|ERROR) (\S[^:]{0,300}\.\w{1,8}::.*)$")
_CAPTURED = re.compile(r"-{3,} (?:Captured|generated xml) ")
_USAGE = re.compile(
    r"ERROR: ((?:file or directory not found|not found|usage|unrecognized arguments|Wrong expression|found no collectors|no such option).*)"
)
_CONFTEST = re.compile(r"ImportError while loading conftest '(.{1,400})'\.$")
_KINDS_OF_BLOCK = re.compile(r"ERROR (?:collecting|at setup of|at teardown of) (.*)")


@dataclass(slots=True)
class _Failure:
    name: str
    first: int
    last: int
    places: list[tuple[str, int]] = field(default_factory=list)
    said: str = ""
    kind: str = ""
    parse: str = ""

    def message(self, summary: str = "") -> str:
        text = self.said or summary or self.kind or f"{self.name} failed"
        return text if not self.kind or self.kind in text or not text else f"{self.kind}: {text}"


def read_pytest(output: Output) -> Iterator[Mention]:
    """The blocks of FAILURES and ERRORS, then what only the summary or the progress lines tell."""
    if not any(
        word in output.text
        for word in ("FAILED ", "ERROR ", "= FAILURES =", "= ERRORS =", "conftest", " FAILED", "ERROR: ")
    ):
        return
    blocks, summary, progress = _collect(output)
    unmatched = dict(summary)
    # A block whose head was cut off comes last: it takes what no other block took.
    for block in sorted(blocks, key=lambda one: not one.name):
        node = _node_of(block, unmatched) or (_left_over(block, unmatched) if not block.name else None)
        said = unmatched.pop(node)[1] if node is not None else ""
        if node is not None:
            progress.pop(node, None)
        path, line = _place(block, output)
        if path is None and node is not None:
            path = _path_of(node)
        message = block.parse or _named(block.name, block.message(said))
        yield Mention(
            message, "pytest", block.first, block.last, path, line, column=node or block.name or str(block.first)
        )
    for node, (number, said) in unmatched.items():
        progress.pop(node, None)
        message = _named(_name_of(node.partition("::")[2]), said) if said else f"{node} failed"
        yield Mention(message, "pytest", number, number, _path_of(node), column=node)
    told = {_name_of(block.name) for block in blocks}
    for node, number in progress.items():
        if _name_of(node.partition("::")[2]) not in told:
            yield Mention(f"{node} failed", "pytest", number, number, _path_of(node))
    if not blocks and not summary:
        yield from _usage(output)
    _take_session(output)


def _collect(output: Output) -> tuple[list[_Failure], dict[str, tuple[int, str]], dict[str, int]]:
    blocks: list[_Failure] = []
    summary: dict[str, tuple[int, str]] = {}
    progress: dict[str, int] = {}
    block: _Failure | None = None
    section = ""
    captured = False
    for number, line in enumerate(output.lines):
        if not line or output.taken[number]:
            continue
        first = line[0]
        if first == "=" and (title := _SECTION.match(line)):
            section, block, captured = title[1], None, False
        elif first == "_" and (header := _BLOCK.match(line)) and (section in ("FAILURES", "ERRORS", "")):
            block, captured = _Failure(header[1], number, number), False
            blocks.append(block)
        elif section == "FAILURES" and block is None and first not in " E" and (place := _PLACE_ALONE.match(line)):
            blocks.append(_Failure("", number, number, [(place["path"], int(place["line"]))], place["message"]))
        elif first == "-" and _CAPTURED.match(line):
            captured = True
        elif (
            first in "FE" and (one := _SUMMARY.match(line)) and (block is None or section not in ("FAILURES", "ERRORS"))
        ):
            node, said = _split(one[2])
            if node:
                summary.setdefault(node, (number, said))
            block = None
        elif block is not None:
            block.last = number
            if not captured:
                _read_line(block, line)
        elif first == "E" and not section and line[1:3] == "  " and "while loading conftest" not in output.text:
            block = _Failure("", number, number)
            blocks.append(block)
            _read_line(block, line)
        elif (" FAILED" in line or " ERROR" in line) and (one := _PROGRESS.match(line)):
            progress.setdefault(one[1], number)
        elif first == "[" and (one := _PROGRESS_XDIST.match(line)):
            progress.setdefault(one[2].rstrip(), number)
    for failure in blocks:
        if not failure.places:
            _native(failure, output)
    return (
        [one for one in blocks if one.places or one.said or one.kind or _SECTIONED.search(output.text)],
        summary,
        progress,
    )


def _take_session(output: Output) -> None:
    """What tests print while pytest runs (`-s`, its dots) is told by nothing else."""
    first = next((n for n, line in enumerate(output.lines) if line[:1] == "=" and _SESSION.match(line)), None)
    if first is not None and "INTERNALERROR>" not in output.text:
        ends = (n for n, line in enumerate(output.lines) if n > first and line[:1] == "=" and _END.match(line))
        output.take(first, next(ends, len(output.lines) - 1))


_END = re.compile(r"=+ (?:\d+ \w+|no tests ran).* in [\d.]+s.* ?=+$")
_SECTIONED = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)


def _read_line(block: _Failure, line: str) -> None:
    if line[0] == "E" and line[1:2] in (" ", ""):
        text = line[1:].strip()
        if frame := FRAME.match(line[1:]):
            block.places.append((frame[1], int(frame[2])))
        elif re.match(r"(?:SyntaxError|IndentationError|TabError): ", text):
            block.parse = text
        elif text and not block.said:
            block.said = text
        return
    if line.startswith("file ") and (place := _DEFINED.match(line)):
        block.places.append((place["path"], int(place["line"])))
    if line[0] in " >" or ":" not in line:
        return
    place = _PLACE.match(line)
    if place:
        block.places.append((place["path"], int(place["line"])))
        what = place["what"]
        if what and not what.startswith("in "):
            block.kind = what
            block.said = block.said if block.said else ""
        elif not what:
            block.said = ""
    elif line.startswith(("During handling of", "The above exception")):
        block.said = ""


def _native(block: _Failure, output: Output) -> None:
    """A block in the style of Python's own tracebacks (`--tb=native`, exception groups)."""
    for one in tracebacks(output, block.first, block.last + 1):
        path, line = one.place(output)
        if path is not None and line is not None:
            block.places.append((path, line))
        if re.match(r"(?:SyntaxError|IndentationError|TabError)\b", one.raised):
            block.parse = one.raised
        block.said = one.raised


def _place(block: _Failure, output: Output) -> tuple[str | None, int | None]:
    for path, line in reversed(block.places):
        if output.project.holds(path):
            return path, line
    return block.places[-1] if block.places else (None, None)


def _split(text: str) -> tuple[str, str]:
    """Node and message of a summary line; a node's parameters may hold spaces and ` - `."""
    if not re.match(r"[^\s:][^:]{0,300}\.\w{1,8}(?:::|$| - |\s)", text) and "::" not in text:
        return "", ""
    bracket = text.find("[")
    dash = text.find(" - ")
    if 0 <= bracket < dash:
        closing = re.search(r"\](?: - |$)", text)
        if closing:
            return text[: closing.start() + 1], text[closing.end() :]
    return (text[:dash], text[dash + 3 :]) if dash >= 0 else (text, "")


def _node_of(block: _Failure, summary: dict[str, tuple[int, str]]) -> str | None:
    """The summary's line of this block: the same name, and the same file if there are several."""
    special = _KINDS_OF_BLOCK.match(block.name)
    name = _name_of(special[1] if special else block.name)
    if not block.name:
        return next((node for node in summary if block.places and block.places[0][0].endswith(_path_of(node))), None)
    same = [node for node in summary if name in (_name_of(node.partition("::")[2]), _name_of(node))]
    if len(same) > 1 and block.places:
        same = [node for node in same if any(path.endswith(_path_of(node)) for path, _ in block.places)] or same
    return same[0] if same else None


def _left_over(block: _Failure, summary: dict[str, tuple[int, str]]) -> str | None:
    """The summary's line of a block that lost its head: of the same message, else the last that is left."""
    said = [node for node, (_, text) in summary.items() if text and block.said.startswith(text.removesuffix("..."))]
    return next(reversed(said or list(summary)), None)


def _named(name: str, message: str) -> str:
    """A message behind the name of the test that failed; it is in neither where a file could not be collected."""
    return (
        f"{name}: {message}" if name and not name.startswith("ERROR collecting ") and name not in message else message
    )


def _name_of(name: str) -> str:
    return name.replace("::", ".").removeprefix("[doctest] ").strip()


def _path_of(node: str) -> str:
    return node.partition("::")[0]


def _usage(output: Output) -> Iterator[Mention]:
    """What stopped pytest before its first test."""
    for number, line in output.having("conftest"):
        if found := _CONFTEST.match(line):
            block = _Failure("conftest", number, number)
            for last in range(number + 1, len(output.lines)):
                if output.lines[last]:
                    block.last = last
                    _read_line(block, output.lines[last])
            path, at = _place(block, output)
            yield Mention(
                block.parse or block.message() if block.said else line,
                "pytest",
                number,
                block.last,
                path or found[1],
                at,
            )
            return
    for number, line in output.having("ERROR: "):
        if found := _USAGE.match(line):
            yield Mention(found[1], "pytest", number, number)
            return
