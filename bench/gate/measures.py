"""Logistic regression and the usual measures of a yes-or-no answer, in numpy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def logistic(
    inputs: Floats,
    targets: NDArray[np.bool_],
    ridge: float,
    prior: Floats | None = None,
    importance: Floats | None = None,
    steps: int = 40,
) -> Floats:
    """Weights (bias first) that maximise the likelihood less ridge/2 x the squared distance to `prior`, by Newton."""
    rows = np.column_stack([np.ones(len(inputs)), inputs])
    centre = np.zeros(rows.shape[1]) if prior is None else prior
    importance = np.ones(len(rows)) if importance is None else importance
    penalty = ridge * np.eye(rows.shape[1])
    penalty[0, 0] = 1e-6
    weights = centre.copy()
    for _ in range(steps):
        odds = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (importance * (odds - targets)) + penalty @ (weights - centre)
        weights -= np.linalg.solve((rows * (importance * odds * (1 - odds))[:, None]).T @ rows + penalty, gradient)
    return weights


def measures(targets: NDArray[np.bool_], scores: Floats, threshold: float) -> str:
    chosen = scores >= threshold
    hits = int((chosen & targets).sum())
    precision, recall = hits / max(1, int(chosen.sum())), hits / max(1, int(targets.sum()))
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    accuracy, area = float((chosen == targets).mean()), area_under_curve(targets, scores)
    return f"accuracy {accuracy:.3f}, precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}, area {area:.3f}"


def f1_score(targets: NDArray[np.bool_], scores: Floats, threshold: float) -> float:
    """Of those that score at least `threshold`."""
    chosen = scores >= threshold
    return float(2 * (chosen & targets).sum() / max(1, chosen.sum() + targets.sum()))


def area_under_curve(targets: NDArray[np.bool_], scores: Floats) -> float:
    """Chance that a positive scores above a negative; a tie counts half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positives = int(targets.sum())
    above = ranks[targets].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(targets) - positives)))


def calibration_error(predicted: Floats, happened: Floats, weights: Floats, bins: int = 10) -> float:
    """The expected calibration error: the mean distance of a bin's predictions from what happened, by its weight."""
    rows = _bins(predicted, happened, weights, bins)
    return float(sum(weight * abs(said - was) for weight, said, was in rows) / sum(weight for weight, _, _ in rows))


def reliability(predicted: Floats, happened: Floats, weights: Floats, bins: int = 10) -> list[str]:
    """A table: for each tenth of the predictions the mean of them, and the share that happened."""
    rows = _bins(predicted, happened, weights, bins)
    return ["| predicted | happened |", "|---|---|", *(f"| {said:.2f} | {was:.2f} |" for _, said, was in rows)]


def _bins(predicted: Floats, happened: Floats, weights: Floats, bins: int) -> list[tuple[float, float, float]]:
    """Bins of equal weight in the order of the predictions: weight, mean prediction, share that happened."""
    order = np.argsort(predicted, kind="stable")
    middles = np.cumsum(weights[order]) - weights[order] / 2
    number = np.minimum((middles / weights.sum() * bins).astype(int), bins - 1)
    found = []
    for row in range(bins):
        inside = order[number == row]
        if weight := float(weights[inside].sum()):
            found.append((weight, *(float(weights[inside] @ v[inside]) / weight for v in (predicted, happened))))
    return found
