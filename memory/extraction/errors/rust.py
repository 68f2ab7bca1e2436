"""rustc, cargo, clippy, and what a Rust program says when it panics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

_ERROR = re.compile(r"error(?:\[(?P<code>[A-Z]\d{1,5})\])?: (?P<message>.*)$")
_SHORT = re.compile(
    r"(?P<path>[^\s:][^:]{0,300}\.rs):(?P<line>\d{1,7}):\d{1,5}: (?P<message>error(?:\[[A-Z]\d{1,5}\])?: .*)$"
)
_ARROW = re.compile(r" *(?:-->|:::) (?P<path>.{1,300}?):(?P<line>\d{1,7}):\d{1,5}$")
_FOLLOWS = re.compile(
    r"(?:could not compile|aborting due to|test failed, to rerun|\d+ targets? failed|doctest failed|process didn't exit"
    r"|build failed|Recipe |command `)"
)
_CARGO = re.compile(
    r"(?:failed to |could not find|no matching|package |no bin|no such|the option|unexpected|manifest|linking with|unused manifest|cannot |a bin target|toolchain|invalid |duplicate key|missing |unknown )"
)
_MANIFEST = re.compile(r"failed to parse manifest at `(?P<path>[^`]{1,400})`")

_PANIC = re.compile(r"thread '(?P<thread>.{1,200}?)' (?:\(\d{1,10}\) )?panicked at (?P<rest>.*)$")
_PANIC_PLACE = re.compile(r"(?P<path>[^\s'].{0,300}?):(?P<line>\d{1,7}):\d{1,5}:$")
_PANIC_OLD = re.compile(r"'(?P<message>.*)', (?P<path>.{1,300}?):(?P<line>\d{1,7}):\d{1,5}$")
_PANIC_OLD_END = re.compile(r"(?P<message>.*)', (?P<path>[^\s'].{0,300}?):(?P<line>\d{1,7}):\d{1,5}$")
_BACKTRACE = re.compile(r" +at (?P<path>.{1,400}?):(?P<line>\d{1,7})(?::\d{1,5})?$")
_STDOUT_OF = re.compile(r"---- (?P<name>.{1,300}?) stdout ----$")
_DOCTEST = re.compile(r"(?P<path>.{1,300}?\.(?:rs|md)) - .{0,200}\(line (?P<line>\d{1,7})\)")
_FAILED = re.compile(r"test (?P<name>.{1,300}?) \.\.\. FAILED$")
_RETURNED = re.compile(r"Error: (?P<message>.*)$")
_MAX_NOTES = 60


def read_rustc(output: Output) -> Iterator[Mention]:
    """`error[E0308]: …` with the arrow below it; `could not compile` only repeats that there were some."""
    for number, line in output.having("error"):
        if short := _SHORT.match(line):
            yield Mention(
                short["message"], "rustc", number, number, output.project.anchored(short["path"]), int(short["line"])
            )
            continue
        if not line.startswith("error") or not (found := _ERROR.match(line)):
            continue
        if _FOLLOWS.match(found["message"]):
            yield Mention(line, "cargo", number, number, follows=True)
            continue
        place, last, clippy = _place(output, number)
        if place:
            yield Mention(line, "clippy" if clippy else "rustc", number, last, place["path"], int(place["line"]))
        elif found["code"] or _CARGO.match(found["message"]):
            manifest = _MANIFEST.search(line)
            end, path, at = _cargo_place(output, number)
            yield Mention(line, "cargo", number, end, path or (manifest["path"] if manifest else None), at)


def _place(output: Output, number: int) -> tuple[re.Match[str] | None, int, bool]:
    """The arrow below an error, the last line of its block, and whether clippy told it."""
    place = None
    last = number
    clippy = False
    for ahead in range(number + 1, min(number + _MAX_NOTES, len(output.lines))):
        line = output.lines[ahead]
        if not line.strip() or line.startswith(("error", "warning")):
            break
        if place is None and (arrow := _ARROW.match(line)) and "-->" in line:
            place = arrow
        elif place is None and ahead > number + 6:
            break
        clippy = clippy or "clippy::" in line or "rust-clippy" in line
        last = ahead
    if place is not None and not clippy:
        clippy = "clippy::" in output.line(last + 1) or "rust-clippy" in output.line(last + 1)
    return place, last, clippy


def _cargo_place(output: Output, number: int) -> tuple[int, str | None, int | None]:
    """Cargo's errors of a manifest have the place below `-->` too, after an empty line or `Caused by:`."""
    end = number
    for ahead in range(number + 1, min(number + 12, len(output.lines))):
        line = output.lines[ahead]
        if line.startswith(("error", "warning")):
            break
        end = ahead
        if arrow := _ARROW.match(line):
            return end, arrow["path"], int(arrow["line"])
    return number, None, None


def read_panics(output: Output) -> Iterator[Mention]:
    """`thread 'main' panicked at src/main.rs:3:9:` and the failing tests of `cargo test`."""
    testing = ("running " in output.text and "test result: " in output.text) or "---- " in output.text
    failed: dict[str, int] = {}
    told: set[str] = set()
    current: tuple[str, int] | None = None
    for number, line in enumerate(output.lines):
        if output.taken[number] or not line:
            continue
        if line.startswith("test ") and (found := _FAILED.match(line)):
            failed.setdefault(found["name"].removesuffix(" - should panic"), number)
        elif line.startswith("---- ") and (found := _STDOUT_OF.match(line)):
            current = (found["name"], number)
        elif line.startswith("thread '") and (found := _PANIC.match(line)):
            name = current[0] if current else found["thread"]
            told.add(name)
            yield _panic(output, number, found, "cargo test" if testing else "rust", name)
            current = current
        elif current and line.startswith("Error: ") and (found := _RETURNED.match(line)):
            told.add(current[0])
            yield Mention(found["message"], "cargo test", current[1], number)
    for name, number in failed.items():
        if name not in told and name.rpartition("::")[2] not in {one.rpartition("::")[2] for one in told}:
            doctest = _DOCTEST.match(name)
            yield Mention(
                f"{name} failed",
                "cargo test",
                number,
                number,
                doctest["path"] if doctest else None,
                int(doctest["line"]) if doctest else None,
            )


def _panic(output: Output, number: int, found: re.Match[str], tool: str, name: str) -> Mention:
    rest = found["rest"]
    last = number
    path: str | None = None
    line: int | None = None
    message = rest
    if place := _PANIC_PLACE.match(rest):
        path, line = place["path"], int(place["line"])
        message = output.line(number + 1).strip() or f"{name} panicked"
        last = number + 1
    elif old := _PANIC_OLD.match(rest):
        path, line, message = old["path"], int(old["line"]), old["message"]
    elif rest.startswith("'"):
        for ahead in range(number + 1, min(number + 40, len(output.lines))):
            if end := _PANIC_OLD_END.match(output.lines[ahead]):
                path, line, message, last = end["path"], int(end["line"]), rest[1:], ahead
                break
    if path is None or not output.project.holds(path):
        for ahead in range(last + 1, min(last + 120, len(output.lines))):
            if output.lines[ahead].startswith("thread '"):
                break
            if (frame := _BACKTRACE.match(output.lines[ahead])) and output.project.holds(frame["path"]):
                path, line = frame["path"], int(frame["line"])
                break
    return Mention(message, tool, number, last, path, line)
