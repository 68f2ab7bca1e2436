"""Every text as what the model reads of it: inputs of its windows, and which of them are an attack's."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.guard.attacked import attacked_texts, neutral_records
from bench.guard.benign import Chunker, benign_sets
from sluice.contracts.document import ChunkedDocument
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM
from sluice.trust.guard.guard import RuleGuard, is_example
from sluice.trust.guard.model import Embed, inputs_of
from sluice.trust.guard.windows import Candidate, find_candidates
from tests.support.repository import MODELS

NEUTRAL = "injecagent-neutral"
_MOST_VECTORS = 2_000_000
_PAYLOAD_SHARE = 0.6
"""Of a window's words, which have to be the attack's for the window to be the attack's."""


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A document of set `name`: `inputs` (windows, …), the chunk of each window, and whether it is the attack's.

    `is_example`: windows in a text about attacks, which the guard does not warn of whatever the model says.
    `by_rule`: chunks that the rules find something in. An ordinary text has neither attack nor payload windows.
    """

    name: str
    kind: str
    attack: str
    envelope: str
    is_attack: bool
    chunk_count: int
    inputs: NDArray[np.float32]
    chunks: NDArray[np.int64]
    is_payload: NDArray[np.bool_]
    is_example: NDArray[np.bool_]
    by_rule: NDArray[np.bool_]
    windows: tuple[str, ...]


def cached_embed(path: Path) -> Embed:
    """The local model's vectors, each text's computed once."""
    embedder = CachedEmbedder(MiniLM(MODELS, threads=1), EmbeddingCache(path, _MOST_VECTORS))
    return lambda texts: embedder.embed(texts).vectors


def load_texts(data: Path, cache: Path, most_chunks: int, per_template: int) -> list[Text]:
    """Every text of every set. With an empty cache some ten minutes; with a full one half a minute."""
    chunker, embed = Chunker(), cached_embed(cache)
    texts: list[Text] = []
    for name, documents in benign_sets(data, chunker, most_chunks):
        texts += [_ordinary(name, name, document, embed) for document in documents]
        print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
    texts += [_ordinary(NEUTRAL, envelope, document, embed) for envelope, document in neutral_records(data, chunker)]
    for one in attacked_texts(data, chunker, per_template):
        belongs = _belongs_to(one.payload)
        made = _text(one.document, embed, belongs)
        texts.append(Text(one.name, one.kind, one.attack, one.envelope, True, *made))
    return texts


def _ordinary(name: str, envelope: str, document: ChunkedDocument, embed: Embed) -> Text:
    return Text(name, name, "", envelope, False, *_text(document, embed, lambda _: False))


def _belongs_to(payload: str) -> Callable[[str], bool]:
    of_payload = set(_words(payload))

    def belongs(window: str) -> bool:
        words = _words(window)
        return len(words) > 1 and sum(word in of_payload for word in words) > _PAYLOAD_SHARE * len(words)

    return belongs


def _text(document: ChunkedDocument, embed: Embed, belongs: Callable[[str], bool]) -> Iterator[object]:
    candidates = list(find_candidates(document))
    yield len(document.chunks)
    yield _inputs(document, candidates, embed)
    yield np.array([one.chunk for one in candidates], dtype=np.int64)
    yield np.array([belongs(one.text) for one in candidates], dtype=np.bool_)
    yield np.array([is_example(document, one.chunk, one.start, one.end) for one in candidates], dtype=np.bool_)
    yield np.array([bool(one.findings) for one in RuleGuard().judge(document, embed)], dtype=np.bool_)
    yield tuple(one.text for one in candidates)


def _inputs(document: ChunkedDocument, candidates: Sequence[Candidate], embed: Embed) -> NDArray[np.float32]:
    return inputs_of(document, candidates, embed) if candidates else np.zeros((0, 0), dtype=np.float32)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
