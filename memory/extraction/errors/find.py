"""Finds the errors that a command's output reports.

The command decides first, then the exit status, then the text: a command that only shows files reports only its own
errors, one that succeeded reports none, and otherwise each tool's matchers look for that tool's format. Whatever they
miss stands in the last lines of the output (`last_lines`), which are kept as they are. Reports that tools write for
machines go first: JSON by its shape (`reports.toml`), cargo's messages, and JUnit XML.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sluice.contracts.memory.model import MAX_MESSAGE_CHARACTERS, ErrorType
from sluice.memory.extraction.agent_run import mapping, objects
from sluice.memory.extraction.errors.matchers import Matcher, Mention, each_once, matchers, type_of
from sluice.memory.extraction.errors.output import Output, Project, plain
from sluice.memory.extraction.shell import Commands, Step, known, read_command
from sluice.text.pattern_file import PatternFile

_FILE = PatternFile(Path(__file__).with_name("reports.toml"))

MAX_DOCUMENT_LINES = 20_000
MAX_FINDINGS = 200
_COMPILERS = frozenset({"mypy", "pyright", "gcc", "clang", "rustc", "tsc"})
_Finding = tuple[str, str, str | None, int | None]
"""Tool, message, path, line."""


def read_reports(output: Output) -> Iterator[Mention]:
    """Yield the errors of the reports in an output; skips JSON and XML of other shapes."""
    if any(mark in output.text for mark in ('"message', '"runs"', '"fingerprint"')):
        for first, last, document in _documents(output):
            for tool, message, path, line in islice(_findings(document), MAX_FINDINGS):
                kind = type_of(message, ErrorType.COMPILE if tool in _COMPILERS else ErrorType.LINT)
                yield Mention(message, tool, kind, first, last, path, line)
    if "<testcase" in output.text and "<!" not in output.text:
        yield from _junit(output)


def unfold_go_test(text: str) -> str:
    """Return the output of `go test -json` as `go test -v` would have written it; any other text unchanged."""
    if '"Action":"output"' not in text:
        return text
    kept: list[str] = []
    for line in text.split("\n"):
        if line.startswith("{") and '"Action":' in line:
            kept.append(_text(mapping(_loaded(line)).get("Output")))
        else:
            kept.append(line + "\n")
    return "".join(kept)


def _documents(output: Output) -> Iterator[tuple[int, int, Any]]:
    """Yield JSON on one line each, and documents that begin and end with a bracket on a line of its own."""
    lines, number = output.lines, -1
    while (number := number + 1) < len(lines):
        first, head = number, lines[number].strip()
        if not head.startswith(("{", "[")):
            continue
        whole = output.whole(number).rstrip()
        document = _loaded(whole) if whole.endswith(("}", "]")) and len(whole) > 1 else None
        if document is None and head in ("{", "["):
            closing = "}" if head == "{" else "]"
            below = range(number + 1, min(len(lines), number + MAX_DOCUMENT_LINES))
            if end := next((at for at in below if lines[at].rstrip() == closing), None):
                number, document = end, _loaded("\n".join(output.whole(at) for at in range(first, end + 1)))
        if document is not None:
            yield first, number, document


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _junit(output: Output) -> Iterator[Mention]:
    first = next((n for n, line in enumerate(output.lines) if line.lstrip().startswith(("<?xml", "<testsuite"))), None)
    if first is None:
        return
    last = max(n for n, line in enumerate(output.lines) if ">" in line)
    try:
        text = "\n".join(output.whole(n) for n in range(first, last + 1))
        root = ElementTree.fromstring(text)  # noqa: S314 a text that declares anything ("<!") is not read
    except ElementTree.ParseError:
        return
    failed = [(case, one) for case in root.iter("testcase") for one in case if one.tag in ("failure", "error")]
    for case, one in failed[:MAX_FINDINGS]:
        name, said = case.get("name") or "", (one.get("message") or one.text or "").strip().partition("\n")[0]
        at = case.get("line") or ""
        line = int(at) if re.fullmatch(r"\d{1,7}", at) else None
        yield Mention(f"{name}: {said}", "junit", ErrorType.TEST, first, last, case.get("file"), line, name)


def _findings(document: Any) -> Iterator[_Finding]:
    is_document = isinstance(document, Mapping)
    if is_document and document.get("reason") == "compiler-message":
        yield from _cargo(mapping(document.get("message")))
        return
    rows = [row for row in _FILE.tables["report"] if row.get("document", False) == is_document]
    for one in [document] if is_document else objects(document):
        if row := next((row for row in rows if one.keys() >= {*row["has"]}), None):
            yield from _by_row(one, row)


def _by_row(report: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[_Finding]:
    """Yield the errors of a report that has the row's shape."""
    found = [report]
    for name in row.get("below", ()):
        found = [{**one, **below} for one in found for below in objects(one.get(name))]
    for one in found:
        told = row.get("default", {}) | {name: value for name, value in one.items() if value is not None}
        if all(_at(told, place) in values for place, values in row.get("where", {}).items()):
            tool = _text(_at(told, row["tool"])).lower() if "tool" in row else ""
            code, message = _at(told, row.get("code", "")), _text(_at(told, row["message"]))
            text = f"{message}  {code}" if code and row.get("code_last") else _coded(code, message)
            lines = (_line(_at(told, place), row.get("lines_before", 0)) for place in row["line"])
            yield tool or row["tool_name"], text, _path(_at(told, row["path"])), next(filter(None, lines), None)


def _at(value: Any, place: str) -> Any:
    """Return the part of a JSON value at a place (`location.row`, `spans.0.line`); None if nothing is there."""
    for name in place.split("."):
        value = next(objects(value), None) if name == "0" else mapping(value).get(name)
    return value


def _cargo(message: Mapping[str, Any]) -> Iterator[_Finding]:
    if message.get("level") == "error" and not _text(message.get("message")).startswith("aborting due to"):
        code = mapping(message.get("code")).get("code")
        span = next((span for span in objects(message.get("spans")) if span.get("is_primary")), {})
        tool = "clippy" if isinstance(code, str) and code.startswith("clippy::") else "rustc"
        yield tool, _coded(code, message.get("message")), _path(span.get("file_name")), _line(span.get("line_start"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _coded(code: Any, message: Any) -> str:
    return f"{code} {_text(message)}" if isinstance(code, str) and code else _text(message)


def _path(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _line(value: Any, lines_before: int = 0) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and value + lines_before > 0
    return value + lines_before if known else None


MAX_FOUND = 200
"""Most errors taken from one output; as many as a record holds."""
LAST_LINES = 15
"""Lines kept from the end: for 28 outputs of 28 tools, the last 15 lines held the error in 27."""
_MAX_TAIL_CHARACTERS = 1_800

_STATED_EXIT = re.compile(r"\s*(?:Error: )?Exit code:? (-?\d{1,5})\s*\n")
_NOT_MOVED = re.compile(r"\bcd: (?:can't cd to )?\S.{0,300}")
_FROM_THE_ROOT = frozenset({"rustc", "clippy", "cargo", "cargo test", "rust", "go test"})
"""Tools that name files from the folder of the workspace or module, wherever they were started."""
_GO_PACKAGE = re.compile(r"(?:FAIL|ok  |\?   |---)\t(\S{1,300})")
_TWO_WORDS = frozenset({"go", "cargo", "npm", "ruff", "git"})


@dataclass(frozen=True, slots=True)
class FoundError:
    """An error that a tool reported.

    `file_path` is relative to the project's folder; None where the tool named no file, or one outside (`outside`).
    `line` is 1-based and belongs to `file_path`.
    """

    message: str
    error_type: ErrorType
    file_path: str | None
    line: int | None
    tool: str
    outside: bool = False


def find_errors(output: str, *, command: str | None, exit_code: int | None, root: str | None) -> tuple[FoundError, ...]:
    """Return the errors in `output`, in its order; a failure that is reported twice is one error.

    Args:
        output: the command's output as a terminal or a pipe got it: coloured, with CR, cut at an end.
        command: the shell command; None if unknown (then only formats that are a tool's own count).
        exit_code: of the whole command; None or negative if unknown.
        root: the project's folder, absolute; None if unknown (then absolute paths are outside).
    """
    if not output.strip():
        return ()
    if exit_code is None and (stated := _STATED_EXIT.match(output)):
        exit_code, output = int(stated[1]), output[stated.end() :]
    if exit_code is not None and exit_code < 0:
        exit_code = None
    commands = read_command(command) if command is not None else None
    steps = _may_have_failed(commands, exit_code)
    if steps is not None and not steps:
        return ()
    moved = commands.folder if commands and not _NOT_MOVED.search(output) else None
    text = Output(output, Project.of(root, moved), _words(commands), unfold_go_test)
    if steps is not None and all(step.reads for step in steps):
        return _told(text, _own(text, {step.program for step in steps})) if exit_code != 0 else ()
    return _told(text, _mentions(text, _tried(steps)))


def last_lines(output: str) -> str:
    """Return the last lines of an output, without colours and blank lines; "" if there are none."""
    lines = [line.rstrip() for line in plain(output).split("\n") if line.strip()]
    return "\n".join(lines[-LAST_LINES:])[-_MAX_TAIL_CHARACTERS:]


def _may_have_failed(commands: Commands | None, exit_code: int | None) -> Sequence[Step] | None:
    """Return the steps that may have failed; None if the command is unknown."""
    if commands is None or not commands.steps:
        return () if exit_code == 0 else None
    if exit_code == 0:
        return [step for step in commands.doubtful() if not step.reads]
    return commands.steps


def _tried(steps: Sequence[Step] | None) -> Iterable[Matcher]:
    """Return the matchers of the programs that ran; all of them if one of the programs may run anything."""
    if steps is None:
        return matchers()
    programs = {step.program for step in steps if not step.reads}
    read = frozenset().union(*(row.programs for row in matchers())) - known("run_anything")
    if programs <= read:
        return [row for row in matchers() if row.anywhere or row.programs & programs]
    return matchers()


def _mentions(output: Output, rows: Iterable[Matcher]) -> list[Mention]:
    found = list(read_reports(output))
    told_by = [-1] * len(found)
    for mention in found:
        output.take(mention.first, mention.last)
    alone = False
    for number, row in enumerate(rows):
        if (alone and row.anywhere) or not any(mark in output.text for mark in row.marks):
            continue
        for mention in row.read(output):
            alone = alone or row.alone
            found.append(mention)
            told_by.append(number)
            output.take(mention.first, mention.last)
            if len(found) >= 4 * MAX_FOUND:
                break
    return each_once(found, told_by)


def _own(output: Output, programs: set[str]) -> Iterable[Mention]:
    """Yield the own errors of programs that only show files: `cat: x: No such file or directory`."""
    for row in matchers():
        if row.tools == ("shell",) and "(?P<program>" in row.begin:
            for mention in row.read(output):
                if mention.program.rpartition("/")[2] in programs or mention.message.startswith(_SHELLS):
                    yield mention


_SHELLS = tuple(f"{one}: " for one in ("bash", "sh", "zsh", "dash", "ksh", "/bin/sh", "/bin/bash"))


def _words(commands: Commands | None) -> frozenset[str]:
    """Return the command's programs, those with a subcommand also as two words (`go vet`), and its arguments."""
    words: set[str] = set()
    for step in commands.steps if commands else ():
        words |= {step.program, *step.words[1:]}
        if step.program in _TWO_WORDS:
            words |= {f"{step.program} {word}" for word in step.words[1:3]}
    return frozenset(words)


def _told(output: Output, mentions: Iterable[Mention]) -> tuple[FoundError, ...]:
    """Return each failure once, in the order of the output. A consequence counts only if nothing else was found."""
    ordered = sorted(mentions, key=lambda mention: mention.first)
    if any(not mention.follows for mention in ordered):
        ordered = [mention for mention in ordered if not mention.follows]
    else:
        ordered = ordered[:1]
    packages = [(at, named[1]) for at, line in enumerate(output.lines) if (named := _GO_PACKAGE.match(line))]
    found: dict[tuple[object, ...], FoundError] = {}
    for mention in ordered:
        error = _error(output, mention, packages)
        same = (mention.name, mention.column, " ".join(error.message.split()))
        found.setdefault((error.file_path, error.line, error.outside, *same), error)
        if len(found) >= MAX_FOUND:
            break
    return tuple(found.values())


def _error(output: Output, mention: Mention, packages: list[tuple[int, str]]) -> FoundError:
    message = mention.message.strip()[:MAX_MESSAGE_CHARACTERS] or f"{mention.tool} failed"
    printed = mention.path
    if printed is not None and mention.tool == "go test" and "/" not in printed:
        printed = posixpath.join(_folder_of(packages, output, mention.first), printed)
    if printed is not None and mention.tool in _FROM_THE_ROOT:
        printed = output.project.anchored(printed)
    path, outside = output.project.locate(printed, output.folder_at(mention.first))
    line = mention.line if path is not None and mention.line else None
    return FoundError(message, mention.error_type, path, line, mention.tool, outside)


def _folder_of(packages: list[tuple[int, str]], output: Output, number: int) -> str:
    """Return the folder below the module of the Go test in line `number`, whose package follows it; "" for the module.

    By the command's argument (`go test ./calc`), else by the part that the packages share, else by the module's host.
    """
    package = next((name for at, name in packages if at > number), "")
    for word in output.words:
        if word.startswith("./") and "..." not in word and package.endswith("/" + word[2:].rstrip("/")):
            return word[2:].rstrip("/")
    names = {name for _, name in packages}
    if len(names) > 1 and (shared := posixpath.commonpath(names)):
        return posixpath.relpath(package, shared).removeprefix(".")
    parts = package.split("/")
    root = 3 if parts[0] in ("github.com", "gitlab.com", "bitbucket.org") else 2 if "." in parts[0] else 1
    return "/".join(parts[root:])
