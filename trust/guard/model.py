"""The linear model: the probability that a window of text addresses the reader's model, from its vector and counts.

A smaller model on the counts alone screens the windows first, so that few need a vector: in a manual one in sixty.

Weights are data (`model.json`), fitted by `python -m bench.guard.train` to vectors of all-MiniLM-L6-v2; they do not
suit other vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import ChunkedDocument
from sluice.contracts.trust import Finding
from sluice.trust.guard.windows import (
    COUNTED,
    NAMES,
    Candidate,
    find_candidates,
    repeated_sentences,
    texts_to_embed,
    with_likeness,
    without,
)

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
"""Maps texts to vectors of all-MiniLM-L6-v2 of length 1, one row each."""
SCREENED_FROM = 0.15
"""Screen probability above which a window is scored: one chunk in seven of a manual; 2 % of the attacks are lost."""
MODEL = "model"
"""Rule of its findings."""
WEIGHTS_FILE = Path(__file__).with_name("model.json")


@dataclass(frozen=True, slots=True, eq=False)
class WindowModel:
    """A linear model: `weights` of the vector's dimensions, then of `NAMES`. Above `threshold` a window is a finding.

    `screen` has the weights of `COUNTED`; only windows above `SCREENED_FROM` are scored.
    """

    weights: NDArray[np.float64]
    bias: float
    threshold: float
    screen: NDArray[np.float64]
    screen_bias: float

    def is_worth_a_vector(self, counts: Sequence[Sequence[float]]) -> NDArray[np.bool_]:
        """Return for each row of counts (windows, len(COUNTED)) whether the window might be above the threshold."""
        logits: NDArray[np.float64] = np.asarray(counts, dtype=np.float64) @ self.screen + self.screen_bias
        return _logistic(logits) > SCREENED_FROM

    def probabilities(self, inputs: Vectors) -> NDArray[np.float64]:
        """Return the probabilities for inputs (windows, dimensions + len(NAMES)), as `inputs_of` makes them."""
        logits: NDArray[np.float64] = inputs @ self.weights + self.bias
        return _logistic(logits)


def _logistic(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    chance: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return chance


@cache
def load_model() -> WindowModel:
    """Return the shipped model. Raises ValueError where it was fitted to the features of another version."""
    data = json.loads(WEIGHTS_FILE.read_bytes())
    if tuple(data["features"]) != NAMES:
        raise ValueError(f"{WEIGHTS_FILE.name} has not the features of this version: python -m bench.guard.train")

    return WindowModel(
        weights=np.array([*data["vector"], *data["features"].values()]),
        bias=data["bias"],
        threshold=data["threshold"],
        screen=np.array([data["screen"][name] for name in COUNTED]),
        screen_bias=data["screen_bias"],
    )


def inputs_of(document: ChunkedDocument, candidates: Sequence[Candidate], embed: Embed) -> Vectors:
    """Return the model's input for each candidate: vector, counts and likeness to its chunk, one row each.

    Raises the errors of `embed`.
    """
    texts = texts_to_embed(document, candidates)
    vectors = embed(texts)
    place = {chunk: len(candidates) + row for row, chunk in enumerate(dict.fromkeys(one.chunk for one in candidates))}
    of_chunks = vectors[[place[candidate.chunk] for candidate in candidates]]
    own = vectors[: len(candidates)]
    return np.hstack((own, with_likeness([one.counts for one in candidates], own, of_chunks)))


def find_by_model(document: ChunkedDocument, model: WindowModel, embed: Embed) -> dict[int, Finding]:
    """Find for each chunk, by number, the window of the highest probability, if above the threshold.

    A sentence that stands several times is scored once, and found in each chunk that has it. Raises the errors of
    `embed`.
    """
    repeated = repeated_sentences(document)
    if not repeated:
        return _best_windows(document, model, embed)
    once, places = without(document, repeated)
    found: dict[int, Finding] = {}
    texts: list[tuple[str, Finding]] = []
    for number, one in _best_windows(once, model, embed).items():
        kept = places[number]
        found[number] = one.model_copy(update={"start": kept[one.start], "end": kept[one.end - 1] + 1})
        texts.append((" ".join(once.chunks[number].text[one.start : one.end].lower().split()), one))
    for sentence in repeated:
        known = next((one for text, one in texts if sentence.lowered in text or text in sentence.lowered), None)
        if known and sentence.chunk not in found:
            found[sentence.chunk] = known.model_copy(update={"start": sentence.start, "end": sentence.end})
    return found


def _best_windows(document: ChunkedDocument, model: WindowModel, embed: Embed) -> dict[int, Finding]:
    found_by_words = list(find_candidates(document))
    if not found_by_words:
        return {}
    worth = model.is_worth_a_vector([one.counts for one in found_by_words])
    candidates = [one for one, is_worth in zip(found_by_words, worth, strict=True) if is_worth]
    if not candidates:
        return {}
    found: dict[int, Finding] = {}
    for candidate, probability in zip(
        candidates, model.probabilities(inputs_of(document, candidates, embed)), strict=True
    ):
        known = found.get(candidate.chunk)
        if probability > model.threshold and (known is None or probability > (known.score or 0)):
            score = round(float(probability), 3)
            found[candidate.chunk] = Finding(rule=MODEL, start=candidate.start, end=candidate.end, score=score)
    return found
