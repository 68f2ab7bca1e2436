"""The fit of a model's weights: on a real index with vectors of two kinds, and its parts by hand."""

from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import ChunkBatch
from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Query
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.fit_model import (
    LEAST_QUESTIONS,
    LEXICAL_WEIGHTS,
    Seen,
    choose_weight,
    fit_confidence,
    fit_lexical_weight,
    ndcg,
)
from sluice.evaluation.retrieval.measures import compute_measures
from sluice.index.journal.records import Vectors
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings

DOCUMENTS, QUESTIONS, DIMENSION = 300, 60, 32
HEIGHT = 0.7
"""The mean cosine of what has nothing in common, as some hosted models have it."""


def _unit(rows: Vectors) -> Vectors:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _lifted(rows: Vectors) -> Vectors:
    """The same directions, so that a cosine c becomes HEIGHT + (1 - HEIGHT) · c."""
    return np.hstack([np.sqrt(HEIGHT) * np.ones((len(rows), 1)), np.sqrt(1 - HEIGHT) * rows]).astype(np.float32)


def _seen(root: Path, make, lift: bool, weight: float) -> list[Seen]:
    """Sixty questions of a real index; each shares words and direction with its own document, and with others."""
    random = np.random.default_rng(5)
    words = [[f"w{number}" for number in random.zipf(1.3, 12) % 400] for _ in range(DOCUMENTS)]
    documents = [make.document(f"d{place}", " ".join(text)) for place, text in enumerate(words)]
    vectors = _unit(random.standard_normal((DOCUMENTS, DIMENSION)))
    asked = _unit(vectors[:QUESTIONS] + 0.4 * random.standard_normal((QUESTIONS, DIMENSION)))
    texts = [
        " ".join([*random.choice(words[place], 2), *random.choice(words[-place - 1], 3)]) for place in range(QUESTIONS)
    ]
    if lift:
        vectors, asked = _lifted(vectors), _lifted(asked)
    with IndexWriter(root, "c") as writer:
        writer.append(ChunkBatch(documents=tuple(documents)), vectors, make.model)
        writer.publish()
    reader, found = IndexReader(root, "c", QuerySettings(duplicate_threshold=0, lexical_weight=weight)), []
    for place, text in enumerate(texts):
        chunks = reader.search(Query(query=f"{text} q{place}", corpus="c", top_k=200), asked[place]).chunks
        figures = np.array([(1 - (chunk.dense_distance or 0.0), 1.0) for chunk in chunks])
        words = np.array([chunk.lexical_score or 0.0 for chunk in chunks])
        found.append(Seen([chunk.document_id for chunk in chunks], figures, words, {f"d{place}": 1}))
    reader.close()
    return found


def _mean(questions: list[Seen]) -> float:
    """The mean nDCG@10 of the passages in the order in which the index gave them."""
    return float(np.mean([ndcg(one.relevant, one.names) for one in questions]))


def test_another_models_cosines_need_another_weight_and_the_index_is_better_by_the_fitted_one(
    tmp_path: Path, make
) -> None:
    default = QuerySettings().lexical_weight
    plain, lifted = (_seen(tmp_path / str(lift), make, lift, default) for lift in (False, True))
    fit, fit_lifted = fit_lexical_weight(plain), fit_lexical_weight(lifted)
    assert fit_lifted.lexical_weight < fit.lexical_weight / 1.5
    own = _seen(tmp_path / "own", make, True, fit_lifted.lexical_weight)
    others = _seen(tmp_path / "others", make, True, fit.lexical_weight)
    assert _mean(own) > _mean(others) + 0.01
    assert fit_lifted.ndcg == pytest.approx(_mean(own), abs=0.005)
    assert all(chosen >= best - 0.1 for chosen, best in fit_lifted.halves)


def test_ndcg_is_what_ir_measures_computes() -> None:
    case = Case(id="q", query="x", relevant={"a": 2, "b": 1, "c": 0, "d": 1})
    names = ["c", "b", "b", "x", "a", *(f"n{place}" for place in range(8)), "d"]
    library = compute_measures([case], {"q": list(dict.fromkeys(names))})["nDCG@10"]["q"]
    assert ndcg(case.relevant, names) == pytest.approx(library)
    assert ndcg(case.relevant, ["b"]) == pytest.approx(1 / (2 + 1 / log2(3) + 1 / log2(4)))


@pytest.mark.parametrize(
    ("means", "chosen"),
    [
        ([0.1, 0.5, 0.2], 1),
        ([0.1, 0.500, 0.501, 0.4995, 0.2], 2),
        ([0.5, 0.5, 0.5, 0.5, 0.5], 2),
        ([0.5009, 0.1, 0.5, 0.501, 0.5], 3),
    ],
)
def test_the_weight_stands_in_the_middle_of_those_that_are_as_good(means: list[float], chosen: int) -> None:
    assert choose_weight(means) == chosen


def seen(count: int, height: float, scale: float) -> list[Seen]:
    """Questions whose right passage lies nearer than the others, on a scale of cosines of the model's own."""
    random = np.random.default_rng(4)
    questions = []
    for _ in range(count):
        cosines = np.sort(random.normal(0.3, 0.1, 60))[::-1]
        cosines[0] = random.normal(0.65, 0.1)
        shares = np.clip(cosines + random.normal(0.1, 0.15, 60), 0, 1)
        figures = np.column_stack([height + scale * cosines, shares])
        questions.append(Seen([f"d{place}" for place in range(60)], figures, np.zeros(60), {"d0": 1}))
    return questions


def test_absent_answers_are_turned_away_and_present_ones_kept_whatever_the_models_scale() -> None:
    plain, lifted = (fit_confidence(seen(80, *scale), 1_000, 0.2) for scale in ((0.0, 1.0), (0.7, 0.3)))
    for fit in (plain, lifted):
        assert fit.turned_away["covered"] < 0.1
        assert fit.turned_away["topic missing"] > 0.85
    assert lifted.closeness > 2 * plain.closeness > 0


def test_a_question_that_finds_nothing_and_few_questions() -> None:
    nothing = Seen([], np.empty((0, 2)), np.empty(0), {"d0": 1})
    assert fit_confidence([*seen(40, 0.0, 1.0), nothing], 1_000, 0.2).closeness > 0
    with pytest.raises(InvalidInput, match=str(LEAST_QUESTIONS)):
        fit_confidence(seen(LEAST_QUESTIONS - 1, 0.0, 1.0), 1_000, 0.2)
    with pytest.raises(InvalidInput, match=str(LEAST_QUESTIONS)):
        fit_lexical_weight([])
    assert LEXICAL_WEIGHTS[0] < QuerySettings().lexical_weight < LEXICAL_WEIGHTS[-1]
