"""`go test` and Go's panics. A test's file is named without its folder; the package that holds it comes after."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

_FAIL = re.compile(r" *--- FAIL: (?P<name>\S{1,300})")
_OTHER = re.compile(r" *(?:--- (?:PASS|SKIP)|=== )")
_SAID = re.compile(r" +(?P<path>[^\s:/]{1,200}\.go):(?P<line>\d{1,7}): ?(?P<message>.*)$")
_PACKAGE = re.compile(r"(?P<result>FAIL|ok  |\?   |---)\t(?P<package>\S{1,300})")
_PANIC = re.compile(r"\t?(?P<message>(?:panic|fatal error): .*)$")
_FRAME = re.compile(r"\t(?P<path>\S.{0,400}\.go):(?P<line>\d{1,7})(?: \+0x[0-9a-f]+)?$")
_FAILURE = re.compile(
    r"\b(?:want|got|expect|unexpected|fail|error|err\b|should|must|not |wrong|mismatch|invalid|bad)|!=|==",
    re.IGNORECASE,
)
_RUN = re.compile(r"=== (?:RUN|CONT|NAME) +(?P<name>\S{1,300})")


@dataclass(slots=True)
class _Failing:
    name: str
    first: int
    last: int
    said: list[tuple[str, int, str]] = field(default_factory=list)
    panic: str = ""
    absolute: bool = False


def read_go_test(output: Output) -> Iterator[Mention]:
    """A failing test by its first message; its parent and `FAIL package` only repeat it."""
    if "--- FAIL: " not in output.text and "panic: " not in output.text and "fatal error: " not in output.text:
        return
    yield from _tests(output)
    for number, line in [*output.having("panic: "), *output.having("fatal error: ")]:
        if output.taken[number] or not (found := _PANIC.match(line)) or line.startswith("\t"):
            continue
        path, at, last = _frame(output, number)
        if last > number:
            testing = "_testing" if "testing.tRunner" in output.text else ""
            yield Mention(found["message"], "go test" if testing else "go program", number, last, path, at)


def _tests(output: Output) -> Iterator[Mention]:
    packages = [
        (n, m["package"]) for n, line in enumerate(output.lines) if "\t" in line and (m := _PACKAGE.match(line))
    ]
    modules = _module_of([package for _, package in packages])
    early: dict[str, list[tuple[str, int, str]]] = {}
    loose: list[tuple[int, tuple[str, int, str]]] = []
    running = ""
    failing: list[_Failing] = []
    current: _Failing | None = None
    for number, line in enumerate(output.lines):
        if not line or output.taken[number]:
            continue
        if "=== " in line and (run := _RUN.match(line)):
            running, current = run["name"], None
        elif "--- FAIL: " in line and (found := _FAIL.match(line)):
            current = _Failing(found["name"], number, number, early.pop(found["name"], []))
            failing.append(current)
        elif _OTHER.match(line):
            current = None
        elif line[0] == " " and ".go:" in line and (said := _SAID.match(line)):
            told = (said["path"], int(said["line"]), said["message"])
            if current is not None:
                current.said.append(told)
                current.last = number
            elif running:
                early.setdefault(running, []).append(told)
            else:
                loose.append((number, told))
        elif current is not None and (panic := _PANIC.match(line)) and not current.panic:
            path, at, last = _frame(output, number)
            current.panic, current.last = panic["message"], last
            if path is not None and at is not None:
                current.said, current.absolute = [(path, at, panic["message"])], True
        elif line[0] not in " \t":
            current = None if line[:4] in ("FAIL", "ok  ", "PASS") else current
    parents = {parent for one in failing for parent in _parents(one.name)}
    ends = [number for number, _ in packages]
    _give_loose(failing, parents, loose)
    for one in failing:
        if not one.said and not one.panic and one.name in parents:
            output.take(one.first, one.first)
            continue
        after = bisect_left(ends, one.first)
        package = packages[after][1] if after < len(packages) else None
        folder = None if one.absolute else _folder(output, package, modules)
        if not one.said:
            yield Mention(one.panic or f"{one.name} failed", "go test", one.first, one.last)
            continue
        path, at, message = _failure(one.said)
        text = message or _below(output, one, f"{path}:{at}:")
        yield Mention(f"{one.name}: {text}", "go test", one.first, one.last, f"{folder}/{path}" if folder else path, at)


def _give_loose(failing: list[_Failing], parents: set[str], loose: list[tuple[int, tuple[str, int, str]]]) -> None:
    """Messages above their tests, of `-v` without its `=== RUN` lines: the failures among them, in their order."""
    waiting = [one for one in failing if not one.said and not one.panic and one.name not in parents]
    begin = 0
    for one in waiting:
        above = [told for number, told in loose[begin:] if number < one.first]
        failures = [told for told in above if not told[2] or _FAILURE.search(told[2])] or above
        if failures:
            one.said = [failures[0]]
            begin = next(n for n in range(begin, len(loose)) if loose[n][1] is failures[0]) + 1


def _failure(said: list[tuple[str, int, str]]) -> tuple[str, int, str]:
    """The first message that sounds like a failure (`t.Log` prints as `t.Error` does), else the last."""
    return next((one for one in said if not one[2] or _FAILURE.search(one[2])), said[-1])


def _below(output: Output, one: _Failing, mark: str) -> str:
    """A message that begins on the line below its place (testify)."""
    for number in range(one.first, min(one.last, one.first + 200) + 1):
        if mark in output.lines[number]:
            return output.line(number + 1).strip() + " " + output.line(number + 2).strip()
    return "failed"


def _parents(name: str) -> Iterator[str]:
    """`TestA`, `TestA/b` of the subtest `TestA/b/c`."""
    parts = name.split("/")[:8]
    yield from ("/".join(parts[:count]) for count in range(1, len(parts)))


def _frame(output: Output, number: int) -> tuple[str | None, int | None, int]:
    """The innermost frame inside the project, below a panic; and the last line of the stack."""
    last = number
    place: tuple[str | None, int | None] = (None, None)
    for ahead in range(number + 1, min(number + 200, len(output.lines))):
        line = output.lines[ahead]
        if line.startswith("goroutine ") and place[0] is not None:
            break
        if (found := _FRAME.match(line)) is not None:
            last = ahead
            if place[0] is None and output.project.holds(found["path"]):
                place = (found["path"], int(found["line"]))
        elif line.startswith(("exit status", "FAIL\t", "panic: ", "fatal error: ")):
            break
    return place[0], place[1], last


def _module_of(packages: list[str]) -> str | None:
    """The module that these packages share; None where there is one package only."""
    different = sorted(set(packages))
    if len(different) < 2:
        return None
    first, end = different[0].split("/"), different[-1].split("/")
    shared = [a for a, b in zip(first, end, strict=False) if a == b]
    return (
        "/".join(shared[: next((n for n, (a, b) in enumerate(zip(first, end, strict=False)) if a != b), len(shared))])
        or None
    )


def _folder(output: Output, package: str | None, module: str | None) -> str | None:
    """A package's folder below its module: by the argument (`go test ./calc`), or by what the packages share."""
    if package is None:
        return None
    named = [word for word in output.words if word.startswith("./") and "..." not in word]
    for word in named:
        folder = word[2:].rstrip("/")
        if folder and package.endswith("/" + folder):
            return folder
    if module is not None and package.startswith(module + "/"):
        return package[len(module) + 1 :]
    if module == package:
        return None
    parts = package.split("/")
    root = 3 if parts[0] in ("github.com", "gitlab.com", "bitbucket.org") else 2 if "." in parts[0] else 1
    return "/".join(parts[root:]) or None
