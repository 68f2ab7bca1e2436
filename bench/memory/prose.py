"""Fits the weights by which two versions of a paragraph are taken for the same (`memory.learning.polarity.prose`).

`python -m bench.memory.prose PAIRS [--write]`, PAIRS being CondaQA's development pairs. Ten folds by passage, six times
with other folds; a pair whose identifiers, numbers, antonyms, modality or order differ never passes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.memory.pairs.pair import Pair, condaqa
from sluice.memory.learning.polarity.compare import compare
from sluice.memory.learning.polarity.prose import FEATURES, features

TARGET = Path(__file__).parents[2] / "memory/learning/polarity/prose.json"
FOLDS, SEEDS, STRENGTH = 10, 6, 0.1
THRESHOLD = 0.75


def main() -> None:
    """Prints the folds and, asked to, writes the weights fitted on all pairs."""
    pairs = condaqa(Path(sys.argv[1]))
    x = np.array([features(pair.one, pair.other) for pair in pairs])
    y = np.array([pair.label == "paraphrase" for pair in pairs])
    vetoed = np.array([is_vetoed(pair) for pair in pairs])
    for threshold in (0.55, 0.6, 0.65, 0.7, 0.75, 0.8):
        rows = [row(left_out(pairs, x, y, seed), y, vetoed, threshold) for seed in range(SEEDS)]
        merged, recognised = np.mean(rows, axis=0)
        print(
            f"threshold {threshold}: recognised {recognised:.3f}, others merged {merged:.4f}",
            [round(r[0], 4) for r in rows],
        )
    print("area", np.mean([roc_auc_score(y, left_out(pairs, x, y, seed)) for seed in range(SEEDS)]).round(3))
    scores = left_out(pairs, x, y, 0)
    for fold in range(FOLDS):
        inside = folds_of(pairs, 0) == fold
        print("fold", fold, *(f"{value:.3f}" for value in row(scores[inside], y[inside], vetoed[inside], THRESHOLD)))
    if "--write" in sys.argv:
        write(fitted(x, y))


def is_vetoed(pair: Pair) -> bool:
    """Whether the words alone keep the two apart."""
    return compare(pair.one, pair.other).is_vetoed


def row(scores: np.ndarray, y: np.ndarray, vetoed: np.ndarray, threshold: float) -> tuple[float, float]:
    """Shares of the others and of the paraphrases that pass."""
    passed = (scores >= threshold) & ~vetoed
    return float(passed[~y].mean()), float(passed[y].mean())


def folds_of(pairs: list[Pair], seed: int) -> np.ndarray:
    """The fold of each pair; those of one passage are in one fold."""
    passages = sorted({pair.topic for pair in pairs})
    fold = dict(zip(passages, np.random.default_rng(seed).permutation(len(passages)) % FOLDS, strict=True))
    return np.array([fold[pair.topic] for pair in pairs])


def left_out(pairs: list[Pair], x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Of each pair the probability by a model that saw no pair of its passage."""
    fold = folds_of(pairs, seed)
    scores = np.zeros(len(y))
    for number in range(FOLDS):
        inside = fold == number
        scores[inside] = fitted(x[~inside], y[~inside]).predict_proba(x[inside])[:, 1]
    return scores


def fitted(x: np.ndarray, y: np.ndarray) -> Pipeline:
    """Standardised features, then a logistic regression."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=3000)).fit(x, y)


def write(model: Pipeline) -> None:
    """Writes the weights beside the code that reads them."""
    scaler, regression = model[0], model[1]
    rows = zip(FEATURES, scaler.mean_, scaler.scale_, regression.coef_[0], strict=True)
    document = {
        "fitted": f"bench.memory.prose on CondaQA's 336 development pairs, L2 with C = {STRENGTH}",
        "features": {name: [round(float(value), 6) for value in values] for name, *values in rows},
        "intercept": round(float(regression.intercept_[0]), 6),
        "threshold": THRESHOLD,
    }
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
