"""What CMake tells when it configures: `CMake Error at CMakeLists.txt:4 (find_package):`, the message below it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

_ERROR = re.compile(
    r"CMake Error(?: at (?P<path>[^\s:()][^:()]{0,300}):(?P<line>\d{1,7})(?: \([\w.:-]{1,80}\))?)?:(?: (?P<message>.+))?$"
)
_MOST_BELOW = 6


def read_cmake(output: Output) -> Iterator[Mention]:
    """Errors with the place in a list file, or without one; the call stack below names no error of its own."""
    for number, line in output.having("CMake Error"):
        if found := _ERROR.match(line):
            last, message = _message(output, number)
            at = int(found["line"]) if found["line"] else None
            yield Mention(found["message"] or message or line, "cmake", number, last, found["path"], at)


def _message(output: Output, number: int) -> tuple[int, str]:
    """The first paragraph below a heading: the number of its last line, and its text."""
    kept: list[str] = []
    for ahead in range(number + 1, min(number + 1 + _MOST_BELOW, len(output.lines))):
        text = output.line(ahead)
        if text[:1] != " ":
            break
        kept.append(text.strip())
    return number + len(kept), " ".join(kept)
