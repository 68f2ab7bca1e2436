"""Who calls X, and which pages are about X? `python -m bench.graph.related TREE … [--work DIR]`.

A TREE is as for `bench.graph.linked`, and so are the truths: the calls that were recorded while its tests ran, and the
names that pages have in roles and blocks of code. Each tree is indexed, its graph published, and asked by `hybrid` and
`hybrid_graph`. Printed are recall@10 of the files that answer, and how often the first result is one of the answers:
for callers a passage with a line that calls it. Behind that the confidence of the first results, right and wrong.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from bench.graph.corpus import CORPUS, embedder_of, index_documents, publish_graph
from bench.graph.linked import PAGES, is_named, names_in
from bench.graph.recorder import CallPair
from bench.graph.trees import Tree
from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk, Strategy
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.minilm import MiniLM
from sluice.trust.settings import TrustSettings
from sluice.workers.steps.trusted import apply_trust, describe_question

A_KIND = 30
MOST_ANSWERS = 6
WORDINGS = {
    "callers": ("who calls {}?", "callers of {}", "where is {} called?"),
    "docs": ("docs about {}", "documentation of {}", "which page explains {}?"),
}


class Answer(NamedTuple):
    """A file, and its lines that answer; none: the whole file."""

    path: str
    lines: frozenset[int]

    def holds(self, chunk: RetrievedChunk) -> bool:
        """Whether a passage answers."""
        if chunk.file_path != self.path:
            return False
        return not self.lines or any(chunk.start_line <= line <= chunk.end_line for line in self.lines)


class Asked(NamedTuple):
    """A question of a kind, and its answers."""

    kind: str
    text: str
    answers: tuple[Answer, ...]


def questions_of(root: Path, seed: int = 5) -> Iterator[Asked]:
    """Draw questions of both kinds, always the same ones."""
    read = json.loads(root.with_suffix(".calls.json").read_text())
    base = Path(read["root"])
    calls: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for pair in (CallPair(*one) for one in read["pairs"]):
        caller, file = (Path(one).relative_to(base).as_posix() for one in (pair.caller_file, pair.file))
        name = pair.qualified_name
        if pair.way == "call" and not file.startswith("tests/") and "__" not in name:
            calls[name][caller].add(pair.first)
    known = _definitions(root)
    chosen = random.Random(seed)
    wordings = {kind: chosen.sample(range(10_000), A_KIND) for kind in WORDINGS}
    named = sorted(name for name in calls if known[name] == 1 and len(calls[name]) <= MOST_ANSWERS)
    for number, name in zip(wordings["callers"], chosen.sample(named, min(A_KIND, len(named))), strict=False):
        answers = tuple(Answer(f"{root.name}/{path}", frozenset(lines)) for path, lines in sorted(calls[name].items()))
        yield Asked("callers", WORDINGS["callers"][number % 3].format(name), answers)
    pages = {
        path.relative_to(root).as_posix(): names_in(path.read_text(errors="replace"))
        for path in sorted(root.rglob("*"))
        if path.suffix in PAGES
    }
    about: dict[str, list[str]] = {}
    for name in sorted(
        name for name, count in known.items() if count == 1 and not name.rpartition(".")[2].startswith("_")
    ):
        having = [page for page, names in pages.items() if is_named(name, names)]
        if 0 < len(having) <= MOST_ANSWERS and len(name) > 3:
            about[name] = having
    for number, name in zip(wordings["docs"], chosen.sample(sorted(about), min(A_KIND, len(about))), strict=False):
        answers = tuple(Answer(f"{root.name}/{path}", frozenset()) for path in about[name])
        yield Asked("docs", WORDINGS["docs"][number % 3].format(name), answers)


def _definitions(root: Path) -> Counter[str]:
    """Functions and classes at the top and methods of the package, by their names within the module."""
    found: Counter[str] = Counter()
    for path in root.rglob("*.py"):
        if "tests" in path.parts or "examples" in path.parts or "docs" in path.parts:
            continue
        for node in ast.parse(path.read_text(errors="replace")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] += 1
            if isinstance(node, ast.ClassDef):
                found.update(f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef))
    return found


class Judged(NamedTuple):
    """The result of one question: recall@10, whether the first result answers, and how sure it says to be."""

    kind: str
    recall: float
    is_first: bool
    confidence: float


def ask(root: Path, work: Path, strategies: Sequence[Strategy]) -> Iterator[tuple[Strategy, list[Judged]]]:
    """Ask a tree's questions by each strategy."""
    embedder = embedder_of(work / "embeddings.sqlite")
    model = embedder.model_of(embedder.fingerprint)
    assert isinstance(model, MiniLM)
    index, graph = work / "index" / root.name, work / "graph" / root.name
    if not (index / "complete").exists():
        shutil.rmtree(index, ignore_errors=True)
        tree = Tree(root.name, root, (".",), (".py", ".toml", *PAGES), prefix=f"{root.name}/")
        index_documents(index, list(tree.documents()), embedder)
        (index / "complete").touch()
    shutil.rmtree(graph, ignore_errors=True)
    reader = IndexReader(index, CORPUS, QuerySettings(), graph=publish_graph(index, graph))
    asked = list(questions_of(root))
    vectors = embedder.embed([one.text for one in asked]).vectors
    match = lambda question, passage, fingerprint: model.match_tokens(question, passage)  # noqa: E731
    for strategy in strategies:
        judged = []
        for one, vector in zip(asked, vectors, strict=True):
            query = Query(query=one.text, corpus=CORPUS, top_k=10, strategy=strategy)
            found = reader.search(query, vector)
            described = describe_question(query, found, reader.stats(), reader.document_frequency, match)
            judged.append(judge(one, apply_trust(found, query, TrustSettings(), described)))
        yield strategy, judged
    reader.close()


def judge(one: Asked, found: Retrieval) -> Judged:
    """Judge the first ten results of a question."""
    recall = fmean(any(answer.holds(chunk) for chunk in found.chunks[:10]) for answer in one.answers)
    first = found.chunks[0] if found.chunks else None
    is_first = first is not None and any(answer.holds(first) for answer in one.answers)
    return Judged(one.kind, recall, is_first, (first.confidence or 0.0) if first else 0.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.graph.related", description=__doc__)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/tmp/sluice-bench-graph"))
    options = parser.parse_args()
    for root in options.trees:
        for strategy, judged in ask(root, options.work, (Strategy.HYBRID, Strategy.HYBRID_GRAPH)):
            for kind in WORDINGS:
                own = [one for one in judged if one.kind == kind]
                right, wrong = (
                    [one.confidence for one in own if one.is_first is is_first] for is_first in (True, False)
                )
                print(
                    f"{root.name:<14}{strategy:<14}{kind:<9}{len(own):>4}"
                    f" recall@10 {fmean(one.recall for one in own):.3f}"
                    f"  first right {fmean(one.is_first for one in own):.3f}"
                    f"  confidence of it: right {fmean(right or [0]):.2f}, wrong {fmean(wrong or [0]):.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
