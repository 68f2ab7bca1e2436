"""unittest (and Django's tests): `FAIL: test_x (…)` or `ERROR:` between two rules, then a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output
from sluice.memory.extraction.errors.python_traceback import is_parse_error, tracebacks

_HEAD = re.compile(r"(?:FAIL|ERROR): (?P<name>\S.{0,300})$")
_RULE = re.compile(r"[=-]{50,}$")


def read_unittest(output: Output) -> Iterator[Mention]:
    """One error a block; the last traceback in it says what and where."""
    lines = output.lines
    starts = [
        number
        for number, line in enumerate(lines)
        if line[:5] in ("FAIL:", "ERROR") and not output.taken[number] and _HEAD.match(line) and _framed(output, number)
    ]
    for first, following in pairwise([*starts, len(lines)]):
        end = next((n for n in range(first + 3, following) if _RULE.match(lines[n])), following)
        found = list(tracebacks(output, first, end))
        name = lines[first].partition(": ")[2]
        if not found:
            yield Mention(f"{name} failed", "unittest", first, end - 1)
            continue
        last = found[-1]
        path, line = last.place(output)
        message = last.raised if is_parse_error(last.raised) else f"{name}: {last.raised}"
        yield Mention(message, "unittest", first, end - 1, path, line)


def _framed(output: Output, number: int) -> bool:
    below = (output.line(number + 1), output.line(number + 2))
    return any(_RULE.match(line) for line in (*below, output.line(number - 1)))
