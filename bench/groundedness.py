"""How well support by sentences (`evaluation.ragas.bridge`) agrees with labels, and which floors it should have.

    python -m bench.groundedness DATA_DIR [--work DIR]

A statement is put before passages that hold it, and before those of the most similar statement that has others: it
should be supported by the first alone. The floors are chosen on SciFact's claims, by the balanced accuracy, and checked
on Climate-FEVER's and on edited sentences of CondaQA, which no choice sees. CondaQA's sentences that were turned round
show the limit of the measure: they have nearly the words and the vector of the sentence that they deny.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sluice.disk.durable import read_objects
from sluice.evaluation.ragas import bridge as support
from sluice.evaluation.ragas.bridge import SentenceSupport, find_support
from sluice.evaluation.retrieval.cases import read_documents, read_questions
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from sluice.text.words import cut_sentences
from tests.support.repository import MODELS

STATEMENTS = 250
"""Of each collection."""
GRID = [round(0.3 + 0.05 * step, 2) for step in range(12)]
CHOSEN_ON = "scifact_train"


class Case(NamedTuple):
    """A statement, passages, and whether they hold it."""

    kind: str
    statement: str
    passages: tuple[str, ...]
    is_held: bool


class Judged(NamedTuple):
    """A case with its sentences' support."""

    case: Case
    found: Sequence[SentenceSupport]

    def is_supported(self, near: float, held: float) -> bool:
        """By these floors. Numbers and names that the passage lacks fail at every floor."""
        return bool(self.found) and all(
            one.has_verbatim and one.cosine >= near and one.words_held >= held for one in self.found
        )


def main() -> None:
    """Choose, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--work", type=Path, default=Path("sluice-data") / "groundedness")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    cache = EmbeddingCache(options.work / "embeddings.sqlite", 2_000_000)
    embedder = CachedEmbedder(MiniLM(MODELS), cache)
    judged = {
        name: [Judged(case, find_support(case.statement, case.passages, _embed(embedder))) for case in cases]
        for name, cases in read_cases(options.data_dir, embedder).items()
    }
    cache.close()
    near, held = max(product(GRID, GRID), key=lambda floors: balanced_accuracy(judged[CHOSEN_ON], *floors))
    print(f"chosen on {CHOSEN_ON}: cosine {near}, words held {held}")
    for title, floors in {"chosen": (near, held), "shipped": (support.NEAR, support.HELD)}.items():
        print(f"\n{title} floors {floors}\n\n| cases | kind | held | supported of them |\n|---|---|---|---|")
        for name, cases in judged.items():
            for kind in dict.fromkeys(one.case.kind for one in cases):
                of_kind = [one for one in cases if one.case.kind == kind]
                share, is_held = np.mean([one.is_supported(*floors) for one in of_kind]), of_kind[0].case.is_held
                print(f"| {name} | {kind} | {'yes' if is_held else 'no'} | {share:.3f} of {len(of_kind)} |")
        for name, cases in judged.items():
            print(f"{name}: balanced accuracy {balanced_accuracy(cases, *floors):.3f}")


def balanced_accuracy(judged: Sequence[Judged], near: float, held: float) -> float:
    """The mean of the share of held statements that are supported, and of the others that are not."""
    right = {held_or_not: [] for held_or_not in (True, False)}  # type: dict[bool, list[bool]]
    for one in judged:
        right[one.case.is_held].append(one.is_supported(near, held) == one.case.is_held)
    return float(np.mean([np.mean(of) for of in right.values()]))


def read_cases(data_dir: Path, embedder: CachedEmbedder) -> dict[str, list[Case]]:
    """The cases by collection."""
    return {
        CHOSEN_ON: list(_of_claims(data_dir / CHOSEN_ON, embedder)),
        "climate_fever_sent": list(_of_claims(data_dir / "climate_fever_sent", embedder, label="SUPPORTS")),
        "condaqa_dev": list(_of_edits(data_dir / "pairs" / "condaqa_dev.jsonl")),
    }


def _of_claims(folder: Path, embedder: CachedEmbedder, label: str | None = None) -> Iterator[Case]:
    """Claims before the documents that hold them, and before those of the nearest claim with others."""
    texts = {document.id: document.text or "" for document in read_documents(folder)}
    labels = {fields["_id"]: fields.get("label") for _, fields in read_objects(folder / "queries.jsonl")}
    cases = [case for case in read_questions(folder)[0] if label is None or labels[case.id] == label][:STATEMENTS]
    vectors = _embed(embedder)([case.query for case in cases])
    for case, cosines in zip(cases, vectors @ vectors.T, strict=True):
        yield Case("its documents", case.query, tuple(texts[name] for name in sorted(case.answers)), True)
        order = (cases[row] for row in np.argsort(-cosines))
        other = next(one for one in order if not one.answers & case.answers)
        yield Case("those of the nearest", case.query, tuple(texts[name] for name in sorted(other.answers)), False)


def _of_edits(path: Path) -> Iterator[Case]:
    """Sentences that an editor changed, before the passage as it was: said otherwise, or turned round."""
    for _, fields in read_objects(path):
        before, after = cut_sentences(fields["a"]), cut_sentences(fields["b"])
        edited = [sentence for sentence in after if sentence not in before]
        if edited:
            yield Case(fields["label"], " ".join(edited), (fields["a"],), fields["label"] == "paraphrase")


def _embed(embedder: CachedEmbedder) -> support.Embed:
    return lambda texts: embedder.embed(texts).vectors


if __name__ == "__main__":
    main()
