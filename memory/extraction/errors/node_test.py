"""Failing tests of Node.js' own runner (`node --test`): as TAP in a pipe, as a list of failing tests on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.javascript import first_frame
from sluice.memory.extraction.errors.output import Output

_NOT_OK = re.compile(r"\s*not ok \d+ - (?P<title>.+)$")
_END_OF_TEST = re.compile(r"\s*\.\.\.$")
_FIELD = re.compile(r"\s+(?P<name>error|location|failureType): ['\"]?(?P<value>.*?)['\"]?$")
_STACK = re.compile(r"\s+(?:[^()\s].{0,200}? \()?(?P<path>(?:file://)?/[^():]{1,400}):(?P<line>\d{1,7}):\d{1,6}\)?$")
_PLACE = re.compile(r"(?P<path>.{1,400}):(?P<line>\d{1,7}):\d{1,6}$")
_FAILING = "✖ failing tests:"
_TEST_AT = re.compile(r"test at (?P<path>.{1,400}):(?P<line>\d{1,7}):\d{1,6}$")
_MAX_LINES = 80


def read_node_test(output: Output) -> Iterator[Mention]:
    """One error a failing test, where it was raised; a suite that only holds failing tests is none."""
    for number, line in output.having("not ok "):
        if found := _NOT_OK.match(line):
            yield from _tap(output, number, found["title"])
    start = next((n for n, line in enumerate(output.lines) if line.startswith(_FAILING)), None)
    if start is not None:
        yield from _listed(output, start)


def _tap(output: Output, number: int, title: str) -> Iterator[Mention]:
    fields: dict[str, str] = {}
    place: re.Match[str] | None = None
    last = number
    for ahead in range(number + 1, min(number + _MAX_LINES, len(output.lines))):
        line = output.lines[ahead]
        if _END_OF_TEST.match(line) or (ahead == number + 1 and line.strip() != "---"):
            break
        last = ahead
        if field := _FIELD.match(line):
            fields.setdefault(field["name"], field["value"])
        elif place is None and (frame := _STACK.match(line)) and output.project.holds(frame["path"]):
            place = frame
    if last == number or fields.get("failureType") in ("subtestsFailed", "cancelledByParent"):
        return
    place = place or _PLACE.match(fields.get("location", ""))
    at = int(place["line"]) if place else None
    yield Mention(
        f"{title}: {fields.get('error', 'failed')}", "node test", number, last, place["path"] if place else None, at
    )


def _listed(output: Output, start: int) -> Iterator[Mention]:
    lines = output.lines
    starts = [n for n in range(start, len(lines)) if lines[n].startswith("test at ")]
    for first, following in pairwise([*starts, len(lines)]):
        head = _TEST_AT.match(lines[first])
        said = [line.strip() for line in lines[first + 1 : following] if line.strip()]
        if head is None or not said:
            continue
        path, at, last = first_frame(output, first + 2, following)
        if path is None:
            path, at = head["path"], int(head["line"])
        message = ": ".join(said[:2]).removeprefix("✖ ")
        yield Mention(message, "node test", first, max(last, first + 1), path, at)
