"""Vectors for an embedded memory: from the local model, an endpoint, or none, which leaves words.

`TextVectors` loads nothing when it is made: the model is loaded at the first text.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.contracts.document import sha256_text
from sluice.contracts.errors import InvalidSetting, SluiceError, Unavailable
from sluice.memory.config import EmbedderConfig
from sluice.memory.embedded.outside import folder_of_model, read_secret, usual_model_folder

if TYPE_CHECKING:
    from sluice.ingest.embed.port import Embedder
    from sluice.memory.ports import Vectors

WORDS_ALONE = "words-alone/1"
"""Fingerprint where there are no vectors, in place of a model's."""
MOST_CACHED_VECTORS = 50_000
"""Most vectors cached, by the hash of their text; some 80 MB at 384 numbers each."""
_QUESTIONS = 256
"""Questions whose vectors are remembered: an agent repeats its questions in the next iteration."""


class TextVectors:
    """Turns texts into vectors of length 1, all of one model; keeps those of documents in `cache_path`. Thread-safe.

    `document_prefix` and `query_prefix` stand before each text, for models that distinguish the two by a prefix.
    Without an embedder words alone are searched: as the index needs vectors, all texts get the same, of one number.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        cache_path: Path | None = None,
        *,
        document_prefix: str = "",
        query_prefix: str = "",
        why_not: str | None = None,
    ) -> None:
        self.fingerprint = WORDS_ALONE
        self.why_not = why_not
        """Reason why words alone are searched, for now or for good; `None` while vectors are used."""
        self._document_prefix, self._query_prefix = document_prefix, query_prefix
        self._embedder, self._cached = embedder, embedder
        self._of_question = lru_cache(_QUESTIONS)(self._embed_question)
        if embedder is not None and cache_path is not None:
            from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache

            self.fingerprint = prefixed_fingerprint(embedder.fingerprint, document_prefix, query_prefix)
            self._cached = CachedEmbedder(embedder, EmbeddingCache(cache_path, MOST_CACHED_VECTORS))

    def of_documents(self, texts: Sequence[str]) -> Vectors:
        """Return a row per text, cached if seen before. Raises `Unavailable` where the model is away."""
        if self._cached is None:
            import numpy as np

            return np.ones((len(texts), 1), dtype=np.float32)
        return self._embed(self._cached, [self._document_prefix + text for text in texts])

    def of_question(self, text: str) -> Vectors | None:
        """Return one vector (d,); None where words alone are searched, for now or for good."""
        try:
            return self._of_question(text)
        except Unavailable:
            return None

    def _embed_question(self, text: str) -> Vectors | None:
        if self._embedder is None:
            return None
        vector: Vectors = self._embed(self._embedder, [self._query_prefix + text])[0]
        return vector

    def _embed(self, embedder: Embedder, texts: Sequence[str]) -> Vectors:
        """Embed texts. Every failure becomes `Unavailable`, so that memory goes on without the model."""
        try:
            vectors = embedder.embed(texts).vectors
        except (SluiceError, OSError) as error:
            self.why_not = str(error)
            raise Unavailable(f"the embedding model {self.fingerprint} is away: {error}") from error
        self.why_not = None
        return vectors


def open_vectors(config: EmbedderConfig, dimension: int, index_folder: Path) -> TextVectors:
    """Open the configured embedder; words alone if the package with the local model's weights is missing."""
    if config.provider == "none":
        return TextVectors(None, why_not="embedder.provider is none")
    if config.provider == "local" and (missing := _missing_weights()):
        return TextVectors(None, why_not=missing)
    embedder: Embedder
    if config.provider == "local":
        from sluice.ingest.embed.minilm import MiniLM

        embedder = MiniLM(config.model_folder or usual_model_folder())
    else:
        embedder = _endpoint(config, dimension)
    prefixes = {"document_prefix": config.document_prefix, "query_prefix": config.query_prefix}
    folder = folder_of_model(index_folder, prefixed_fingerprint(embedder.fingerprint, *prefixes.values()))
    return TextVectors(embedder, folder / "vectors.sqlite", **prefixes)


def prefixed_fingerprint(fingerprint: str, document_prefix: str, query_prefix: str) -> str:
    """Return the fingerprint of a model with its prefixes: other prefixes give other vectors."""
    if not document_prefix and not query_prefix:
        return fingerprint
    both = sha256_text("\0".join((document_prefix, query_prefix)))
    return f"{fingerprint}/prefixes-{both[:8]}"


def _missing_weights() -> str | None:
    from sluice.ingest.embed.tokens import PACKAGE, packaged_file

    try:
        packaged_file("model.safetensors")
    except InvalidSetting:
        return f"the package {PACKAGE} is not installed: install it with --no-deps"
    return None


def _endpoint(config: EmbedderConfig, dimension: int) -> Embedder:
    from sluice.ingest.embed.embed import ENDPOINT_RULE, BreakingEmbedder
    from sluice.ingest.embed.openai import OpenAIEmbedder
    from sluice.ingest.settings import EmbedSettings

    url = config.url or ""
    settings = EmbedSettings(
        provider="openai",
        openai_base_url=url,
        openai_api_key=read_secret("embedder", url, config.key_variable),
        openai_model=config.model,
        openai_dimension=dimension,
        openai_timeout_seconds=config.timeout_seconds,
    )
    return BreakingEmbedder(OpenAIEmbedder(settings, max_retries=0), ENDPOINT_RULE, clock=time.monotonic)
