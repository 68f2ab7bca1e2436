"""Does the graph cost anything where no hop is asked for? `python -m bench.graph.no_loss [DATA_DIR] [--sets a,b]`.

Questions with one answer, which the words and vectors find: by `hybrid` and by `hybrid_graph`, over collections in BEIR
form. Each is indexed as `sluice eval` does it, and `cosqa_dev` once more as files of Python, each function in a file of
its own, where the graph has more to say. Printed are nDCG@10 and recall@10 and the difference with the interval of the
paired bootstrap; it ends with 1 where a mean is lower by more than 0.002.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.graph.corpus import CORPUS, embedder_of, index_documents, publish_graph
from bench.graph.hops import WORK
from sluice.contracts.document import Document, Provenance
from sluice.contracts.graph.model import GraphArm
from sluice.contracts.retrieval import Query, Retrieval, Strategy
from sluice.evaluation.retrieval.cases import Case, read_documents, read_questions
from sluice.evaluation.retrieval.measures import bootstrap_interval
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.cache import CachedEmbedder
from tests.support.repository import DATA

SETS = ("cosqa_dev", "squad20_dev", "scifact_train", "cacm", "npl", "cosqa_dev as files")
AS_FILES = " as files"
TOP_K = 10
MOST_LOST = 0.002
MOST_QUESTIONS = 1_000
"""Of a collection: SQuAD has six times as many, and they differ little."""
_PROVENANCE = Provenance(source="file", fetched_at=datetime(2026, 1, 1, tzinfo=UTC))


class Measured(NamedTuple):
    """nDCG@10 and recall@10 of one question by each strategy, and whether the graph added to the candidates."""

    hybrid: tuple[float, float]
    graph: tuple[float, float]
    added: bool


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    embedder = embedder_of(arguments.work / "sets.sqlite", arguments.precision)
    weights = arguments.weights or [QuerySettings().graph_weight]
    lost = False
    print(f"{'collection':<22}{'weight':>7}{'asked':>7}{'added':>7}  nDCG@10, recall@10: hybrid, difference, interval")
    for name in arguments.sets.split(",") if arguments.sets else SETS:
        folder = arguments.data / name.removesuffix(AS_FILES)
        if not folder.is_dir():
            print(f"{name:<22}skipped, not in {arguments.data}")
            continue
        cases = [case for case in read_questions(folder).cases if case.answers]
        cases = cases[:: max(1, math.ceil(len(cases) / MOST_QUESTIONS))]
        arm = prepare(name, folder, arguments.work, embedder, arguments.documents)
        for weight in weights:
            found = list(ask(arguments.work / "index" / name, cases, embedder, arm, weight))
            differences = np.array([one.graph for one in found]) - np.array([one.hybrid for one in found])
            low, high = bootstrap_interval(differences)
            before = np.mean([one.hybrid for one in found], axis=0)
            told = [
                f"{before[place]:.4f} {differences[:, place].mean():+.4f} ({low[place]:+.4f} … {high[place]:+.4f})"
                for place in (0, 1)
            ]
            added = sum(one.added for one in found)
            print(f"{name:<22}{weight:>7.3f}{len(found):>7}{added:>7}  {'   '.join(told)}", flush=True)
            lost |= bool((differences.mean(axis=0) < -MOST_LOST).any())
    return int(lost)


def prepare(name: str, folder: Path, work: Path, embedder: CachedEmbedder, most: int) -> GraphArm:
    """The collection as a corpus, and what walks its graph. A corpus that is there is taken as it is."""
    root, graph = work / "index" / name, work / "graph" / name
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        index_documents(root, list(documents(folder, most, as_files=name.endswith(AS_FILES))), embedder)
        (root / "complete").touch()
    shutil.rmtree(graph, ignore_errors=True)
    return publish_graph(root, graph)


def documents(folder: Path, most: int, *, as_files: bool) -> Iterator[Document]:
    """The documents of a collection, all that answer and at most so many others: plain texts, or files of Python."""
    answers = {str(name) for case in read_questions(folder).cases for name in case.relevant}
    for one in read_documents(folder):
        if str(one.id) not in answers:
            most -= 1
            if most < 0:
                continue
        title, text = one.title or None, str(one.text)
        if text.strip() or title:
            yield Document(
                id=str(one.id),
                title=None if as_files else title,
                media_type="text/x-python" if as_files else "text/plain",
                text=text if text.strip() else title,
                file_path=_path(text, str(one.id)) if as_files else None,
                provenance=_PROVENANCE,
            )


def _path(text: str, name: str) -> str:
    """Where a repository would have a function: in a folder of its area, in a file that is named for it."""
    found = re.search(r"(?:def|class)\s+(\w+)", text)
    whole = found[1].strip("_") if found else "snippet"
    return f"lib/{whole.partition('_')[0].lower()}/{whole}_{name}.py"


def ask(
    root: Path, cases: Sequence[Case], embedder: CachedEmbedder, arm: GraphArm, weight: float
) -> Iterator[Measured]:
    """Ask each question by both strategies."""
    reader = IndexReader(root, CORPUS, QuerySettings(graph_weight=weight), graph=arm)
    try:
        vectors = embedder.embed([case.query for case in cases]).vectors
        for case, vector in zip(cases, vectors, strict=True):
            plain, found = (
                reader.search(Query(query=case.query, corpus=CORPUS, top_k=2 * TOP_K, strategy=strategy), vector)
                for strategy in (Strategy.HYBRID, Strategy.HYBRID_GRAPH)
            )
            use = found.metadata.graph
            yield Measured(measure(case, plain), measure(case, found), bool(use and use.candidates))
    finally:
        reader.close()


def measure(case: Case, found: Retrieval) -> tuple[float, float]:
    """nDCG@10 and recall@10 of the documents, each at its best passage (Järvelin and Kekäläinen, TOIS 2002)."""
    ranked = list(dict.fromkeys(chunk.document_id for chunk in found.chunks))[:TOP_K]
    gains = {str(name): grade for name, grade in case.relevant.items() if grade > 0}
    ideal = sorted(gains.values(), reverse=True)[:TOP_K]
    best = sum(grade / math.log2(place + 2) for place, grade in enumerate(ideal))
    got = sum(gains.get(name, 0) / math.log2(place + 2) for place, name in enumerate(ranked))
    return got / best, sum(name in gains for name in ranked) / len(gains)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.graph.no_loss", description="What the graph costs plain questions.")
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="folder of the collections")
    parser.add_argument("--sets", help=f"of {', '.join(SETS)}, by commas (default all)")
    parser.add_argument("--work", type=Path, default=WORK, help="where corpora, graphs and vectors are kept")
    parser.add_argument("--documents", type=int, default=1_000_000, help="of a collection, besides those that answer")
    parser.add_argument("--weights", type=float, nargs="*", help="graph_weights to measure (default: the settings')")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="int8", help="of the local model")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
