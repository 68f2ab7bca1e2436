"""Does the graph find what is a step away? `python -m bench.graph.hops [TREE ...] [--asked] [--work DIR] [--a-kind N]`.

Each tree is made a corpus of its own with its graph, in this process, and is asked its questions by `hybrid` and by
`hybrid_graph`. Printed is recall@10 by kind of question: the share of the answers of which a passage is among the first
ten; with the interval of its difference (paired bootstrap, 95 %), and behind it recall@1 and nDCG@10 of both.
`--asked` takes the trees of `bench.graph.fetched` and the questions of `bench.graph.asked`, which are worded in many
ways. `--weights` prints it for other graph_weights.
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from bench.graph.asked import Asked, make_asked
from bench.graph.corpus import CORPUS, embedder_of, index_documents, publish_graph
from bench.graph.fetched import ASKED_TREES
from bench.graph.questions import QUESTIONS_A_KIND, Question, make_questions
from bench.graph.trees import TREES, Tree
from bench.graph.truth import Definition
from sluice.contracts.graph.model import GraphArm
from sluice.contracts.retrieval import Query, RetrievedChunk, Strategy
from sluice.evaluation.retrieval.measures import bootstrap_interval
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.cache import CachedEmbedder

TOP_K = 10
WORK = Path("/tmp/sluice-bench-graph")


class Scores(NamedTuple):
    """Of one list of results: recall@10 and recall@1 of the answers, nDCG@10."""

    recall: float
    first: float
    ndcg: float


class Compared(NamedTuple):
    """What one question found of its answers by each strategy, and whether the graph abstained."""

    kind: str
    hybrid: Scores
    graph: Scores
    abstained: bool
    graph_ms: float


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    embedder = embedder_of(arguments.work / "embeddings.sqlite")
    weights = arguments.weights or [QuerySettings().graph_weight]
    trees = {tree.name: tree for tree in (ASKED_TREES if arguments.asked else TREES)}
    print(
        f"{'tree':<12}{'kind':<24}{'weight':>7}{'count':>6}{'hybrid':>8}{'graph':>7}{'differs':>8}   interval", end=""
    )
    print(f"{'recall@1':>26}{'nDCG@10':>16}")
    for name in arguments.tree or trees:
        tree = trees[name]
        if not tree.paths():
            print(f"{name:<12}skipped, it is not on this machine")
            continue
        arm = prepare(tree, arguments.work, embedder)
        questions = make_asked(tree, arguments.a_kind) if arguments.asked else make_questions(tree, arguments.a_kind)
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
    tree: Tree,
    root: Path,
    questions: Sequence[Question | Asked],
    embedder: CachedEmbedder,
    arm: GraphArm,
    weight: float,
) -> Iterator[Compared]:
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
            yield Compared(
                question.kind,
                scores(question.answers, plain.chunks, tree.prefix),
                scores(question.answers, found.chunks, tree.prefix),
                bool(use and use.abstained),
                use.duration_ms if use else 0.0,
            )
    finally:
        reader.close()


def scores(answers: Sequence[Definition], found: Sequence[RetrievedChunk], prefix: str = "") -> Scores:
    """How well the answers are found; each counts once, at its first passage (Järvelin and Kekäläinen, TOIS 2002)."""
    places = [
        next((place for place, chunk in enumerate(found[:TOP_K]) if _is_of(chunk, answer, prefix)), None)
        for answer in answers
    ]
    gain = sum(1 / math.log2(place + 2) for place in places if place is not None)
    best = sum(1 / math.log2(place + 2) for place in range(min(TOP_K, len(answers))))
    return Scores(fmean(place is not None for place in places), fmean(place == 0 for place in places), gain / best)


def _is_of(chunk: RetrievedChunk, answer: Definition, prefix: str) -> bool:
    return chunk.file_path == prefix + answer.path and chunk.start_line <= answer.end and chunk.end_line >= answer.start


def report(name: str, weight: float, found: Sequence[Compared]) -> Iterator[str]:
    """A line for each kind, one for all that need a hop, and one for those that need none."""
    groups = {kind: [one for one in found if one.kind == kind] for kind in dict.fromkeys(one.kind for one in found)}
    groups["all with a hop"] = [one for one in found if not one.kind.startswith("direct")]
    groups["all direct"] = [one for one in found if one.kind.startswith("direct")]
    for kind, own in groups.items():
        if not own:
            continue
        differences = np.array([[one.graph.recall - one.hybrid.recall] for one in own])
        low, high = bootstrap_interval(differences)
        before, after = (Scores(*np.mean([one[place] for one in own], axis=0)) for place in (1, 2))
        yield (
            f"{name:<12}{kind:<24}{weight:>7.2f}{len(own):>6}{before.recall:>8.3f}{after.recall:>7.3f}"
            f"{differences.mean():>+8.3f}   {low[0]:+.3f} … {high[0]:+.3f}"
            f"{before.first:>10.3f}{after.first:>7.3f}{before.ndcg:>9.3f}{after.ndcg:>7.3f}"
        )
    abstained = sum(one.abstained for one in found)
    slowest = np.quantile([one.graph_ms for one in found], (0.5, 0.95))
    yield f"{name:<12}abstained {abstained} of {len(found)}; walk p50 {slowest[0]:.1f} ms, p95 {slowest[1]:.1f} ms"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.graph.hops", description="Recall of what is a step away.")
    parser.add_argument("tree", nargs="*", help="trees by name (default all)")
    parser.add_argument("--asked", action="store_true", help="ask differently worded questions, of other trees")
    parser.add_argument("--work", type=Path, default=WORK, help="where corpora, graphs and vectors are kept")
    parser.add_argument("--a-kind", type=int, default=QUESTIONS_A_KIND, help="questions of each kind and tree")
    parser.add_argument("--weights", type=float, nargs="*", help="graph_weights to measure (default: the settings')")
    return parser.parse_args()


if __name__ == "__main__":
    main()
