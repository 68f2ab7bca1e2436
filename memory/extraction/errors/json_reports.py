"""Reports that tools write as JSON: eslint, ruff, mypy, pylint, pyright, gcc, cargo, SARIF; one document or one a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from sluice.memory.extraction.errors.found import MAX_FOUND, Mention
from sluice.memory.extraction.errors.output import Output

MAX_DOCUMENT_LINES = 20_000
_Finding = tuple[str, str, str | None, int | None]
"""Tool, message, path, line."""


def read_json(output: Output) -> Iterator[Mention]:
    """The errors of the JSON documents in an output; what is JSON and none of these shapes is passed over."""
    for first, last, document in _documents(output):
        for tool, message, path, line in islice(_findings(document), MAX_FOUND):
            yield Mention(message, tool, first, last, path, line)


def unfold_go_test(text: str) -> str:
    """`go test -json` as `go test -v` would have written it; any other text as it is."""
    if '"Action":"output"' not in text:
        return text
    kept: list[str] = []
    for line in text.split("\n"):
        if line.startswith("{") and '"Action":' in line:
            event = _loaded(line)
            if isinstance(event, Mapping) and isinstance(event.get("Output"), str):
                kept.append(event["Output"])
            continue
        kept.append(line + "\n")
    return "".join(kept)


def _documents(output: Output) -> Iterator[tuple[int, int, Any]]:
    lines = output.lines
    number = 0
    while number < len(lines):
        line = lines[number]
        if line[:1] not in ("{", "["):
            number += 1
            continue
        whole = output.whole(number).rstrip()
        document = _loaded(whole) if whole.endswith(("}", "]")) and len(whole) > 1 else None
        last = number
        if document is None and line.strip() in ("{", "["):
            closing = "}" if line[0] == "{" else "]"
            end = next(
                (
                    n
                    for n in range(number + 1, min(len(lines), number + MAX_DOCUMENT_LINES))
                    if lines[n].rstrip() == closing
                ),
                None,
            )
            if end is not None:
                document, last = _loaded("\n".join(output.whole(n) for n in range(number, end + 1))), end
        if document is not None:
            yield number, last, document
        number = last + 1


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _findings(document: Any) -> Iterator[_Finding]:
    if isinstance(document, Mapping):
        if "runs" in document:
            yield from _sarif(document)
        elif "generalDiagnostics" in document:
            for one in _maps(document["generalDiagnostics"]):
                if one.get("severity") == "error":
                    start = _map(_map(one.get("range")).get("start")).get("line")
                    yield (
                        "pyright",
                        _text(one.get("message")),
                        _path(one.get("file")),
                        start + 1 if isinstance(start, int) else None,
                    )
        elif document.get("reason") == "compiler-message":
            yield from _cargo(_map(document.get("message")))
        elif document.get("severity") == "error" and "file" in document and "hint" in document:
            yield (
                "mypy",
                _coded(document.get("code"), document.get("message")),
                _path(document["file"]),
                _line(document.get("line")),
            )
        return
    for one in _maps(document):
        for keys, read in _SHAPES:
            if keys <= one.keys():
                yield from read(one)
                break


def _eslint(one: Mapping[str, Any]) -> Iterator[_Finding]:
    for message in _maps(one["messages"]):
        if message.get("severity") == 2:
            yield (
                "eslint",
                _text(message.get("message")) + (f"  {message['ruleId']}" if message.get("ruleId") else ""),
                _path(one["filePath"]),
                _line(message.get("line")),
            )


def _ruff(one: Mapping[str, Any]) -> Iterator[_Finding]:
    yield (
        "ruff",
        _coded(one["code"] or "SyntaxError", one["message"]),
        _path(one["filename"]),
        _line(_map(one["location"]).get("row")),
    )


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
    if message.get("level") != "error" or _text(message.get("message")).startswith("aborting due to"):
        return
    code = _map(message.get("code")).get("code")
    primary = next((span for span in _maps(message.get("spans")) if span.get("is_primary")), {})
    tool = "clippy" if isinstance(code, str) and code.startswith("clippy::") else "rustc"
    yield tool, _coded(code, message.get("message")), _path(primary.get("file_name")), _line(primary.get("line_start"))


def _sarif(document: Mapping[str, Any]) -> Iterator[_Finding]:
    for run in _maps(document["runs"]):
        name = _text(_map(_map(run.get("tool")).get("driver")).get("name")).lower() or "sarif"
        for result in _maps(run.get("results")):
            if result.get("level", "error") != "error":
                continue
            place = next((_map(one.get("physicalLocation")) for one in _maps(result.get("locations"))), {})
            path = _map(place.get("artifactLocation")).get("uri")
            line = _map(place.get("region")).get("startLine")
            yield name, _coded(result.get("ruleId"), _map(result.get("message")).get("text")), _path(path), _line(line)


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
