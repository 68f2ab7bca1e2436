"""Maximal marginal relevance: a trade between being relevant and being new."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.index.search.select import diversify

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]


def _vectors(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def test_without_diversity_the_order_is_that_of_the_scores() -> None:
    assert diversify([3.0, 1.0, 2.0], _vectors(EAST, EAST, NORTH), 0.0, 3) == [0, 2, 1]


def test_a_repetition_gives_way_to_what_is_less_relevant_and_new() -> None:
    vectors = _vectors(EAST, EAST, NORTH)
    assert diversify([1.0, 0.9, 0.5], vectors, 0.5, 3) == [0, 2, 1]
    assert diversify([1.0, 0.9, 0.5], vectors, 0.1, 3) == [0, 1, 2]


def test_with_full_diversity_only_the_first_is_chosen_for_its_relevance() -> None:
    vectors = _vectors(EAST, [0.8, 0.6], NORTH)
    assert diversify([3.0, 2.0, 1.0], vectors, 1.0, 3) == [0, 2, 1]


def test_the_scale_and_sign_of_the_scores_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((20, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = rng.standard_normal(20)
    plain = diversify(scores.tolist(), vectors, 0.4, 10)
    assert diversify((scores * 250 - 1_000).tolist(), vectors, 0.4, 10) == plain


def test_equal_candidates_keep_the_order_they_came_in() -> None:
    assert diversify([1.0] * 4, _vectors(EAST, EAST, EAST, EAST), 0.5, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("diversity", [0.0, 0.5])
def test_nothing_is_chosen_from_nothing(diversity: float) -> None:
    assert diversify([], np.empty((0, 2), dtype=np.float32), diversity, 5) == []


def _by_the_formula(scores: list[float], vectors: np.ndarray, diversity: float, top_k: int) -> list[int]:
    low, high = min(scores), max(scores)
    relevance = [(score - low) / (high - low) if high > low else 1.0 for score in scores]
    chosen = [max(range(len(scores)), key=lambda i: relevance[i])]
    while len(chosen) < min(top_k, len(scores)):
        left = [i for i in range(len(scores)) if i not in chosen]
        marginal = {
            i: (1 - diversity) * relevance[i] - diversity * max(float(vectors[i] @ vectors[j]) for j in chosen)
            for i in left
        }
        chosen.append(max(left, key=lambda i: marginal[i]))
    return chosen


@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0, 1), st.integers(1, 12))
def test_it_is_the_formula_of_the_paper(seed: int, count: int, diversity: float, top_k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = rng.standard_normal(count).tolist()
    assert diversify(scores, vectors, diversity, top_k) == _by_the_formula(scores, vectors, diversity, top_k)
