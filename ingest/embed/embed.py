"""The configured embedder: a model, behind a fallback, behind a choice by corpus, behind a cache.

    EmbeddingCache ── text seen before, by this model ──> its vector
          │ new
    model of the corpus, known by its fingerprint; an endpoint behind its circuit breaker
          │
    first model ── Unavailable ──> second model, only if its vectors are the same (`openai_fingerprint`)

`make_embedder` is the one place where embedders are put together. Nothing is loaded, opened or
connected until the first text is embedded. An endpoint that keeps failing gets no requests for a while: questions
proceed without it, chunks wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.contracts.errors import Conflict, EmbedderDown, Unavailable
from sluice.ingest.circuit_breaker import Breaker, BreakerRule
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import FINGERPRINTS, MiniLM
from sluice.ingest.embed.port import Embedded, Embedder, InFront
from sluice.ingest.settings import EmbedSettings

if TYPE_CHECKING:
    import httpx2

CACHE_ENTRIES = 200_000
"""Vectors kept by the hash of their text; of 384 dimensions 300 MB on disk."""


QUESTION_SECONDS = 3.0
"""Longest wait of a question for its vector: a hosted model takes half a second; without a vector BM25 answers."""


def make_embedder(
    settings: EmbedSettings,
    model_dir: Path,
    cache_path: Path | None,
    http_client: httpx2.Client | None = None,
    check_cancelled: CancelCheck = never_cancelled,
    *,
    for_questions: bool = False,
    endpoints: list[BreakingEmbedder] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Embedder:
    """Return the configured embedder, with every model that a corpus may have, or the index of its fallback.

    `model_dir` keeps the local model unless the settings name another folder. Without `cache_path`
    nothing is cached. `http_client` carries requests to an endpoint (and with them the rules of egress); by default
    they go direct, or through `openai_proxy_url`. `check_cancelled` is called between the steps of an embedding; what
    it raises ends it. Each endpoint is behind a circuit breaker, which reads seconds from `clock`, and is added to
    `endpoints`. With `for_questions`, an endpoint is called once, for at most `QUESTION_SECONDS`.
    """
    if for_questions:
        seconds = min(settings.openai_timeout_seconds, QUESTION_SECONDS)
        settings = settings.model_copy(update={"openai_timeout_seconds": seconds})
    asked: list[BreakingEmbedder] = []
    every = [settings, *(settings.changed_by(changed) for changed in settings.corpora.values())]
    if settings.provider == "local" or settings.fallback == "local":  # either precision is loaded only when used
        every += [settings.model_copy(update={"provider": "local", "precision": one}) for one in FINGERPRINTS]
    models = [_model(one, model_dir, http_client, check_cancelled, for_questions, clock, asked) for one in every]
    if endpoints is not None:
        endpoints += asked
    embedder = RoutingEmbedder(models) if len(models) > 1 else models[0]
    if cache_path is not None:
        embedder = CachedEmbedder(embedder, EmbeddingCache(cache_path, CACHE_ENTRIES))
    return embedder


def fingerprint_of_corpus(settings: EmbedSettings, corpus: str) -> str:
    """Return the fingerprint of the model for a corpus without vectors. A corpus with vectors keeps its model."""
    chosen = settings.of_corpus(corpus)
    if chosen.provider == "local":
        return FINGERPRINTS[chosen.precision]
    from sluice.ingest.embed.openai import endpoint_fingerprint

    return chosen.openai_fingerprint or endpoint_fingerprint(chosen)


def _model(
    settings: EmbedSettings,
    model_dir: Path,
    http_client: httpx2.Client | None,
    check_cancelled: CancelCheck,
    for_questions: bool,
    clock: Callable[[], float],
    endpoints: list[BreakingEmbedder],
) -> Embedder:
    local = MiniLM(
        settings.model_dir or model_dir, settings.threads, precision=settings.precision, check_cancelled=check_cancelled
    )
    if settings.provider == "local":
        return local
    from sluice.ingest.embed.openai import MAX_RETRIES, OpenAIEmbedder  # here: its client takes half a second to import

    max_retries = 0 if for_questions else MAX_RETRIES
    asked = OpenAIEmbedder(settings, http_client, check_cancelled=check_cancelled, max_retries=max_retries)
    endpoint = BreakingEmbedder(asked, ENDPOINT_RULE, clock=clock)
    endpoints.append(endpoint)
    falls_back = settings.fallback != "none" and settings.openai_fingerprint == local.fingerprint
    return FallbackEmbedder(endpoint, local) if falls_back else endpoint


class RoutingEmbedder(InFront):
    """Several models, chosen by the required fingerprint; the first if none is required."""

    def __init__(self, models: Sequence[Embedder]) -> None:
        super().__init__(models[0])
        self._models: dict[str, Embedder] = {}
        for model in models:
            self._models.setdefault(model.fingerprint, model)

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Embed as `Embedder.embed`, by the model of that fingerprint and no other."""
        required = self.fingerprint if required_fingerprint is None else required_fingerprint
        if required not in self._models:
            raise _not_configured(required, self._models)
        return self._models[required].embed(texts, required)

    def model_of(self, fingerprint: str) -> Embedder | None:
        """Return the model as `InFront.model_of`."""
        model = self._models.get(fingerprint)
        return model.model_of(fingerprint) if isinstance(model, InFront) else model


def _not_configured(required: str, models: Iterable[str]) -> Conflict:
    return Conflict(
        f"the index was built with the embedding model {required}; the configured ones are "
        f"{', '.join(models)}: configure the former again, or embed the corpus anew"
    )


class FallbackEmbedder(InFront):
    """Two models whose vectors are the same, of which the second replaces the first during an outage.

    A local model with other vectors has a second index instead (`workers.steps.embed`).
    """

    def __init__(self, first: Embedder, second: Embedder) -> None:
        super().__init__(first)
        self._second = second

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Embed as `Embedder.embed`."""
        try:
            return self._embedder.embed(texts, required_fingerprint)
        except Unavailable:
            return self._second.embed(texts, required_fingerprint)


PAUSE_SECONDS = 10.0
"""Pause between two tries of an endpoint that is down: the longest delay to notice that it is back."""
ENDPOINT_RULE = BreakerRule(window=4, least=3, pause_seconds=PAUSE_SECONDS)
"""Down after three failures of the last four calls: each may have cost a question its whole patience."""
PROBE_TEXT = "is the endpoint back"


class BreakingEmbedder(InFront):
    """An endpoint behind its circuit breaker. Safe across threads. `clock` returns monotonic seconds."""

    def __init__(self, embedder: Embedder, rule: BreakerRule, *, clock: Callable[[], float]) -> None:
        super().__init__(embedder)
        self._pause_seconds = rule.pause_seconds
        self._breaker = Breaker(rule, clock=clock)
        self._why = ""

    @property
    def failure(self) -> str | None:
        """Reason why the endpoint gets no requests; None while it does."""
        return self._why if self._breaker.is_open else None

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Embed as `Embedder.embed`.

        Raises EmbedderDown while the circuit is open, with or without a request. While it is closed, an error of the
        endpoint is raised unchanged: these texts may be its cause.
        """
        if not self._breaker.admit():
            raise EmbedderDown(self._told(), self._pause_seconds)
        try:
            embedded = self._embedder.embed(texts, required_fingerprint)
        except Unavailable as error:
            self._why = str(error)
            self._breaker.record(failed=True)
            if self._breaker.is_open:
                raise EmbedderDown(self._told(), self._pause_seconds) from error
            raise
        self._breaker.record(failed=False)
        return embedded

    def probe(self) -> None:
        """Send an endpoint that is down one short text, so that its return is noticed without any caller waiting."""
        if self._breaker.is_open:
            try:
                self.embed([PROBE_TEXT])
            except Unavailable:
                return

    def _told(self) -> str:
        return f"the embedding model {self.fingerprint} is out of reach: {self._why}"
