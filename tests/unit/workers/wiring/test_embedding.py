"""What an embedding endpoint may see: texts and questions with their secrets masked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sluice.ingest.embed.minilm import FINGERPRINTS
from sluice.ingest.embed.port import Embedded
from sluice.ingest.settings import EmbedSettings
from sluice.workers.wiring.models import EmbeddingService

ENDPOINT = EmbedSettings(provider="openai")


class Seeing:
    """An embedder that remembers what it was given."""

    fingerprint, dimension = "m", 3

    def __init__(self) -> None:
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        self.seen.extend(texts)
        return Embedded(np.ones((len(texts), 3), dtype=np.float32), required_fingerprint or "m")


def service(settings: EmbedSettings, embedder: Seeing) -> EmbeddingService:
    def nothing() -> object:
        raise AssertionError("not needed here")

    return EmbeddingService(
        settings,
        lambda: embedder,
        lambda: embedder,
        nothing,  # type: ignore[arg-type]
        lambda corpus: None,
        hide=lambda text: text.replace("hunter2", "[secret]"),
    )


def test_an_endpoint_sees_texts_and_questions_masked() -> None:
    seeing = Seeing()
    service(ENDPOINT, seeing).embed_by("endpoint", ["it is hunter2"])
    service(ENDPOINT, seeing).embed_question(["is it hunter2"], "endpoint")
    assert seeing.seen == ["it is [secret]", "is it [secret]"]


def test_the_local_model_sees_them_as_they_are() -> None:
    seeing = Seeing()
    service(EmbedSettings(), seeing).embed_by(FINGERPRINTS["int8"], ["it is hunter2"])
    service(ENDPOINT, seeing).embed_by(FINGERPRINTS["int8"], ["it is hunter2"])
    assert seeing.seen == ["it is hunter2", "it is hunter2"]


def test_tokens_are_matched_by_the_local_model_alone() -> None:
    assert service(ENDPOINT, Seeing()).match_tokens("is it hunter2", "it is hunter2", "m") is None
