"""Fits the confidence of passages to another model's cosines, by questions with known answers.

    log-odds that a passage answers = bias + closeness · cosine + coverage · share of the question's words

What a corpus shows without an answer follows from what it shows with it: without the relevant documents, the best of
the others (the answer is missing); without the nearest fiftieth of the corpus, what comes then (the topic is missing).
A question's three cases weigh 2 : 1 : 1, as in the fit of the local model (`bench.confidence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidInput

Floats = NDArray[np.float64]

LEAST_QUESTIONS = 20
SHOWN = 8
"""Passages that an answer has by default."""
TOPIC_SHARE = 50
ROUNDS, STEPS = 6, 30
START = np.array([0.0, 7.0, 3.0])
"""Weights by which the first best passages are chosen: about those of the local model."""
CASES = ("covered", "answer missing", "topic missing")
WEIGHTS = np.array([2.0, 1.0, 1.0])


class Seen(NamedTuple):
    """The passages that a question found, in their order: cosine and share of its words (n, 2), and whether each is
    relevant (n,)."""

    figures: Floats
    is_relevant: NDArray[np.bool_]


class ConfidenceFit(Value):
    """The fitted weights; and, for each of `CASES`, the share of the questions that a floor turns away. Each half of
    the questions is measured by the weights of the other one."""

    bias: float
    closeness: float
    coverage: float
    turned_away: dict[str, float]


def fit_confidence(questions: Sequence[Seen], chunk_count: int, floor: float) -> ConfidenceFit:
    """Fit the weights to questions of one corpus. Raises `InvalidInput` if they are fewer than `LEAST_QUESTIONS`."""
    if len(questions) < LEAST_QUESTIONS:
        raise InvalidInput("cases", f"{len(questions)} questions are too few to fit to", f"give {LEAST_QUESTIONS}")
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
