"""Logistic regression by Newton's method, on standardised inputs, with a ridge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.guard.attacked import QUESTIONS_OUT_OF_CONTEXT
from bench.guard.dataset import NEUTRAL, Text
from sluice.trust.guard.model import WindowModel
from sluice.trust.guard.windows import COUNTED, NAMES

Floats = NDArray[np.float64]
RIDGE = 0.003
"""Inverse strength: .003 and .02 held alike on sets left out, .0003 lost a fifth of the recall."""
_STEPS = 25
_ATTACK_WEIGHT, _ORDINARY_WEIGHT = 400.0, 600.0
"""Of a set of windows, whatever their number: else the largest set decides."""
_WEIGHTS = {
    NEUTRAL: 1.5,
    "security": 3.0,
    "addressed": 3.0,
    "own-docs": 3.0,
    "package-readmes": 3.0,
    "debian-doc": 3.0,
} | dict.fromkeys(("git-doc", "python-doc", "licences"), 2.0)


def fit(texts: Sequence[Text]) -> WindowModel:
    """A model of the texts' windows. In a text with an attack, the windows around it count as ordinary."""
    groups: dict[tuple[str, bool], list[NDArray[np.float32]]] = defaultdict(list)
    for text in texts:
        if text.kind in QUESTIONS_OUT_OF_CONTEXT:
            continue
        for row, is_payload in zip(text.inputs, text.is_payload, strict=True):
            groups[text.name, bool(is_payload)].append(row)
    rows, labels, weights = [], [], []
    for (name, is_payload), inputs in groups.items():
        total = _ATTACK_WEIGHT if is_payload else _ORDINARY_WEIGHT
        weight = (1.0 if is_payload else _WEIGHTS.get(name, 1.0)) * min(1.0, total / len(inputs))
        rows += inputs
        labels += [float(is_payload)] * len(inputs)
        weights += [weight] * len(inputs)
    whole, of_what, weighing = np.array(rows, dtype=np.float64), np.array(labels), np.array(weights)
    slopes, bias = _logistic(whole, of_what, weighing)
    screen, screen_bias = _logistic(_counts(whole), of_what, weighing)
    return WindowModel(slopes, bias, 1.0, screen, screen_bias)


def _counts(inputs: NDArray[Any]) -> NDArray[Any]:
    """Of inputs (windows, …), the counts alone: behind the vector, before the likeness."""
    start = inputs.shape[1] - len(NAMES)
    return inputs[:, start : start + len(COUNTED)]


def _logistic(rows: Floats, labels: Floats, weights: Floats) -> tuple[Floats, float]:
    mean, deviation = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    design = np.column_stack(((rows - mean) / deviation, np.ones(len(rows))))
    ridge = np.eye(design.shape[1]) / RIDGE
    ridge[-1, -1] = 1e-6  # the constant is free
    solution = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ solution, -30, 30)))
        gradient = design.T @ (weights * (chance - labels)) + ridge @ solution
        curvature = (design * (weights * chance * (1 - chance) + 1e-9)[:, None]).T @ design + ridge
        step = np.linalg.solve(curvature, gradient)
        solution -= step
        if np.abs(step).max() < 1e-6:
            break
    slopes = solution[:-1] / deviation
    return slopes, float(solution[-1] - mean @ slopes)


def scores(model: WindowModel, text: Text) -> Floats:
    """The highest probability of each chunk of a text. Examples, and what is screened, are left out as by the guard."""
    best = np.zeros(text.chunk_count)
    if len(text.inputs):
        is_left_out = text.is_example | ~model.is_worth_a_vector(_counts(text.inputs))
        chances = np.where(is_left_out, 0.0, model.probabilities(text.inputs))
        np.maximum.at(best, text.chunks, chances)
    return best
