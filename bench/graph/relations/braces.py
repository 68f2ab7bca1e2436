"""Relations of Go and TypeScript files, by their lines: what begins at the margin ends with the brace at the margin.

Only names that one definition of the tree bears count, so that a call is plain without types. A TypeScript file has to
import what it calls, by a relative path.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator

from bench.graph.relations.relation import Relation, Thing, first_sentence
from bench.graph.truth import Definition

_GO = re.compile(r"^func (?:\([^)]*\) )?(?P<function>[A-Za-z]\w*)|^type (?P<class>[A-Za-z]\w*) (?:struct|interface)\b")
_SCRIPT = re.compile(
    r"^(?:export )?(?:default )?(?:async )?(?:abstract )?(?:function\*? (?P<function>[A-Za-z]\w+)"
    r"|class (?P<class>[A-Za-z]\w+)|const (?P<arrow>[A-Za-z]\w+) = (?:async )?(?:function|\())"
)
_CASE = re.compile(r"^(?P<indent>\s*)(?:it|test)\(\s*['\"`](?P<told>[^'\"`]{10,200})['\"`]")
_IMPORT = re.compile(r"import (?:type )?\{(?P<names>[^}]*)\} from ['\"](?P<from>\.[^'\"]*)['\"]")
_EXTENDS = re.compile(r"\bextends (?P<base>[A-Za-z]\w+)")
_COMMENT = re.compile(r"^\s*(?://+|/\*+|\*+/?)\s?")
_PLAIN_METHOD = 8
"""Letters of a method's name from which no other type's is meant, where only one of the tree has it."""
GO, SCRIPT = (".go",), (".ts", ".tsx")


def things_of(texts: dict[str, str]) -> list[Thing]:
    """All functions, classes and tests of the files."""
    return [thing for path, text in texts.items() for thing in _things(path, text.split("\n"))]


def relations_of(texts: dict[str, str]) -> Iterator[Relation]:
    """What is called, tested and inherited, across files."""
    for suffixes in (GO, SCRIPT):
        own = {path: text for path, text in texts.items() if path.endswith(suffixes)}
        yield from _relations(own)


def is_test_file(path: str) -> bool:
    """Whether a file is one of tests, by what Go and TypeScript call them."""
    return bool(re.search(r"_test\.go$|[.-](?:test|spec)\.tsx?$|/__tests__/|(?:^|/)(?:test|spec)s?/", path))


def _relations(texts: dict[str, str]) -> Iterator[Relation]:
    by_name: defaultdict[str, list[Thing]] = defaultdict(list)
    things = things_of(texts)
    for thing in things:
        if thing.kind in ("function", "class") and not is_test_file(thing.place.path):
            by_name[thing.name].append(thing)
    for source in things:
        body = _code("\n".join(texts[source.place.path].split("\n")[source.place.start - 1 : source.place.end]))
        called = set(re.findall(r"\b([A-Za-z]\w*)(?:<[^<>()]*>)?\(", body))
        visible = None if source.place.path.endswith(".go") else _imported(source.place.path, texts)
        for name in sorted(called):
            if len(by_name.get(name, ())) != 1 or len(name) < 3:
                continue
            (target,) = by_name[name]
            if target.place.path == source.place.path:
                continue
            if name not in visible if visible is not None else not _is_seen(source.place.path, target, body):
                continue
            if source.kind == "test":
                yield Relation("tests", source, target)
            elif source.kind == "function" and not is_test_file(source.place.path):
                yield Relation("calls", source, target)
        for base in _EXTENDS.findall(body.split("{")[0]) if source.kind == "class" and visible is not None else ():
            if len(by_name.get(base, ())) == 1 and base in (visible or ()) and by_name[base][0].kind == "class":
                yield Relation("inherits", source, by_name[base][0])


def _is_seen(path: str, target: Thing, body: str) -> bool:
    """Whether Go text at a path means the target: of its own package, or with the package's name before it."""
    package = posixpath.dirname(target.place.path)
    if posixpath.dirname(path) != package:
        return f"{posixpath.basename(package)}.{target.name}(" in body
    return bool(re.search(rf"(?<![\w.]){target.name}\(", body)) or len(target.name) >= _PLAIN_METHOD


def _imported(path: str, texts: dict[str, str]) -> set[str]:
    names: set[str] = set()
    for found in _IMPORT.finditer(texts[path]):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["from"]))
        stem = re.sub(r"\.[jt]sx?$", "", target)
        if any(f"{stem}{end}" in texts for end in (".ts", ".tsx", "/index.ts")):
            names.update(part.replace("type ", "").partition(" as ")[0].strip() for part in found["names"].split(","))
    return names


def _things(path: str, lines: list[str]) -> Iterator[Thing]:
    pattern = _GO if path.endswith(".go") else _SCRIPT
    for number, line in enumerate(lines, start=1):
        if found := pattern.match(line):
            groups = found.groupdict()
            name = groups.get("function") or groups.get("class") or groups.get("arrow") or ""
            is_test = is_test_file(path) and name.startswith("Test")
            told = _comment_above(lines, number - 1, name)
            if is_test and not told:
                told = " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name.removeprefix("Test"))).lower()
            kind = "test" if is_test else "class" if groups.get("class") else "function"
            yield Thing(name, Definition(path, number, _end(lines, number, "")), told, kind)  # type: ignore[arg-type]
        elif path.endswith(SCRIPT) and is_test_file(path) and (case := _CASE.match(line)):
            place = Definition(path, number, _end(lines, number, case["indent"]))
            yield Thing(case["told"], place, case["told"], "test")


def _end(lines: list[str], start: int, indent: str) -> int:
    """The line of the brace that closes what begins at a line: the first `}` that stands as far left."""
    if start <= len(lines) and lines[start - 1].rstrip().endswith(("}", "});", ";")):
        return start
    for number in range(start + 1, min(len(lines), start + 600) + 1):
        if lines[number - 1].startswith(f"{indent}}}"):
            return number
    return start


def _comment_above(lines: list[str], place: int, name: str) -> str:
    found: list[str] = []
    while place > 0 and _COMMENT.match(lines[place - 1]) and len(found) < 40:
        place -= 1
        found.insert(0, _COMMENT.sub("", lines[place]).strip())
    text = "\n".join(found).strip()
    return first_sentence(re.sub(rf"^{re.escape(name)}\s+(?:is\s+)?", "", text)) if found else ""


def _code(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
