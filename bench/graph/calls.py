"""Whether the function that a call reached when the code ran is among those that the graph names for it.

`python -m bench.graph.calls [GROUP …] [--recorded FILE …] [--misses N]` runs small programs under `sys.setprofile`, or
reads what `bench.graph.record` recorded while a package's own tests ran, reads the sources of what ran into edges,
resolves them as a published graph does, and prints for each group: calls, the share whose true target (file and
function) is among the candidates, how many candidates there are, and how the misses divide. It writes nothing into the
tree.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.graph.record import sources as tree_sources
from bench.graph.recorder import CallPair, Recorder
from bench.graph.workloads import GROUPS
from sluice.contracts.graph.model import DocumentRow, Edge, EdgeType, GraphDocument, Origin
from sluice.graph.extract.extract import extract_edges
from sluice.graph.generations.resolution import Resolver

STANDARD = Path(sysconfig.get_paths()["stdlib"])
INSTALLED = Path(sysconfig.get_paths()["purelib"])
_PACKAGES = (
    *("fastapi", "starlette", "sqlalchemy", "rich", "typer", "celery", "kombu", "vine", "billiard", "yaml", "tomlkit"),
    *("markdown_it", "mdurl", "pygments", "mako", "httpx", "httpcore", "attr", "click", "pydantic", "anyio", "alembic"),
)
_UNNAMED = frozenset({"no reference there", "another name is written"})
"""Of misses: the calling expression does not name what it reached. A variable held it, or a decorator wrapped it."""
_MADE = frozenset({"__init__", "__new__", "__call__", "__post_init__", "__init_subclass__", "__set_name__"})


class Judged(NamedTuple):
    """A recorded call and what the graph says of it. `candidates` 0: the true target is not among them."""

    pair: CallPair
    candidates: int
    share: float
    origin: str
    reason: str


class Corpus:
    """Sources of Python as a graph: their edges, and what each name means."""

    def __init__(self, files: dict[str, str]) -> None:
        """`files`: where each lies, and its path in the corpus."""
        self.ids = files
        rows = [self._row(place, path) for place, path in sorted(files.items(), key=lambda entry: entry[1])]
        self.resolver = Resolver(rows)
        self._documents = [row.document_id for row in rows]
        self._places = {document: place for place, document in enumerate(self._documents)}
        self._lines: dict[str, dict[int, list[Edge]]] = {}
        self._edges = {row.document_id: row.edges for row in rows}

    def meant(self, path: str, key: str) -> list[tuple[str, str, float]]:
        """The possible meanings of a name in a file: each one's document and key, and its share."""
        place, resolver = self._places[path], self.resolver
        found = [
            (resolver.definitions[one.definition], one.share)
            for one in resolver.meanings(resolver.found(key, place), place)
        ]
        return [(self._documents[entry.document], entry.key, share) for entry, share in found]

    @staticmethod
    def _row(place: str, path: str) -> DocumentRow:
        source = Path(place).read_bytes().decode("utf-8", "replace")
        edges = extract_edges(GraphDocument(path, path, None, None, "python", source, {}))
        return DocumentRow(path, path, None, None, edges)

    def references(self, place: str, first: int, last: int) -> list[Edge]:
        """References of a file on these lines."""
        path = self.ids[place]
        if path not in self._lines:
            lines: dict[int, list[Edge]] = {}
            for edge in self._edges[path]:
                if edge.type is EdgeType.REFERS_TO:
                    for line in edge.lines:
                        lines.setdefault(line, []).append(edge)
            self._lines[path] = lines
        found = self._lines[path]
        return list(dict.fromkeys(edge for line in range(first, last + 1) for edge in found.get(line, ())))

    def judge(self, pair: CallPair) -> Judged:
        """Look for the true target among the candidates of each reference in the calling expression."""
        path, wanted = self.ids[pair.caller_file], (self.ids[pair.file], pair.qualified_name)
        name = pair.qualified_name.rpartition(".")[2]
        edges = self.references(pair.caller_file, pair.first, pair.last)
        best: tuple[float, int, str] | None = None
        for edge in edges:
            for key in _asked(edge.target.key, name):
                found = self.meant(path, key)
                shares = [share for document, own, share in found if self._is(document, own, wanted)]
                if shares and (best is None or len(found) < best[1]):
                    best = max(shares), len(found), edge.origin.value
        written = {edge.target.key.rpartition(".")[2] for edge in edges}
        if name.startswith("__") and name.endswith("__") and name not in _MADE and name not in written:
            pair = pair._replace(way="operator")  # as `__getattr__` and `__hash__`: Python calls it, by no name
        if best is not None:
            return Judged(pair, best[1], best[0], best[2], "")
        return Judged(pair, 0, 0.0, "", self._reason(edges, name, path))

    def _is(self, document: str, key: str, wanted: tuple[str, str]) -> bool:
        return document == wanted[0] and key.endswith(f".{wanted[1]}")

    def _reason(self, edges: Iterable[Edge], name: str, path: str) -> str:
        if not edges:
            return "no reference there"
        named = [edge for edge in edges if edge.target.key.rpartition(".")[2] == name]
        if not named:
            return "made by a class" if name in _MADE else "another name is written"
        if all(not self.meant(path, edge.target.key) for edge in named):
            return "name has no definition here"
        if any(edge.origin is Origin.NAME for edge in named):
            return "not among those of the name"
        return "overridden, or another type"


def _asked(key: str, name: str) -> Iterator[str]:
    """The reference itself; of what makes an instance, what its class is made by."""
    last = key.rpartition(".")[2]
    if last == name or name not in _MADE:
        yield key
    if name in _MADE and last != name:
        yield f"{key}.{name}"


def _package(path: str) -> str:
    """The package or module of a file: `packages/rich`, `json`."""
    parts = path.split("/")
    return "/".join(parts[: 2 if parts[0] == "packages" else 1])


def sources() -> dict[str, str]:
    """All files that calls are recorded in, and their paths in the corpus."""
    found: dict[str, str] = {}
    for path in STANDARD.rglob("*.py"):
        if not {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}.intersection(path.parts):
            found[str(path)] = str(path.relative_to(STANDARD))
    for package in _PACKAGES:
        folder = INSTALLED / package
        for path in folder.rglob("*.py"):
            found[str(path)] = f"packages/{path.relative_to(INSTALLED)}"
    return found


def record(group: str, files: frozenset[str]) -> list[CallPair]:
    """What the group's programs call. One that fails is told and counts with what it did."""
    recorder = Recorder(files)
    for program in GROUPS[group]:
        with warnings.catch_warnings(), contextlib.suppress(SystemExit):
            warnings.simplefilter("ignore")
            try:
                with recorder.recording():
                    program()
            except Exception as problem:  # noqa: BLE001 - a program that fails counts with what it did
                print(f"{group}: {program.__name__}: {type(problem).__name__}: {problem}"[:300], file=sys.stderr)
    return sorted(recorder.pairs)


def report(group: str, judged: list[Judged]) -> str:
    """One row of the table: calls as they are written, and reads of properties."""
    written = [entry for entry in judged if entry.pair.way in ("call", "read")]
    found = [entry for entry in written if entry.candidates]
    counts = sorted(entry.candidates for entry in found) or [0]
    named = len(written) - sum(entry.reason in _UNNAMED for entry in written)
    few = sum(count <= 3 for count in counts) / max(1, len(written))
    share = statistics.fmean(entry.share for entry in written) if written else 0.0
    return (
        f"| {group} | {len(written):,} | {len(found) / max(1, len(written)):.3f} | "
        f"{len(found) / max(1, named):.3f} | {statistics.median(counts):g} | "
        f"{counts[int(len(counts) * 0.9) - 1]} | {few:.3f} | {share:.3f} |"
    )


def recorded(path: Path) -> tuple[Corpus, list[CallPair]]:
    """A tree, whole, and the calls that were recorded between its files."""
    read = json.loads(path.read_text("utf-8"))
    root = Path(read["root"])
    corpus = Corpus({place: str(Path(place).relative_to(root)) for place in tree_sources(root)})
    return corpus, [CallPair(*pair) for pair in read["pairs"]]


def judged_programs(groups: list[str]) -> dict[str, list[Judged]]:
    """Calls of the programs of these groups, in one corpus of the packages whose code ran."""
    files = sources()
    pairs = {group: record(group, frozenset(files)) for group in groups}
    ran = {
        _package(files[place]) for found in pairs.values() for pair in found for place in (pair.caller_file, pair.file)
    }
    corpus = Corpus({place: path for place, path in files.items() if _package(path) in ran})
    print(f"{len(corpus.ids):,} files: the packages whose code ran, whole")
    return {group: [corpus.judge(pair) for pair in found] for group, found in pairs.items()}


def explained(judged: list[Judged], misses: int) -> Iterator[str]:
    """How the calls divide by the way they are made, why some miss, and some of the misses."""
    ways = Counter(entry.pair.way for entry in judged)
    shares = {way: sum(e.candidates > 0 for e in judged if e.pair.way == way) / count for way, count in ways.items()}
    yield ", ".join(f"{way} {count} ({shares[way]:.2f} found)" for way, count in ways.items())
    written = [entry for entry in judged if entry.pair.way in ("call", "read") and not entry.candidates]
    yield "  misses: " + ", ".join(f"{why} {n}" for why, n in Counter(e.reason for e in written).most_common())
    origins = Counter(entry.origin for entry in judged if entry.candidates)
    yield "  found by: " + ", ".join(f"{origin} {count}" for origin, count in origins.most_common())
    for entry in written[:: max(1, len(written) // misses)][:misses] if misses else ():
        pair = entry.pair
        place = f"{pair.caller_file}:{pair.first}-{pair.last}"
        yield f"    {entry.reason}: {place} -> {pair.file}:{pair.line} {pair.qualified_name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []])
    parser.add_argument("--recorded", nargs="+", type=Path, default=[], help="files that bench.graph.record wrote")
    parser.add_argument("--misses", type=int, default=0, help="print so many misses of each group")
    options = parser.parse_args()
    os.environ.setdefault("TERM", "dumb")
    told: dict[str, list[Judged]] = {}
    if options.groups or not options.recorded:
        told = judged_programs(options.groups or list(GROUPS))
    for path in options.recorded:
        corpus, pairs = recorded(path)
        told[path.stem] = [corpus.judge(pair) for pair in pairs]
    told["all"] = [entry for judged in told.values() for entry in judged]
    print(
        "| | calls | true target found | of those by name | candidates: median | 90 % | found with ≤ 3 | its weight |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for group, judged in told.items():
        print(report(group, judged))
    for group, judged in told.items():
        print(f"{group}: " + "\n".join(explained(judged, options.misses)))


if __name__ == "__main__":
    main()
