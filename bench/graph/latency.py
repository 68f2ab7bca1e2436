"""How much longer does a search take that walks the graph? `python -m bench.graph.latency [--megabytes N] [--work DIR]`

One corpus in this process: files of the standard library, and then of installed packages, `--megabytes` of them. Its
vectors are made of hashed words, as a core embeds so many chunks in an hour: chunks that share words are near, and a
search does the same work over them as over a model's. Questions are first lines of docstrings, and every second asks
what uses a definition. Each is asked by `hybrid` and by `hybrid_graph` in turn, `ROUNDS` times; the shortest time of
each counts, as others use the machine too. Printed are times of the thread and of the clock: p50 of each strategy, p50
and p95 of the difference by question.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sysconfig
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.append_documents import append_documents
from bench.graph.corpus import CORPUS, publish_graph
from bench.graph.trees import Tree
from sluice.contracts.document import Document
from sluice.contracts.graph.model import GraphArm
from sluice.contracts.retrieval import Query, Strategy
from sluice.graph.arm import Arm
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.port import Embedded, Vectors

DIMENSION = 384
ROUNDS = 5
_WORD = re.compile(r"[^\W\d_]{2,}")
_DEFINITION = re.compile(r'(?:def|class) (?P<name>\w{4,})\b[^\n]*(?:\n[^\n"]*){0,4}?\n\s+r?"""(?P<said>[^\n"]{20,120})')
_PATHS = sysconfig.get_paths()


class HashedWords:
    """Embeds a text as the sum of a fixed random direction for each of its words, each word once."""

    fingerprint = "hashed-words"
    dimension = DIMENSION

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """As `Embedder.embed`."""
        return Embedded(np.stack([self._vector(text) for text in texts]), self.fingerprint, tokens=0)

    def __init__(self) -> None:
        self._directions: dict[str, Vectors] = {}

    def _vector(self, text: str) -> Vectors:
        total = np.sum([self._direction(word) for word in sorted(set(_WORD.findall(text.lower())))] or [[1.0]], axis=0)
        vector: Vectors = np.broadcast_to(total / np.linalg.norm(total), DIMENSION).astype(np.float32)
        return vector / np.linalg.norm(vector)

    def _direction(self, word: str) -> Vectors:
        if word not in self._directions:
            generator = np.random.default_rng(zlib.crc32(word.encode()))
            self._directions[word] = generator.standard_normal(DIMENSION).astype(np.float32)
        return self._directions[word]


def trees() -> Iterator[Tree]:
    """The standard library, and each installed package."""
    library, packages = Path(_PATHS["stdlib"]), Path(_PATHS["purelib"])
    parts = tuple(sorted(path.name for path in library.iterdir() if path.name not in ("site-packages", "test")))
    yield Tree("library", library, parts, prefix="library/")
    for package in sorted(path for path in packages.iterdir() if (path / "__init__.py").exists()):
        yield Tree(package.name, packages, (package.name,), suffixes=(".py", ".md"))


def documents(megabytes: float) -> list[Document]:
    """Of the trees in their order, so many that their texts are that large."""
    found: list[Document] = []
    for tree in trees():
        found += tree.documents()
        if sum(len(one.text or "") for one in found) >= megabytes * 1e6:
            break
    return found


def measure(reader: IndexReader, questions: Sequence[str], clock: Callable[[], float]) -> list[tuple[float, float]]:
    """Milliseconds of each question by `hybrid` and by `hybrid_graph`."""
    embedder, found = HashedWords(), []
    for text, vector in zip(questions, embedder.embed(questions).vectors, strict=True):
        taken: dict[Strategy, list[float]] = {Strategy.HYBRID: [], Strategy.HYBRID_GRAPH: []}
        for _ in range(ROUNDS):
            for strategy, times in taken.items():
                query = Query(query=text, corpus=CORPUS, top_k=10, strategy=strategy)
                began = clock()
                reader.search(query, vector)
                times.append((clock() - began) * 1e3)
        found.append((min(taken[Strategy.HYBRID]), min(taken[Strategy.HYBRID_GRAPH])))
    return found


def prepare(work: Path, megabytes: float) -> GraphArm:
    """The corpus below `work`, which is taken as it is where it is there, and what walks its graph."""
    root, folder = work / "index", work / "graph"
    if not (root / "complete").exists():
        with IndexWriter(root, CORPUS) as writer:
            append_documents(writer, documents(megabytes), HashedWords())
        publish_graph(root, folder)
        (root / "complete").touch()
    return Arm(folder)


def make_questions(reader: IndexReader, count: int) -> list[str]:
    """For definitions that are drawn: what their docstrings say, and, of every second, who uses them."""
    chosen = random.Random(19)
    ids = sorted(facts.document_id for facts in reader.all_facts())
    found: list[str] = []
    while len(found) < count:
        text = "\n".join(chunk.text for chunk in reader.chunks(chosen.choice(ids)))
        said = [(match["name"], match["said"]) for match in _DEFINITION.finditer(text)]
        if said:
            name, told = chosen.choice(said)
            found.append(f"what uses {name}" if len(found) % 2 else told)
    return found


def report(name: str, found: Sequence[tuple[float, float]]) -> str:
    """One line of figures."""
    differences = sorted(graph - plain for plain, graph in found)
    plain, graph = (statistics.median(values) for values in zip(*found, strict=True))
    return (
        f"{name:<8} hybrid p50 {plain:.2f} ms, hybrid_graph {graph:.2f}, difference p50 "
        f"{statistics.median(differences):.2f}, p95 {differences[int(0.95 * len(differences))]:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=30.0)
    parser.add_argument("--work", type=Path, default=Path("/tmp/sluice-bench-graph/latency"))
    parser.add_argument("--questions", type=int, default=300)
    given = parser.parse_args()
    arm = prepare(given.work, given.megabytes)
    reader = IndexReader(given.work / "index", CORPUS, QuerySettings(), graph=arm)
    texts = make_questions(reader, given.questions)
    view = arm.view()[0] if isinstance(arm, Arm) else None
    assert view is not None, "the graph was published"
    print(
        f"{reader.document_count:,} documents, {reader.chunk_count:,} chunks; graph: {view.nodes:,} nodes, "
        f"{view.definitions:,} definitions, {view.edges:,} edges; {len(texts)} questions"
    )
    used = [_use(reader, text) for text in texts]
    print(f"the graph led somewhere for {sum(used)} of them")
    for name, clock in (("thread", time.thread_time), ("clock", time.perf_counter)):
        print(report(name, measure(reader, texts, clock)))
    reader.close()


def _use(reader: IndexReader, question: str) -> bool:
    vector = HashedWords().embed([question]).vectors[0]
    query = Query(query=question, corpus=CORPUS, top_k=10, strategy=Strategy.HYBRID_GRAPH)
    use = reader.search(query, vector).metadata.graph
    return use is not None and not use.abstained


if __name__ == "__main__":
    main()
