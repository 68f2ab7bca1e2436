"""Fits the weights of one embedding model to questions with known answers of one corpus.

The defaults belong to the cosines of the local model. Another model's may lie closer together or higher.

`fit_lexical_weight` finds the weight of BM25 beside them (`query.lexical_weight`): what was found is reordered by every
weight of a grid.

`fit_confidence` finds the log-odds that a passage answers: bias + closeness · cosine + coverage · share of the
question's words. What a corpus shows without an answer follows from what it shows with it: without the relevant
documents, the best of the others (the answer is missing); without the nearest fiftieth of the corpus, what comes then
(the topic is missing). A question's three cases weigh 2 : 1 : 1, as in the fit of the local model.

Both are measured on each half of the questions by what was chosen on the other one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput
from sluice.evaluation.retrieval.measures import HIT_DEPTH

Floats = NDArray[np.float64]

LEAST_QUESTIONS = 20
"""With fewer, a single question could decide."""


class Seen(NamedTuple):
    """The passages that a hybrid search found for a question, best first, and the grades of its relevant documents."""

    names: Sequence[str]
    """The document of each passage, or the passage itself, as the grades name them."""
    figures: Floats
    """Cosine, and share of the question's words, of each passage (n, 2)."""
    lexical_scores: Floats
    relevant: Mapping[str, int]

    @property
    def is_relevant(self) -> NDArray[np.bool_]:
        """Whether each passage is relevant (n,)."""
        return np.array([self.relevant.get(name, 0) > 0 for name in self.names], dtype=bool)


def require_enough(questions: Sequence[Seen]) -> None:
    """Raise `InvalidInput` if there are fewer than `LEAST_QUESTIONS`."""
    if len(questions) < LEAST_QUESTIONS:
        raise InvalidInput("cases", f"{len(questions)} questions are too few to fit to", f"give {LEAST_QUESTIONS}")


LEXICAL_WEIGHTS = tuple(0.001 * 2 ** (step / 3) for step in range(25))
"""0.001 to 0.256, each a quarter more than the last: the curve is flat, so a finer grid would not help."""
EQUAL = 0.002
"""Means of nDCG@10 that differ by no more count as equal: chance moves those of 500 questions by five times that."""


class FusionFit(Value):
    """The fitted weight and its mean nDCG@10; and for each half of the questions the mean of the weight chosen on the
    other half, and of the best one."""

    lexical_weight: float
    ndcg: float
    halves: tuple[tuple[float, float], ...]


def fit_lexical_weight(questions: Sequence[Seen]) -> FusionFit:
    """Fit the weight of BM25. Raises `InvalidInput` for too few questions."""
    require_enough(questions)
    by_weight = np.array([[_reordered(one, weight) for one in questions] for weight in LEXICAL_WEIGHTS])
    whole, first, second = (part.mean(axis=1) for part in (by_weight, by_weight[:, ::2], by_weight[:, 1::2]))
    best = choose_weight(whole)
    return FusionFit(
        lexical_weight=float(f"{LEXICAL_WEIGHTS[best]:.2g}"),
        ndcg=whole[best],
        halves=((first[choose_weight(second)], first.max()), (second[choose_weight(first)], second.max())),
    )


def _reordered(question: Seen, weight: float) -> float:
    """Return nDCG@10 of a question's passages in the order of the index's sum with that weight."""
    cosines = question.figures[:, 0]
    order = np.argsort(-(cosines * np.abs(cosines) + weight * question.lexical_scores), kind="stable")
    return ndcg(question.relevant, [question.names[place] for place in order])


def ndcg(relevant: Mapping[str, int], names: Iterable[str]) -> float:
    """Return nDCG@10 of ranked names (Järvelin and Kekäläinen, TOIS 2002); repeated names are skipped."""
    grades = [relevant.get(name, 0) for name in dict.fromkeys(names)]
    return _gain(grades) / _gain(sorted(relevant.values(), reverse=True))


def choose_weight(means: Sequence[float] | NDArray[np.float64]) -> int:
    """Return the middle of the equally good weights around the best: there small changes have no effect."""
    best = int(np.argmax(means))
    low = high = best
    while low > 0 and means[low - 1] >= means[best] - EQUAL:
        low -= 1
    while high < len(means) - 1 and means[high + 1] >= means[best] - EQUAL:
        high += 1
    return (low + high) // 2


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(place + 2) for place, grade in enumerate(grades[:HIT_DEPTH]))


SHOWN = 8
"""Passages that an answer has by default."""
TOPIC_SHARE = 50
ROUNDS, STEPS = 6, 30
START = np.array([0.0, 7.0, 3.0])
"""Weights by which the first best passages are chosen: about those of the local model."""
CASES = ("covered", "answer missing", "topic missing")
WEIGHTS = np.array([2.0, 1.0, 1.0])


class ConfidenceFit(Value):
    """The fitted weights; and for each of `CASES` the share of the questions that a floor turns away."""

    bias: float
    closeness: float
    coverage: float
    turned_away: dict[str, float]


def fit_confidence(questions: Sequence[Seen], chunk_count: int, floor: float) -> ConfidenceFit:
    """Fit the weights of confidence. Raises `InvalidInput` for too few questions."""
    require_enough(questions)
    cases = [_cases(one, chunk_count) for one in questions]
    away = np.zeros(len(CASES))
    for half in (0, 1):
        weights = _fit(cases[1 - half :: 2])
        said = np.array([[_best(rows, weights) @ weights for rows, _ in case] for case in cases[half::2]])
        away += (said < np.log(floor / (1 - floor))).sum(axis=0) / len(cases)
    bias, closeness, coverage = (round(float(weight), 2) for weight in _fit(cases))
    shares = dict(zip(CASES, (round(float(share), 3) for share in away), strict=True))
    return ConfidenceFit(bias=bias, closeness=closeness, coverage=coverage, turned_away=shares)


def _cases(question: Seen, chunk_count: int) -> list[tuple[Floats, bool]]:
    """Return for each case the passages shown, rows of 1, cosine and share; and whether one of them is relevant."""
    others = question.figures[~question.is_relevant]
    depth = max(SHOWN, min(chunk_count // TOPIC_SHARE, len(others) - SHOWN))
    farther = others[np.argsort(-others[:, 0], kind="stable")][depth : depth + SHOWN]
    parts = (question.figures[:SHOWN], others[:SHOWN], farther)
    found = [part if len(part) else np.zeros((1, 2)) for part in parts]
    is_answered = (bool(question.is_relevant[:SHOWN].any()), False, False)
    return [(np.insert(part, 0, 1.0, axis=1), happened) for part, happened in zip(found, is_answered, strict=True)]


def _best(rows: Floats, weights: Floats) -> Floats:
    best: Floats = rows[np.argmax(rows @ weights)]
    return best


def _fit(cases: Sequence[Sequence[tuple[Floats, bool]]]) -> Floats:
    """Fit a logistic regression to each case's best passage. Which is best depends on the weights: both alternate."""
    weights, importance = START, np.tile(WEIGHTS, len(cases))
    happened = np.array([is_answered for case in cases for _, is_answered in case], dtype=np.float64)
    for _ in range(ROUNDS):
        rows = np.array([_best(part, weights) for case in cases for part, _ in case])
        weights = _logistic(rows, happened, importance)
    return weights


def _logistic(rows: Floats, happened: Floats, importance: Floats) -> Floats:
    """Return the weights that maximise the likelihood, less a ridge on those of the standardised columns, by Newton."""
    middle, spread = rows[:, 1:].mean(axis=0), rows[:, 1:].std(axis=0) + 1e-9
    scaled = np.column_stack([rows[:, 0], (rows[:, 1:] - middle) / spread])
    penalty, weights = np.diag([1e-6, 1.0, 1.0]), np.zeros(rows.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-scaled @ weights))
        slope = scaled.T @ (importance * (happened - chance)) - penalty @ weights
        weights += np.linalg.solve((scaled * (importance * chance * (1 - chance))[:, None]).T @ scaled + penalty, slope)
    slopes = weights[1:] / spread
    return np.array([weights[0] - slopes @ middle, *slopes])
