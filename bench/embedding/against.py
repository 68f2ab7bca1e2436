"""Speed and quality of all three, side by side."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.embedding.contestants import Contestant, Ours, sentence_transformers
from bench.embedding.quality import Collection, ndcg, read_collection
from sluice.ingest.embed.minilm import ensure_model, load_tokenizer
from tests.support.repository import MODELS, REPOSITORY

DATA = REPOSITORY.parent / "shared" / "data"
SPEED_SETS = ("scifact_train", "cosqa_dev", "squad20_dev")
"""Abstracts, source code and encyclopedic paragraphs: 240, 100 and 170 tokens each."""
PEER = "sentence-transformers"
OURS = ("fp32", "int8")


def measure_embedding(
    data: Path = DATA, *, texts: int = 120, rounds: int = 5, documents: int | None = 1_500
) -> dict[str, float]:
    """Tokens per CPU-second on one thread and their ratios to the peer's, nDCG@10, and cosines between them.

    `texts` of the three collections in equal parts are embedded by everyone in every round, in turn, sorted by
    length; the medians over `rounds` are compared. The quality is on scifact_train, cut to `documents` documents (None:
    whole). Tokens are real ones, [CLS] and [SEP] included, within the model's window, counted once for all.
    """
    collections = {name: read_collection(data / name) for name in SPEED_SETS}
    with contestants() as everyone:
        some = _sample(collections.values(), texts)
        speeds = _speeds(everyone, some, rounds)
        scifact = collections["scifact_train"]
        qualities = _qualities(everyone, scifact if documents is None else scifact.cut_to(documents))
    ratios = {f"{name} : {PEER}": speeds[name] / speeds[PEER] for name in OURS}
    return {f"{name}, tokens per CPU-second": speed for name, speed in speeds.items()} | ratios | qualities


@contextmanager
def contestants() -> Iterator[dict[str, Contestant]]:
    """All of them, loaded, on one thread."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, sentence_transformers(Path(folder)) as peer:
        yield {PEER: peer, "fp32": Ours("fp32"), "int8": Ours("int8")}


def _sample(collections: Iterable[Collection], count: int) -> list[str]:
    """Texts of each collection in equal parts, drawn evenly over it, the longest first."""
    found: list[str] = []
    each = count // len(SPEED_SETS)
    for collection in collections:
        step = max(1, len(collection.documents) // each)
        found += collection.documents[::step][:each]
    return sorted(found, key=len, reverse=True)


def _speeds(everyone: Mapping[str, Contestant], texts: Sequence[str], rounds: int) -> dict[str, float]:
    tokenizer = load_tokenizer(ensure_model(MODELS))
    tokens = sum(len(encoding) for encoding in tokenizer.encode_batch_fast(list(texts)))
    seconds: dict[str, list[float]] = {name: [] for name in everyone}
    for _ in range(rounds):
        for name, contestant in everyone.items():
            seconds[name].append(contestant.embed(texts)[1])
    return {name: tokens / statistics.median(spent) for name, spent in seconds.items()}


def _qualities(everyone: Mapping[str, Contestant], collection: Collection) -> dict[str, float]:
    vectors = {
        name: (contestant.embed(collection.documents)[0], contestant.embed(collection.queries)[0])
        for name, contestant in everyone.items()
    }
    figures = {f"{name}, nDCG@10": ndcg(collection, *vectors[name]) for name in everyone}
    for name in OURS:
        figures[f"{name}, nDCG@10 : {PEER}"] = figures[f"{name}, nDCG@10"] / figures[f"{PEER}, nDCG@10"]
        cosines = np.sum(vectors[name][0] * vectors[PEER][0], axis=1)
        figures[f"{name}, least cosine to {PEER}"] = float(cosines.min())
        figures[f"{name}, mean cosine to {PEER}"] = float(cosines.mean())
    return figures
