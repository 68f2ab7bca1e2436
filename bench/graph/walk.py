"""What folding and walking a graph take of a processor, and how near a walk comes to exact personalised PageRank.

    python -m bench.graph.walk [TREE ...] [--documents 10000] [--edges 300000] [--rounds 200]

Without a TREE it is a made-up graph: 10,000 documents, 90,000 definitions, 300,000 edges, of which a few names get
most. A TREE is a folder, whose files are read as `sluice index` reads a repository.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sluice.contracts.graph.model import (
    DocumentRow,
    Edge,
    EdgeType,
    GraphDocument,
    GraphHit,
    Origin,
    document_node,
    symbol,
    unknown,
)
from sluice.graph.arm import Arm
from sluice.graph.extract.extract import extract_edges
from sluice.graph.generations.publish import FILE, current, open_generation, publish
from sluice.graph.generations.view import GraphView
from sluice.graph.walk import push as pushing
from sluice.graph.walk.push import RESTART, Seeds, push
from sluice.graph.walk.seeds import seeds_of
from sluice.index.search.graph_reach import HITS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LANGUAGES = {".py": "python", ".js": "javascript", ".go": "go", ".rs": "rust", ".java": "java", ".c": "c", ".h": "c"}
MOST_BYTES = 1_000_000
QUESTIONS = ("", "which tests cover the code that does this?", "callers of module7.name3_7")


def made_rows(documents: int, edges: int, seed: int = 19) -> list[DocumentRow]:
    """A made-up corpus: nine functions a file; references go to a few names most often, a third by the name alone."""
    chosen = random.Random(seed)
    names = [(file, number) for file in range(documents) for number in range(9)]
    popular = [names[int(len(names) * chosen.random() ** 4)] for _ in range(50_000)]
    references = max(0, edges - 2 * len(names)) // documents + 1
    rows = []
    for file in range(documents):
        module, node = f"package{file // 100}.module{file}", document_node(f"{file:06}")
        found: dict[tuple[str, Origin], set[int]] = {}
        stated = [Edge(EdgeType.DEFINED_IN, symbol("python", module), node, Origin.DEFINITION, (), "module")]
        for number in range(9):
            lines = (20 * number + 1, 20 * number + 18)
            for key in (
                symbol("python", f"{module}.name{number}_{file % 500}"),
                unknown("python", f"name{number}_{file % 500}"),
            ):
                stated.append(Edge(EdgeType.DEFINED_IN, key, node, Origin.DEFINITION, lines, "function"))
        for _ in range(references):
            other, number = chosen.choice(popular)
            is_known = chosen.random() < 0.66
            holder = f"package{other // 100}.module{other}" if is_known else "?"
            key = f"{holder}.name{number}_{other % 500}", Origin.IMPORT if is_known else Origin.NAME
            found.setdefault(key, set()).add(chosen.randint(1, 180))
        stated += [
            Edge(EdgeType.REFERS_TO, node, symbol("python", name), origin, tuple(sorted(lines)))
            for (name, origin), lines in found.items()
        ]
        rows.append(DocumentRow(f"{file:06}", f"{module.replace('.', '/')}.py", None, None, tuple(sorted(stated))))
    return rows


def read_rows(tree: Path) -> Iterator[DocumentRow]:
    """The files of a folder, as documents of a graph whose ids are their paths."""
    for path in sorted(tree.rglob("*")):
        if path.suffix not in {*LANGUAGES, ".md", ".rst"} or not path.is_file() or path.stat().st_size > MOST_BYTES:
            continue
        name = path.relative_to(tree).as_posix()
        text = path.read_text(errors="replace")
        document = GraphDocument(name, name, None, None, LANGUAGES.get(path.suffix), text, {})
        yield DocumentRow(name, name, None, None, extract_edges(document))


def exact(view: GraphView, seeds: Seeds, rounds: int = 60) -> np.ndarray:
    """Personalised PageRank by power iteration over all vertices."""
    sources = np.repeat(np.arange(view.vertices), np.diff(view.step_offsets))
    start = np.bincount(seeds.vertices, seeds.weights, minlength=view.vertices)
    rank = start * RESTART
    flowing = start
    for _ in range(rounds):
        flowing = (1 - RESTART) * np.bincount(
            view.step_targets, flowing[sources] * view.step_shares, minlength=view.vertices
        )
        rank = rank + RESTART * flowing
    return rank


def overlap(view: GraphView, walked: pushing.Walked, seeds: Seeds, count: int) -> float:
    """The share of the exact result's first vertices that a walk has among its own first ones."""
    rank = exact(view, seeds)
    wanted = [vertex for vertex in np.argsort(-rank, kind="stable")[:count].tolist() if rank[vertex] > 0]
    order = np.lexsort((walked.vertices, -walked.scores))[: len(wanted)]
    return len(set(walked.vertices[order].tolist()) & set(wanted)) / max(1, len(wanted))


def milliseconds(work: Callable[[], object]) -> float:
    """How much of a processor one call takes: others use the machine, too."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def told(name: str, rows: list[DocumentRow], rounds: int) -> None:
    """Fold rows and walk from random passages; print the figures."""
    chosen = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        generation = publish(root, rows, [], version=1, now=NOW, seconds=time.process_time)
        size = (root / generation.name / FILE).stat().st_size
        print(f"\n{name}: {generation.documents:,} documents, {generation.nodes:,} nodes, {generation.edges:,} edges, ")
        print(f"  {generation.definitions:,} definitions, {generation.steps:,} steps, {size / 1e6:.1f} MB")
        print(f"  folded and published in {generation.seconds:.1f} s, opened in ", end="")
        print(f"{milliseconds(lambda: open_generation(root, current(root) or generation)):.0f} ms")
        view = open_generation(root, generation)
        arm = Arm(root)
        lasts = [max([*edge.lines, 1]) for row in rows for edge in row.edges[-1:]]
        passages = list(zip((row.document_id for row in rows), lasts, strict=True))
        asked = []
        for _ in range(rounds):
            hits = []
            for document_id, last in chosen.sample(passages, min(HITS, len(passages))):
                first = chosen.randint(1, max(1, last - 20))
                hits.append(GraphHit(document_id, first, first + 40, 1.0))
            asked.append(hits)
        for hits in asked[:5]:
            arm.expand("", hits)
        for question in QUESTIONS:
            times = sorted(milliseconds(lambda hits=hits, text=question: arm.expand(text, hits)) for hits in asked)
            print(
                f"  expand {question!r}: p50 {statistics.median(times):.2f} ms, "
                f"p95 {times[int(len(times) * 0.95)]:.2f}, max {times[-1]:.2f}"
            )
        spent = statistics.median(milliseconds(lambda hits=hits: seeds_of(view, "", hits)) for hits in asked)
        seeds = [found for hits in asked if len((found := seeds_of(view, "", hits).seeds).vertices)]
        print(f"  seeds: p50 {spent:.2f} ms")
        usual = pushing.MOST_ROUNDS
        for rounds_at_most in (2, 4, 6, 12):
            pushing.MOST_ROUNDS = rounds_at_most
            spent = sorted(milliseconds(lambda found=found: push(view, found)) for found in seeds)
            same = statistics.mean(overlap(view, push(view, found), found, 50) for found in seeds[:20])
            steps = statistics.median(push(view, found).steps for found in seeds)
            print(
                f"  push, {rounds_at_most} rounds: p50 {statistics.median(spent):.2f} ms, max {spent[-1]:.2f}, "
                f"{steps:.0f} steps, of the exact first 50: {same:.3f}"
            )
        pushing.MOST_ROUNDS = usual
    print(f"  largest memory of the process so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    if not given.trees:
        told("made up", made_rows(given.documents, given.edges), given.rounds)
    for tree in given.trees:
        began = time.perf_counter()
        rows = list(read_rows(tree))
        print(f"\nread {len(rows)} files in {time.perf_counter() - began:.1f} s")
        told(str(tree), rows, given.rounds)


if __name__ == "__main__":
    main()
