"""Failing tests of jest, vitest and mocha: by their title, and the first frame inside the project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.javascript import FRAME, first_frame
from sluice.memory.extraction.errors.output import Output

_SUITE = re.compile(r"\s*(?:FAIL|PASS) +(?P<path>\S.*?)(?: \([\d.]+ m?s\))?$")
_TITLE = re.compile(r"  ● (?P<title>.+)$")
_SUMMARY = re.compile(r"Summary of all failing tests$")
_PARSE = re.compile(r"\s*SyntaxError: (?P<path>/?[^\s:][^:]{0,400}): (?P<message>.*?) ?\((?P<line>\d{1,7}):\d{1,6}\)")
_POINTED = re.compile(r"\s+>? *(?P<line>\d{1,7}) \|")

_POINTER = re.compile(r" +> +\d{1,7} \| ")
_VITEST = re.compile(r" *FAIL +(?:\|\S{1,80}\| )?(?P<path>\S+?\.\w{1,5})(?: > (?P<title>.*)| \[ .* \])?$")
_VITEST_FRAME = re.compile(r" *❯ (?:.{0,200} )?(?P<path>[^\s:]{1,400}):(?P<line>\d{1,7}):\d{1,6}$")

_MOCHA_TITLE = re.compile(r"  (?P<number>\d{1,5})\) (?P<title>.+)$")
_MOCHA_COUNT = re.compile(r"  \d{1,6} failing$")


def read_jest(output: Output) -> Iterator[Mention]:
    """`● adds` below `FAIL ./sum.test.js`; the summary at the end repeats them."""
    if " ● " in output.text:
        yield from _jest(output)
    if " ❯ " in output.text:
        yield from _vitest(output)


def _jest(output: Output) -> Iterator[Mention]:
    suite: str | None = None
    starts: list[tuple[int, str | None, str]] = []
    lines = output.lines
    end = len(lines)
    for number, line in enumerate(lines):
        if output.taken[number]:
            continue
        if (found := _SUITE.match(line)) and "●" not in line:
            suite = found["path"]
            starts.append((number, None, ""))
        elif line.startswith("  ● ") and (headed := _TITLE.match(line)):
            starts.append((number, suite, headed["title"]))
        elif line.startswith(("Test Suites:", "Tests: ")) or _SUMMARY.match(line):
            starts.append((number, None, ""))
    head = starts[0][0] if starts else end
    if any(_POINTER.match(line) for line in lines[:head]) and first_frame(output, 0, head)[0] is not None:
        starts.insert(0, (0, suite, "(cut off)"))
    seen: set[tuple[str | None, str]] = set()
    for (first, path, title), (following, _, _) in pairwise([*starts, (end, None, "")]):
        if not title or title.startswith(("Console", "Cannot log after")):
            continue
        last = following - 1
        if (path, title) in seen:
            output.take(first, last)
            continue
        seen.add((path, title))
        yield _failing(output, first, last, path, title)


def _failing(output: Output, first: int, last: int, suite: str | None, title: str) -> Mention:
    said = [line.strip() for line in output.lines[first + 1 : last + 1] if line.strip()]
    for number in range(first + 1, last + 1):
        if parse := _PARSE.match(output.lines[number]):
            message = f"SyntaxError: {parse['message']}"
            return Mention(message, "jest", first, last, parse["path"], int(parse["line"]))
    path, at, _ = first_frame(output, first + 1, last + 1)
    message = said[0] if said else "failed"
    if message.startswith("Jest encountered an unexpected token"):
        message = next((line for line in said if line.startswith("SyntaxError")), message)
        pointed = next((n for n in range(first, last + 1) if output.lines[n].strip() == "Details:"), None)
        for number in range(pointed + 1, last + 1) if pointed is not None else ():
            line = output.lines[number].strip()
            if found := re.match(r"(\S[^:]{0,400}):(\d{1,7})$", line):
                path, at = found[1], int(found[2])
                break
    if path is None and suite is not None:
        path = suite
        arrow = next(
            (
                m
                for line in output.lines[first : last + 1]
                if line.lstrip().startswith(">") and (m := _POINTED.match(line))
            ),
            None,
        )
        at = int(arrow["line"]) if arrow else None
    return Mention(
        f"{title}: {message}" if not message.startswith("SyntaxError") else message, "jest", first, last, path, at
    )


def _vitest(output: Output) -> Iterator[Mention]:
    starts = [
        (n, m)
        for n, line in enumerate(output.lines)
        if "FAIL" in line and (m := _VITEST.match(line)) and not output.taken[n]
    ]
    ends = [*(number for number, _ in starts[1:]), len(output.lines)]
    for (first, found), following in zip(starts, ends[: len(starts)], strict=True):
        path, at, last = found["path"], None, first
        for number in range(first + 1, following):
            frame = _VITEST_FRAME.match(output.lines[number])
            if frame and output.project.holds(frame["path"]):
                path, at, last = frame["path"], int(frame["line"]), number
                break
        message = next((line.strip() for line in output.lines[first + 1 : following] if line.strip()), "failed")
        yield Mention(f"{found['title'] or found['path']}: {message}", "vitest", first, last, path, at)


def read_mocha(output: Output) -> Iterator[Mention]:
    """The numbered failures after `2 failing`."""
    begin = next(
        (n for n, line in enumerate(output.lines) if line.endswith(" failing") and _MOCHA_COUNT.match(line)), None
    )
    if begin is None:
        return
    lines = output.lines
    starts = [n for n in range(begin + 1, len(lines)) if lines[n].startswith("  ") and _MOCHA_TITLE.match(lines[n])]
    for first, following in pairwise([*starts, len(lines)]):
        path, at, last = first_frame(output, first + 1, following)
        body = [line.strip() for line in lines[first:following] if line.strip()]
        stack = next((n for n, line in enumerate(lines[first:following]) if FRAME.match(line)), None)
        message = next(
            (line for line in body if re.match(r"(?:\w+ )?\w*(?:Error|Exception)\b.*|Error: ", line)),
            body[-1] if body else "failed",
        )
        title = " ".join(line.rstrip(":") for line in body[:2])
        yield Mention(
            f"{title}: {message}", "mocha", first, max(last, first) if stack is not None else following - 1, path, at
        )
