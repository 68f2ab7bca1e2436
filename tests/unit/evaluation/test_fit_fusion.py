"""The fit of `query.lexical_weight`: on a real index with vectors of two kinds, and its parts by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.document import ChunkBatch
from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Query, Retrieval, Strategy
from sluice.evaluation.retrieval.ask import Answered, ScoredChunk, ask_all
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.fit_fusion import (
    LEAST_QUESTIONS,
    WEIGHTS,
    choose_weight,
    collect_candidates,
    compute_ndcg,
    fit_lexical_weight,
    ndcg,
    weighted_sum,
)
from sluice.evaluation.retrieval.measures import compute_measures
from sluice.index.journal.records import Vectors
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings

DOCUMENTS, QUESTIONS, DIMENSION = 300, 60, 32
HEIGHT = 0.7
"""The mean cosine of what has nothing in common, as some hosted models have it."""

Retrieve = Callable[[Query], Retrieval]


def _unit(rows: Vectors) -> Vectors:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _lifted(rows: Vectors) -> Vectors:
    """The same directions, so that a cosine c becomes HEIGHT + (1 - HEIGHT) · c."""
    return np.hstack([np.sqrt(HEIGHT) * np.ones((len(rows), 1)), np.sqrt(1 - HEIGHT) * rows]).astype(np.float32)


def _answers(root: Path, make, lift: bool) -> list[Answered]:
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
    cases = [
        Case(id=f"q{place}", query=f"{text} q{place}", relevant={f"d{place}": 1}) for place, text in enumerate(texts)
    ]
    reader = IndexReader(root, "c", QuerySettings(duplicate_threshold=0))
    vector_of = {case.query: vector for case, vector in zip(cases, asked, strict=True)}

    def search(query: Query) -> Retrieval:
        return reader.search(query, None if query.strategy is Strategy.BM25 else vector_of[query.query])

    try:
        return list(ask_all(cases, list(Strategy), "c", search, at_once=1, with_scores=True))
    finally:
        reader.close()


def test_another_models_cosines_need_another_weight_and_the_fit_finds_it(tmp_path: Path, make) -> None:
    plain, lifted = _answers(tmp_path / "plain", make, lift=False), _answers(tmp_path / "lifted", make, lift=True)
    fit, fit_lifted = fit_lexical_weight(plain), fit_lexical_weight(lifted)
    assert fit_lifted.lexical_weight < fit.lexical_weight / 1.5
    questions = collect_candidates(lifted)

    def mean(weight: float) -> float:
        return float(np.mean([compute_ndcg(question, weighted_sum(weight)) for question in questions]))

    assert mean(fit_lifted.lexical_weight) > mean(fit.lexical_weight) + 0.01
    assert fit_lifted.ndcg == pytest.approx(mean(fit_lifted.lexical_weight), abs=0.005)
    assert all(chosen >= best - 0.05 for chosen, best in fit_lifted.halves)


def test_the_candidates_give_the_order_that_the_index_gave(tmp_path: Path, make) -> None:
    answers = _answers(tmp_path, make, lift=False)
    of_mix = {answer.case.id: answer for answer in answers if answer.strategy is Strategy.HYBRID}
    for question in collect_candidates(answers):
        fused = weighted_sum(QuerySettings().lexical_weight)
        again = [chunk.name for chunk in sorted(question.chunks, key=fused, reverse=True)]
        assert again[:10] == list(of_mix[question.case.id].names[:10])


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


def test_a_score_that_no_answer_told_counts_as_the_lowest_of_its_list_if_that_was_cut_off() -> None:
    case = Case(id="q", query="x", relevant={"a": 1})

    def answered(strategy: Strategy, count: int) -> Answered:
        scores = tuple(
            ScoredChunk(
                chunk_id=f"{strategy}-{place}",
                name="a",
                cosine=None if strategy is Strategy.BM25 else 0.9 - place / 1000,
                dense_rank=None,
                lexical_score=30.0 - place / 10 if strategy is Strategy.BM25 else None,
                lexical_rank=None,
            )
            for place in range(count)
        )
        return Answered(case, strategy, ("a",), None, False, "g", "none", 1.0, 1.0, scores)

    for count, cosine, words in ((200, 0.701, 10.1), (3, 0.0, 0.0)):
        (question,) = collect_candidates([answered(Strategy.VECTOR, count), answered(Strategy.BM25, count)])
        by_id = {chunk.chunk_id: chunk for chunk in question.chunks}
        assert by_id["bm25-0"].cosine == pytest.approx(cosine)
        assert by_id["vector-0"].lexical_score == pytest.approx(words)


def test_a_few_questions_are_refused() -> None:
    with pytest.raises(InvalidInput, match=str(LEAST_QUESTIONS)):
        fit_lexical_weight([])
    assert WEIGHTS[0] < QuerySettings().lexical_weight < WEIGHTS[-1]
