"""The real corpus: sentences of public test sets in windows of one to three, with the vectors of the project's model.

    chunks = real_corpus(DATA, 100_000, MODELS, CACHE)

The windows of a document overlap, but no text comes twice. They come in shards of 10,000, and a shard's vectors are
kept beside the hash of its texts, so that they are computed once and a small corpus is the beginning of a large one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sluice.ingest.embed.minilm import MiniLM

SETS = ("scifact_train", "cosqa_dev", "squad20_dev")
SHARDS = 10
SHARD_CHUNKS = 10_000
QUERIES = 300
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n{2,}")
_LEAST_CHARACTERS = 30
"""Below it a window is a heading or an abbreviation."""
_LONGEST_WINDOW = 3

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """Texts, their L2-normalised float32 vectors (n, d), and real questions with theirs."""

    texts: list[str]
    vectors: Vectors
    queries: list[str]
    query_vectors: Vectors


def has_sets(data: Path) -> bool:
    """Whether the test sets are there."""
    return all((data / name / "corpus.jsonl").is_file() for name in SETS)


def real_corpus(data: Path, count: int, models: Path, cache: Path) -> Passages:
    """The first `count` chunks (up to 100,000) with their vectors, from the cache where they are there.

    Embeds with one thread what the cache lacks: about 100 texts a second.
    """
    from sluice.ingest.embed.minilm import MiniLM

    model = MiniLM(models, threads=1)
    shards = _shards(data)[: -(-count // SHARD_CHUNKS)]
    texts = [text for shard in shards for text in shard]
    vectors = np.concatenate([embed_once(model, shard, cache) for shard in shards])
    queries = real_queries(data)
    return Passages(texts[:count], vectors[:count], queries, embed_once(model, queries, cache))


def real_queries(data: Path) -> list[str]:
    """The sets' questions, as many of each."""
    wanted = QUERIES // len(SETS)
    return [text for name in SETS for text in _spread(_texts(data / name / "queries.jsonl"), wanted)]


def windows(text: str) -> Iterator[str]:
    """Every run of one to three sentences."""
    sentences = [sentence for part in _SENTENCE_END.split(text) if (sentence := " ".join(part.split()))]
    for start in range(len(sentences)):
        for size in range(1, min(_LONGEST_WINDOW, len(sentences) - start) + 1):
            window = " ".join(sentences[start : start + size])
            if len(window) >= _LEAST_CHARACTERS:
                yield window


def _shards(data: Path) -> list[list[str]]:
    """Of every tenth document the windows, each text once, evenly thinned to the size of a shard."""
    documents = [text for name in SETS for text in _texts(data / name / "corpus.jsonl")]
    shard_of: dict[str, int] = {}
    for position, document in enumerate(documents):
        for window in windows(document):
            shard_of.setdefault(window, position % SHARDS)
    shards: list[list[str]] = [[] for _ in range(SHARDS)]
    for window, shard in shard_of.items():
        shards[shard].append(window)
    return [_spread(shard, SHARD_CHUNKS) for shard in shards]


def _texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """`count` of the texts in their order, evenly."""
    if len(texts) < count:
        raise ValueError(f"{len(texts)} texts, {count} are wanted")
    return [texts[position * len(texts) // count] for position in range(count)]


def embed_once(model: MiniLM, texts: list[str], cache: Path) -> Vectors:
    digest = hashlib.sha256("\0".join([model.fingerprint, *texts]).encode()).hexdigest()
    path = cache / f"vectors-{digest[:16]}.npy"
    if not path.exists():
        vectors = model.embed(texts).vectors
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".tmp.npy")
        np.save(unfinished, vectors)
        unfinished.rename(path)
    kept: Vectors = np.load(path)
    return kept
