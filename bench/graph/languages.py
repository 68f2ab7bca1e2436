"""Definitions that the graph reads from sources, beside those that Universal Ctags finds.

    python -m bench.graph.languages go=/usr/share/gocode/src/golang.org rust=/usr/share/cargo/registry/tokio-1.24.2

For each language: how many definitions of ctags are found (the same name, its line within ours), how many of those are
held by what ctags says holds them (`Cart` of `Cart.add`), how many of ours ctags has too, and megabytes a second. The
two differ by intent in places: see `docs/graph-extraction.md`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from sluice.contracts.graph.model import EdgeType, GraphDocument
from sluice.graph.extract.extract import extract_edges

SUFFIXES = {
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".mts", ".cts"),
    "tsx": (".tsx",),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".h"),
}
CTAGS_LANGUAGES = {
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "tsx": "TypeScript",
    "go": "Go",
    "rust": "Rust",
    "java": "Java",
    "c": "C",
    "cpp": "C++",
}
KINDS = frozenset(
    [
        *("function", "func", "method", "methodSpec", "generator", "class", "interface", "struct", "union", "enum"),
        *("type", "typedef", "alias", "talias", "trait", "macro", "annotation"),
    ]
)
"""Of ctags: what both mean to find. Left out: local names, fields, constants and variables, prototypes, packages."""
BY_INTENT = ("constructor", "new", "operator")
"""Not read: a constructor is its class, and an operator is never called by a name."""
SHOWN = 12


@dataclass
class Found:
    """Figures of one language."""

    files: int = 0
    characters: int = 0
    seconds: float = 0.0
    theirs: int = 0
    found: int = 0
    held: int = 0
    with_holder: int = 0
    ours: int = 0
    known: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    only_ours: list[str] = field(default_factory=list)


def measure(language: str, root: Path) -> Found:
    """Read every source below `root`, and compare."""
    found = Found()
    for path in sorted(one for one in root.rglob("*") if one.suffix in SUFFIXES[language] and one.is_file()):
        if path.name.endswith((".min.js", ".d.ts")) or path.stat().st_size > 400_000:
            continue
        _compare(language, path, str(path.relative_to(root.parent)), found)
    return found


def _compare(language: str, path: Path, own_path: str, found: Found) -> None:
    text = path.read_text("utf-8", "replace")
    started = time.perf_counter()
    edges = extract_edges(GraphDocument(own_path, own_path, None, None, language, text, {}))
    found.seconds += time.perf_counter() - started
    found.files += 1
    found.characters += len(text)
    ours: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for edge in edges:
        if edge.type is EdgeType.REFERS_TO:
            found.origins[edge.origin] += len(edge.lines)
        if edge.type is not EdgeType.DEFINED_IN or ":?." in edge.source.key or edge.detail == "module":
            continue
        qualified = edge.source.key.partition(":")[2]
        ours[qualified.rpartition(".")[2]].append((edge.lines[0], edge.lines[-1], qualified))
        if edge.detail in ("variable", "constant", "field", "declaration", "constructor"):
            continue
        found.ours += 1
    theirs = _ctags(language, path)
    names = {name for name, _, _, _ in theirs}
    for name, line, kind, holder in theirs:
        if kind not in KINDS or name.startswith(("__anon", "Anonymous")) or name.split(" ")[0] in BY_INTENT:
            continue
        found.theirs += 1
        same = [one for one in ours.get(name, ()) if one[0] <= line <= one[1]]
        if not same:
            found.missed.append(f"{own_path}:{line} {kind} {name}")
            continue
        found.found += 1
        if holder and not holder.startswith("__anon"):
            found.with_holder += 1
            found.held += any(f".{one[2]}".endswith(f".{holder}.{name}") for one in same)
    for edge in edges:
        if edge.type is EdgeType.DEFINED_IN and ":?." not in edge.source.key and edge.detail != "module":
            if edge.detail in ("variable", "constant", "field", "declaration", "constructor"):
                continue
            name = edge.source.key.rpartition(".")[2].rpartition(":")[2]
            found.known += name in names
            if name not in names:
                found.only_ours.append(f"{own_path}:{edge.lines[0]} {edge.detail} {name}")


def _ctags(language: str, path: Path) -> list[tuple[str, int, str, str]]:
    command = ["ctags", "--output-format=json", "--fields=+nKsZ", "--extras=-q", "--sort=no", "-f", "-"]
    command += [f"--language-force={CTAGS_LANGUAGES[language]}", "--kinds-all=*", str(path)]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout.decode("utf-8", "replace")
    tags = [json.loads(line) for line in printed.split("\n") if line.startswith("{")]
    return [
        (tag["name"], tag.get("line", 0), tag["kind"], tag.get("scope", "").replace("::", ".").rpartition(".")[2])
        for tag in tags
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f} of {whole:,}" if whole else "-"


def main() -> None:
    """Print a row for each `language=folder`."""
    for argument in sys.argv[1:]:
        language, _, folder = argument.partition("=")
        found = measure(language, Path(folder))
        speed = found.characters / 1e6 / found.seconds if found.seconds else 0.0
        print(
            f"{language} {Path(folder).name}: {found.files} files, {speed:.2f} MB/s;"
            f" found {_share(found.found, found.theirs)}; held right {_share(found.held, found.with_holder)};"
            f" known to ctags {_share(found.known, found.ours)};"
            f" references {dict(found.origins.most_common())}"
        )
        for what, examples in (("missed", found.missed), ("only ours", found.only_ours)):
            step = max(1, len(examples) // SHOWN)
            for example in examples[::step][:SHOWN]:
                print(f"    {what}: {example}")


if __name__ == "__main__":
    main()
