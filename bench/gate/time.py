"""Whether the answer to a question changes: the fit of the time model, and its measures.

Fitted on `situatedqa_temp_train` by logistic regression with a ridge, from the words found and the cosine to each
intent less the mean of a question's cosines; the threshold is the one with the highest F1 over five folds of the same
questions. Measured on `situatedqa_temp_dev` and `freshqa_dev`, which the fit never sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.gate.collections import read
from bench.gate.measures import Floats, calibration_error, f1_score, logistic, measures, reliability
from sluice.gate.heads import read_heads
from sluice.gate.intent import classify, find_time_anchors, find_time_words
from sluice.gate.probe import intent_similarity
from sluice.gate.profile import Profile
from sluice.ingest.embed.cache import CachedEmbedder

NOW = datetime(2022, 6, 1, tzinfo=UTC)
"""When the questions about time were asked, roughly: their years are read against it."""
MEANS_CHANGE = {"moment": 2.0, "recent": 2.0}
"""Prior strengths of groups that are rare in the training questions and plain in meaning."""
RIDGE = 1.0
FOLDS = 5
DRAWS = 1000

Near = list[dict[str, float]]


def tune_time(folder: Path, profiles: Sequence[Profile], embedder: CachedEmbedder) -> None:
    """Fit the time model of the last profile, and report every profile's own on questions that the fit never sees."""
    train = read(folder / "situatedqa_temp_train.jsonl")
    near = similarities([row["text"] for row in train], profiles[-1], embedder)
    _print_fit(train, near, profiles[-1])
    for name, changes in (
        ("situatedqa_temp_train", _time_dependent),
        ("situatedqa_temp_dev", _time_dependent),
        ("freshqa_dev", lambda row: row["fact_type"] != "never-changing"),
    ):
        rows = read(folder / f"{name}.jsonl")
        for profile in profiles:
            _print_measures(name, rows, changes, profile, embedder)


def similarities(texts: Sequence[str], profile: Profile, embedder: CachedEmbedder) -> Near:
    """The cosine of each text to the nearest prototype of each intent."""
    prototypes = {name: embedder.embed(list(own)).vectors for name, own in profile.prototypes().items()}
    return [intent_similarity(vector, prototypes) for vector in embedder.embed(list(texts)).vectors]


def changes_by_vector(texts: Sequence[str], profile: Profile, embedder: CachedEmbedder) -> list[float | None]:
    """The log-odds that the vector of each English question tells; None for a profile that does not read them."""
    if profile.heads is None:
        return [None] * len(texts)
    vectors = embedder.embed(list(texts)).vectors
    return [read_heads(text, vector).get("changes") for text, vector in zip(texts, vectors, strict=True)]


def time_inputs(query: str, near: dict[str, float], profile: Profile) -> list[float]:
    """What the time model reads from one question, in the order of the fit."""
    found = find_time_words(query, profile.time)
    cosines = [near[name] for name in sorted(profile.intents)]
    mean = sum(cosines) / len(cosines)
    words = [float(name in found) for name in profile.time.words]
    return [*words, *map(float, find_time_anchors(query, NOW.year)), *(cosine - mean for cosine in cosines)]


def _print_fit(rows: Sequence[dict[str, str]], near: Near, profile: Profile) -> None:
    intents = [f"intent {name}" for name in sorted(profile.intents)]
    names = [*profile.time.words, "past_year", "numbered_part", *intents]
    inputs = np.array([time_inputs(row["text"], one, profile) for row, one in zip(rows, near, strict=True)])
    targets = np.array([_time_dependent(row) for row in rows])
    prior = np.array([0.0, *(MEANS_CHANGE.get(name, 0.0) for name in names)])
    weights = logistic(inputs, targets, RIDGE, prior)
    print("time, fitted: " + ", ".join(f"{n} {w:.2f}" for n, w in zip(["bias", *names], weights, strict=True)))
    fold, unseen = np.arange(len(rows)) % FOLDS, np.zeros(len(rows))
    for number in range(FOLDS):
        held = fold == number
        own = logistic(inputs[~held], targets[~held], RIDGE, prior)
        unseen[held] = 1 / (1 + np.exp(-(own[0] + inputs[held] @ own[1:])))
    steps = [step / 100 for step in range(25, 61)]
    best = max(steps, key=lambda step: f1_score(targets, unseen, step))
    print(f"time, threshold of {FOLDS} folds: {best}, F1 {f1_score(targets, unseen, best):.3f}")


def _print_measures(
    name: str,
    rows: Sequence[dict[str, str]],
    changes: Callable[[dict[str, str]], bool],
    profile: Profile,
    embedder: CachedEmbedder,
) -> None:
    texts = [row["text"] for row in rows]
    near, changes_by = similarities(texts, profile, embedder), changes_by_vector(texts, profile, embedder)
    pairs = zip(texts, near, changes_by, strict=True)
    kinds = [classify(text, one, NOW.year, profile, change) for text, one, change in pairs]
    found, targets = np.array([kind.time_sensitivity for kind in kinds]), np.array([changes(row) for row in rows])
    title = f"time, {profile.name} version {profile.version}, {name} ({len(rows)})"
    print(f"{title}: {measures(targets, found, profile.time.counts_from)}")
    low, high, chance = _spread_of_error(found, targets)
    error = calibration_error(found, targets.astype(float), np.ones(len(rows)))
    print(f"{title}: calibration error {error:.3f} (95 of 100 draws {low:.3f} to {high:.3f}; by chance {chance:.3f})")
    print("\n".join(reliability(found, targets.astype(float), np.ones(len(rows)))))


def _spread_of_error(predicted: Floats, happened: NDArray[np.bool_]) -> tuple[float, float, float]:
    """The calibration error's 2.5 and 97.5 percentiles over questions drawn anew, and what perfect odds would have."""
    draw, ones = np.random.default_rng(0), np.ones(len(predicted))
    picks = [draw.integers(0, len(predicted), len(predicted)) for _ in range(DRAWS)]
    errors = [calibration_error(predicted[pick], happened[pick].astype(float), ones) for pick in picks]
    perfect = [
        calibration_error(predicted, (draw.random(len(predicted)) < predicted).astype(float), ones)
        for _ in range(DRAWS)
    ]
    return float(np.percentile(errors, 2.5)), float(np.percentile(errors, 97.5)), float(np.mean(perfect))


def _time_dependent(row: dict[str, str]) -> bool:
    return bool(row["time_dependent"])
