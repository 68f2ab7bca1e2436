"""Embedding for corpora: each text by the model that its corpus is bound to, and what that may cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sluice.contracts.budget import Ceilings, Spend
from sluice.ingest.settings import EmbedSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from sluice.gate.profile import Profile
    from sluice.ingest.embed.batching import Portion
    from sluice.ingest.embed.port import Embedded, Embedder, Vectors


class EmbeddingService:
    """The configured embedder as corpora use it. Safe for threads; loads nothing before it is needed."""

    def __init__(
        self,
        settings: EmbedSettings,
        embedder: Callable[[], Embedder],
        question_embedder: Callable[[], Embedder],
        tokenizer: Callable[[], Tokenizer],
        model_of_corpus: Callable[[str], str | None],
        hide: Callable[[str], str] = str,
    ) -> None:
        """`model_of_corpus` returns the fingerprint of the model of a corpus's vectors; None where it has none.

        `question_embedder` has the models of `embedder` and gives up sooner. These and `tokenizer` are called at first
        use. `hide` masks what no outside service may see; the local model gets the texts as they are.
        """
        self._hide = hide
        self._settings = settings
        self._embedder = embedder
        self._question_embedder = question_embedder
        self._tokenizer = tokenizer
        self._model_of_corpus = model_of_corpus
        self._lock = threading.Lock()
        self._prototypes: dict[tuple[str, str], Mapping[str, Vectors]] = {}

    def embed_by(self, fingerprint: str, texts: Sequence[str]) -> Embedded:
        """Return vectors (n, d) of one model, for the index."""
        return self._embedder().embed(self._shown(texts, fingerprint), fingerprint)

    def embed_question(self, texts: Sequence[str], fingerprint: str) -> Embedded:
        """Return one model's vectors (n, d). Raises `Unavailable` or a child within seconds if it is out of reach."""
        return self._question_embedder().embed(self._shown(texts, fingerprint), fingerprint)

    def _shown(self, texts: Sequence[str], fingerprint: str) -> Sequence[str]:
        """Return the texts as the model with that fingerprint may see them."""
        if self._settings.uses_endpoint:
            from sluice.ingest.embed.minilm import FINGERPRINTS

            changed = map(self._settings.changed_by, self._settings.corpora.values())
            claimed = {one.openai_fingerprint for one in (self._settings, *changed)}
            if fingerprint in claimed or fingerprint not in FINGERPRINTS.values():
                return [self._hide(text) for text in texts]
        return texts

    def fingerprint(self, corpus: str) -> str:
        """Return the fingerprint of the model that the corpus is bound to, or will be."""
        from sluice.ingest.embed.embed import fingerprint_of_corpus

        return self._model_of_corpus(corpus) or fingerprint_of_corpus(self._settings, corpus)

    def portion(self, corpus: str, fingerprint: str | None = None) -> Portion:
        """Return the portion that is embedded at once for the corpus, by its model or the fallback's."""
        from sluice.ingest.embed.batching import LOCAL_PORTION, portion_of_a_second

        settings = self._settings.of_corpus(corpus)
        is_local = self._is_local_instead(settings, fingerprint)
        return LOCAL_PORTION if is_local else portion_of_a_second(settings)

    def reserve(self, texts: Sequence[str], corpus: str, ceilings: Ceilings, fingerprint: str | None = None) -> Spend:
        """Return the most that embedding the texts for a corpus may take, in the units that are under a ceiling.

        Tokens are only counted where that matters: for the local model they cost nothing, nor does a fallback.
        """
        from sluice.ingest.embed.batching import embedding_at_most

        settings = self._settings.of_corpus(corpus)
        if self._is_local_instead(settings, fingerprint):
            return Spend()
        is_paid = settings.provider != "local" and ceilings.least("usd") is not None
        if not texts or (ceilings.least("tokens") is None and not is_paid):
            return Spend()
        return ceilings.capped(embedding_at_most(texts, settings, self._tokenizer())) or Spend()

    def _is_local_instead(self, settings: EmbedSettings, fingerprint: str | None) -> bool:
        """Return whether a fingerprint is the local model's, where the settings name an endpoint."""
        from sluice.ingest.embed.minilm import FINGERPRINTS

        is_local = fingerprint in FINGERPRINTS.values() and fingerprint != settings.openai_fingerprint
        return is_local and settings.provider != "local"

    def prototypes(self, profile: Profile, fingerprint: str) -> Mapping[str, Vectors]:
        """Return the vectors of a profile's intent prototypes by one model, (n, d) for each intent."""
        key = profile.name, fingerprint
        with self._lock:
            if key not in self._prototypes:
                self._prototypes[key] = {
                    intent: self.embed_question(texts, fingerprint).vectors
                    for intent, texts in profile.prototypes().items()
                }
            return self._prototypes[key]
