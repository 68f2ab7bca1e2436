"""What vectors find: nDCG@10 of exact search over a collection in BEIR form (corpus, queries and judgements)."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CUT = 10


@dataclass(frozen=True)
class Collection:
    """Documents and queries as texts, and for each query the positions of its documents with their grades."""

    documents: tuple[str, ...]
    queries: tuple[str, ...]
    judged: tuple[Mapping[int, int], ...]

    def cut_to(self, documents: int) -> Collection:
        """The same questions over fewer documents: all that answer one, and of the others the first."""
        wanted = {position for grades in self.judged for position in grades}
        others = (position for position in range(len(self.documents)) if position not in wanted)
        kept = sorted([*wanted, *list(others)[: max(0, documents - len(wanted))]])
        place = {position: number for number, position in enumerate(kept)}
        judged = tuple({place[position]: grade for position, grade in grades.items()} for grades in self.judged)
        return Collection(tuple(self.documents[position] for position in kept), self.queries, judged)


def read_collection(folder: Path) -> Collection:
    """A folder with `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`. A document is its title and its text."""
    corpus, queries = _rows(folder / "corpus.jsonl"), _rows(folder / "queries.jsonl")
    place = {row["_id"]: number for number, row in enumerate(corpus)}
    grades: dict[str, dict[int, int]] = {}
    with (folder / "qrels.tsv").open() as lines:
        for query, document, grade in list(csv.reader(lines, delimiter="\t"))[1:]:
            if int(grade) > 0 and document in place:
                grades.setdefault(query, {})[place[document]] = int(grade)
    asked = [row for row in queries if row["_id"] in grades]
    return Collection(
        documents=tuple("\n".join(part for part in (row.get("title"), row["text"]) if part) for row in corpus),
        queries=tuple(row["text"] for row in asked),
        judged=tuple(grades[row["_id"]] for row in asked),
    )


def ndcg(collection: Collection, documents: NDArray[np.float32], queries: NDArray[np.float32]) -> float:
    """Mean nDCG@10 (Järvelin and Kekäläinen 2002) with linear gains, as trec_eval computes it."""
    nearest = np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :CUT]
    discounts = 1 / np.log2(np.arange(2, CUT + 2))
    scores = []
    for found, grades in zip(nearest, collection.judged, strict=True):
        gains = np.array([grades.get(int(position), 0) for position in found])
        ideal = np.array(sorted(grades.values(), reverse=True)[:CUT])
        scores.append(float(gains @ discounts[: len(gains)]) / float(ideal @ discounts[: len(ideal)]))
    return float(np.mean(scores))


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
