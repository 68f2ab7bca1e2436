"""Reports that tools write for machines: JSON of eslint, ruff, mypy, pylint, pyright, gcc, cargo; SARIF; JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any
from xml.etree import ElementTree

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.errors.matchers import Mention, type_of
from sluice.memory.extraction.errors.output import Output

MAX_DOCUMENT_LINES = 20_000
MAX_FINDINGS = 200
_COMPILERS = frozenset({"mypy", "pyright", "gcc", "clang", "rustc", "tsc"})
_Finding = tuple[str, str, str | None, int | None]
"""Tool, message, path, line."""


def read_reports(output: Output) -> Iterator[Mention]:
    """The errors of the reports in an output; what is JSON or XML and none of these shapes is passed over."""
    if any(mark in output.text for mark in ('"message', '"runs"', '"fingerprint"')):
        for first, last, document in _documents(output):
            for tool, message, path, line in islice(_findings(document), MAX_FINDINGS):
                kind = type_of(message, ErrorType.COMPILE if tool in _COMPILERS else ErrorType.LINT)
                yield Mention(message, tool, kind, first, last, path, line)
    if "<testcase" in output.text and "<!" not in output.text:
        yield from _junit(output)


def unfold_go_test(text: str) -> str:
    """`go test -json` as `go test -v` would have written it; any other text as it is."""
    if '"Action":"output"' not in text:
        return text
    kept: list[str] = []
    for line in text.split("\n"):
        if line.startswith("{") and '"Action":' in line:
            kept.append(_text(_map(_loaded(line)).get("Output")))
        else:
            kept.append(line + "\n")
    return "".join(kept)


def _documents(output: Output) -> Iterator[tuple[int, int, Any]]:
    """JSON on one line each, and documents that begin and end with a bracket on a line of its own."""
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
    if not isinstance(document, Mapping):
        for one in _maps(document):
            if read := next((read for keys, read in _SHAPES if keys <= one.keys()), None):
                yield from read(one)
    elif "runs" in document:
        yield from _sarif(document)
    elif "generalDiagnostics" in document:
        for one in _maps(document["generalDiagnostics"]):
            if one.get("severity") == "error":
                start = _map(_map(one.get("range")).get("start")).get("line")
                line = start + 1 if isinstance(start, int) else None
                yield "pyright", _text(one.get("message")), _path(one.get("file")), line
    elif document.get("reason") == "compiler-message":
        yield from _cargo(_map(document.get("message")))
    elif document.get("severity") == "error" and "file" in document and "hint" in document:
        message = _coded(document.get("code"), document.get("message"))
        yield "mypy", message, _path(document["file"]), _line(document.get("line"))


def _eslint(one: Mapping[str, Any]) -> Iterator[_Finding]:
    for message in _maps(one["messages"]):
        if message.get("severity") == 2:
            rule = f"  {message['ruleId']}" if message.get("ruleId") else ""
            yield "eslint", _text(message.get("message")) + rule, _path(one["filePath"]), _line(message.get("line"))


def _ruff(one: Mapping[str, Any]) -> Iterator[_Finding]:
    message = _coded(one["code"] or "SyntaxError", one["message"])
    yield "ruff", message, _path(one["filename"]), _line(_map(one["location"]).get("row"))


def _pylint(one: Mapping[str, Any]) -> Iterator[_Finding]:
    yield "pylint", _coded(one["message-id"], one.get("message")), _path(one.get("path")), _line(one.get("line"))


def _code_quality(one: Mapping[str, Any]) -> Iterator[_Finding]:
    """GitLab's code quality report, which many linters write."""
    place = _map(one["location"])
    begin = _map(place.get("lines")).get("begin") or _map(_map(place.get("positions")).get("begin")).get("line")
    yield "lint", _text(one.get("description")), _path(place.get("path")), _line(begin)


def _gcc(one: Mapping[str, Any]) -> Iterator[_Finding]:
    if one["kind"] in ("error", "fatal error"):
        caret = next((_map(place.get("caret")) for place in _maps(one["locations"])), {})
        yield "gcc", _text(one.get("message")), _path(caret.get("file")), _line(caret.get("line"))


def _cargo(message: Mapping[str, Any]) -> Iterator[_Finding]:
    if message.get("level") == "error" and not _text(message.get("message")).startswith("aborting due to"):
        code = _map(message.get("code")).get("code")
        span = next((span for span in _maps(message.get("spans")) if span.get("is_primary")), {})
        tool = "clippy" if isinstance(code, str) and code.startswith("clippy::") else "rustc"
        yield tool, _coded(code, message.get("message")), _path(span.get("file_name")), _line(span.get("line_start"))


def _sarif(document: Mapping[str, Any]) -> Iterator[_Finding]:
    for run in _maps(document["runs"]):
        name = _text(_map(_map(run.get("tool")).get("driver")).get("name")).lower() or "sarif"
        for result in _maps(run.get("results")):
            if result.get("level", "error") == "error":
                place = next((_map(one.get("physicalLocation")) for one in _maps(result.get("locations"))), {})
                message = _coded(result.get("ruleId"), _map(result.get("message")).get("text"))
                path = _path(_map(place.get("artifactLocation")).get("uri"))
                yield name, message, path, _line(_map(place.get("region")).get("startLine"))


_SHAPES: tuple[tuple[frozenset[str], Callable[[Mapping[str, Any]], Iterator[_Finding]]], ...] = (
    (frozenset({"filePath", "messages"}), _eslint),
    (frozenset({"filename", "code", "message", "location"}), _ruff),
    (frozenset({"fingerprint", "description", "location"}), _code_quality),
    (frozenset({"message-id"}), _pylint),
    (frozenset({"kind", "locations"}), _gcc),
)


def _maps(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, Mapping))


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _coded(code: Any, message: Any) -> str:
    return f"{code} {_text(message)}" if isinstance(code, str) and code else _text(message)


def _path(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _line(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
