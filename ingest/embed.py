"""The embedder that the settings ask for: a model, behind a fallback, behind a cache.

    EmbeddingCache ── text seen before, by this model ──> its vector
          │ new
    first model ── Unavailable ──> second model, only if its vectors are the same

`make_embedder` is the one place where embedders are put together. Nothing is loaded, opened or
connected until the first text is embedded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx2

from contracts.errors import Conflict, Unavailable
from ingest.embedder import Embedded, Embedder, require_fingerprint, unit_rows
from ingest.embedding_cache import CachedEmbedder, EmbeddingCache
from ingest.minilm import MiniLM
from ingest.openai_embed import OpenAIEmbedder
from ingest.settings import EmbedSettings
from ingest.wanted import Wanted, always

__all__ = ["Embedded", "Embedder", "FallbackEmbedder", "make_embedder", "require_fingerprint", "unit_rows"]


def make_embedder(
    settings: EmbedSettings,
    model_dir: Path,
    cache_path: Path | None,
    http_client: httpx2.Client | None = None,
    wanted: Wanted = always,
) -> Embedder:
    """The configured embedder.

    `model_dir` keeps the local model unless the settings name another folder. Without `cache_path`,
    or with no cache entries, nothing is cached. `http_client` carries requests to an endpoint (and
    with them the rules of egress); by default they go direct, or through `openai_proxy_url`. `wanted` is called
    between the steps of an embedding; what it raises ends it.
    """
    folder = settings.model_dir or model_dir
    local = MiniLM(folder, settings.threads, settings.batch_size, settings.batch_tokens, wanted=wanted)
    embedder: Embedder = local
    if settings.provider == "openai":
        embedder = OpenAIEmbedder(settings, http_client, wanted=wanted)
        if settings.fallback == "local":
            embedder = FallbackEmbedder(embedder, local)
    if cache_path is not None and settings.cache_entries:
        embedder = CachedEmbedder(embedder, EmbeddingCache(cache_path, settings.cache_entries))
    return embedder


class FallbackEmbedder:
    """Two models of which the second steps in for the first, but only where their vectors may be mixed.

    What decides is the fingerprint of the index that is embedded for. An index of the first model
    falls back only to a second of the same fingerprint. An index that the second built is served by
    the second alone, whether the first is well or not. A new index begins with the first model,
    lest an outage decide which model a corpus is bound to.
    """

    def __init__(self, first: Embedder, second: Embedder) -> None:
        self._first = first
        self._second = second

    @property
    def fingerprint(self) -> str:
        """The first model's."""
        return self._first.fingerprint

    @property
    def dimension(self) -> int:
        """The first model's."""
        return self._first.dimension

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """As `Embedder.embed`. Raises Unavailable, naming both models, where the second may not step in."""
        required = self.fingerprint if required_fingerprint is None else required_fingerprint
        if required == self._first.fingerprint:
            return self._first_then_second(texts, required)
        if required == self._second.fingerprint:
            return self._second.embed(texts, required)
        raise Conflict(
            f"the index was built with the embedding model {required}; the configured ones are "
            f"{self._first.fingerprint} and {self._second.fingerprint}"
        )

    def _first_then_second(self, texts: Sequence[str], required: str) -> Embedded:
        try:
            return self._first.embed(texts, required)
        except Unavailable as error:
            if self._second.fingerprint == required:
                return self._second.embed(texts, required)
            raise Unavailable(
                f"{error}; the fallback {self._second.fingerprint} may not step in, because the index holds "
                f"vectors of {required} and models are never mixed in one index"
            ) from error
