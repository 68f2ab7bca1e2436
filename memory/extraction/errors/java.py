"""Uncaught exceptions of the Java virtual machine. A frame names its file without the folder."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

_THROWN = re.compile(r"Exception in thread \"[^\"]{1,200}\" (?P<message>\S.*)$")
_FRAME = re.compile(
    r"\s+at (?:[\w.@$/-]{0,200}/)?(?P<method>[\w.$<>]{1,300})\((?P<file>\w{1,200}\.(?:java|kt|scala)):(?P<line>\d{1,7})\)$"
)
_PLATFORM = ("java.", "javax.", "jdk.", "sun.", "kotlin.", "scala.", "org.junit.")


def read_java(output: Output) -> Iterator[Mention]:
    """The innermost frame that is none of the platform's; its package gives the folder."""
    for number, line in output.having("Exception in thread"):
        if not (found := _THROWN.match(line)):
            continue
        path: str | None = None
        at: int | None = None
        last = number
        for ahead in range(number + 1, min(number + 200, len(output.lines))):
            text = output.lines[ahead]
            if not text.startswith(("\t", " ", "Caused by: ")):
                break
            last = ahead
            frame = _FRAME.match(text)
            if frame and path is None and not frame["method"].startswith(_PLATFORM):
                package = frame["method"].split(".")[:-2]
                path, at = "/".join([*package, frame["file"]]), int(frame["line"])
        yield Mention(found["message"], "java", number, last, path, at)
