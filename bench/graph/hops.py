"""Does the graph find what is a step away? `python -m bench.graph.hops [TREE ...] [--work DIR] [--a-kind N]`.

Each tree is made a corpus of its own with its graph, in this process, and is asked its questions by `hybrid` and by
`hybrid_graph`. Printed is recall@10 by kind of question: the share of the answers of which a passage is among the first
ten. The interval of the difference is of the paired bootstrap, 95 %. `--weights` prints it for other graph_weights.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from bench.graph.corpus import CORPUS, embedder_of, index_documents, publish_graph
from bench.graph.questions import KINDS, QUESTIONS_A_KIND, Question, make_questions
from bench.graph.trees import TREES, Tree, tree_named
from contracts.graph.retrieval import GraphArm
from contracts.retrieval import Query, RetrievedChunk, Strategy
from evaluation.retrieval.significance import bootstrap_interval
from index.local.reader import IndexReader
from index.settings import QuerySettings
from ingest.embed.cache import CachedEmbedder

TOP_K = 10
WORK = Path("/tmp/sluice-bench-graph")


class Recall(NamedTuple):
    """What one question found of its answers by each strategy, and whether the graph abstained."""

    kind: str
    hybrid: float
    graph: float
    abstained: bool
    graph_ms: float


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    embedder = embedder_of(arguments.work / "embeddings.sqlite")
    weights = arguments.weights or [QuerySettings().graph_weight]
    print(f"{'tree':<14}{'kind':<18}{'weight':>7}{'count':>7}{'hybrid':>8}{'graph':>8}{'difference':>11}   interval")
    for name in arguments.tree or [tree.name for tree in TREES]:
        tree = tree_named(name)
        if not tree.paths():
            print(f"{name:<14}skipped, it is not on this machine")
            continue
        arm = prepare(tree, arguments.work, embedder)
        questions = make_questions(tree, arguments.a_kind)
        for weight in weights:
            found = list(ask(tree, arguments.work / "index" / name, questions, embedder, arm, weight))
            for line in report(name, weight, found):
                print(line, flush=True)


def prepare(tree: Tree, work: Path, embedder: CachedEmbedder) -> GraphArm:
    """The tree as a corpus, and what walks its graph. A corpus that is there is taken as it is."""
    root = work / "index" / tree.name
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        index_documents(root, list(tree.documents()), embedder)
        (root / "complete").touch()
    folder = work / "graph" / tree.name
    shutil.rmtree(folder, ignore_errors=True)
    return publish_graph(root, folder)


def ask(
    tree: Tree, root: Path, questions: Sequence[Question], embedder: CachedEmbedder, arm: GraphArm, weight: float
) -> Iterator[Recall]:
    """Ask each question by both strategies."""
    settings = QuerySettings(graph_weight=weight)
    reader = IndexReader(root, CORPUS, settings, graph=arm)
    try:
        vectors = embedder.embed([question.text for question in questions]).vectors
        for question, vector in zip(questions, vectors, strict=True):
            plain, found = (
                reader.search(Query(query=question.text, corpus=CORPUS, top_k=TOP_K, strategy=strategy), vector)
                for strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH)
            )
            use = found.metadata.graph
            yield Recall(
                question.kind,
                recall(question, plain.chunks, tree.prefix),
                recall(question, found.chunks, tree.prefix),
                bool(use and use.abstained),
                use.duration_ms if use else 0.0,
            )
    finally:
        reader.close()


def recall(question: Question, found: Sequence[RetrievedChunk], prefix: str) -> float:
    """The share of the answers of which a passage is among the results."""
    return fmean(
        any(
            chunk.file_path == prefix + place.path and chunk.start_line <= place.end and chunk.end_line >= place.start
            for chunk in found
        )
        for place in question.answers
    )


def report(name: str, weight: float, found: Sequence[Recall]) -> Iterator[str]:
    """A line for each kind, and one for all."""
    for kind in (*KINDS, "all"):
        own = [one for one in found if kind in (one.kind, "all")]
        if not own:
            continue
        differences = np.array([[one.graph - one.hybrid] for one in own])
        low, high = bootstrap_interval(differences)
        yield (
            f"{name:<14}{kind:<18}{weight:>7.3f}{len(own):>7}{fmean(one.hybrid for one in own):>8.3f}"
            f"{fmean(one.graph for one in own):>8.3f}{differences.mean():>+11.3f}   {low[0]:+.3f} … {high[0]:+.3f}"
        )
    abstained = sum(one.abstained for one in found)
    slowest = np.quantile([one.graph_ms for one in found], (0.5, 0.95))
    yield f"{name:<14}abstained {abstained} of {len(found)}; walk p50 {slowest[0]:.1f} ms, p95 {slowest[1]:.1f} ms"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.graph.hops", description="Recall of what is a step away.")
    parser.add_argument("tree", nargs="*", help=f"of {', '.join(tree.name for tree in TREES)} (default all)")
    parser.add_argument("--work", type=Path, default=WORK, help="where corpora, graphs and vectors are kept")
    parser.add_argument("--a-kind", type=int, default=QUESTIONS_A_KIND, help="questions of each kind and tree")
    parser.add_argument("--weights", type=float, nargs="*", help="graph_weights to measure (default: the settings')")
    return parser.parse_args()


if __name__ == "__main__":
    main()
