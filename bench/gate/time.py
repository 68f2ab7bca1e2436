"""Whether the answer to a question changes: the fit of the time model, and its measures.

Fitted on `situatedqa_temp_train` by logistic regression with a ridge, from the words found and the margin between the
nearest time-bound and the nearest other intent; measured on `situatedqa_temp_dev` and `freshqa_dev`, which the fit
never sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.gate.collections import read
from bench.gate.measures import logistic, measures
from gate.intent import classify, find_time_anchors, find_time_words
from gate.probe import intent_similarity
from gate.profile import Profile
from ingest.embed.cache import CachedEmbedder

NOW = datetime(2022, 6, 1, tzinfo=UTC)
"""When the questions about time were asked, roughly: their years are read against it."""
MEANS_CHANGE = {"moment": 2.0, "recent": 2.0}
"""Prior strengths of groups that are rare in the training questions and plain in meaning."""


def tune_time(folder: Path, profile: Profile, embedder: CachedEmbedder) -> None:
    """Fit the time model, and report the profile's own on questions that the fit never sees."""
    prototypes = {name: embedder.embed(texts).vectors for name, texts in profile.prototypes().items()}

    def similarities(rows: Sequence[dict[str, str]]) -> list[dict[str, float]]:
        vectors = embedder.embed([row["text"] for row in rows]).vectors
        return [intent_similarity(vector, prototypes) for vector in vectors]

    train = read(folder / "situatedqa_temp_train.jsonl")
    names = ["margin", *profile.time.words, "past_year", "numbered_part"]
    inputs = np.array(
        [time_inputs(row["text"], near, profile) for row, near in zip(train, similarities(train), strict=True)]
    )
    prior = np.array([0.0, *(MEANS_CHANGE.get(name, 0.0) for name in names)])
    weights = logistic(inputs, np.array([bool(row["time_dependent"]) for row in train]), ridge=3.0, prior=prior)
    print("time, fitted: " + ", ".join(f"{n} {w:.2f}" for n, w in zip(["bias", *names], weights, strict=True)))
    for name, is_positive in (
        ("situatedqa_temp_train", lambda row: bool(row["time_dependent"])),
        ("situatedqa_temp_dev", lambda row: bool(row["time_dependent"])),
        ("freshqa_dev", lambda row: row["fact_type"] != "never-changing"),
    ):
        rows = read(folder / f"{name}.jsonl")
        found = [
            classify(row["text"], near, NOW.year, profile).time_sensitivity
            for row, near in zip(rows, similarities(rows), strict=True)
        ]
        print(f"time, {name} ({len(rows)}): {measures(np.array([is_positive(r) for r in rows]), np.array(found), 0.5)}")


def time_inputs(query: str, near: dict[str, float], profile: Profile) -> list[float]:
    """What the time model reads from one question, in the order of the fit."""
    bound = max(near[name] for name, intent in profile.intents.items() if intent.time_bound)
    other = max(near[name] for name, intent in profile.intents.items() if not intent.time_bound)
    found = find_time_words(query, profile.time)
    past_year, numbered_part = find_time_anchors(query, NOW.year)
    return [bound - other, *(float(name in found) for name in profile.time.words), past_year, numbered_part]
