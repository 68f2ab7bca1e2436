"""Reads reports that tools write for machines: JSON by its shape (`reports.toml`), cargo's messages, and JUnit XML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.agent_run import mapping, objects
from sluice.memory.extraction.errors.matchers import Mention, type_of
from sluice.memory.extraction.errors.output import Output
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
