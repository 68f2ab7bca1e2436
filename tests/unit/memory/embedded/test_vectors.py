"""Where vectors come from: a local model, an endpoint, or nowhere, and memory goes on by words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sluice.contracts.errors import PolicyRefused, Unavailable
from sluice.ingest.embed.port import Embedded
from sluice.memory import open_memory
from sluice.memory.config import EmbedderConfig, RagConfig
from sluice.memory.embedded.vectors import WORDS_ALONE, TextVectors, open_vectors, prefixed_fingerprint
from sluice.memory.qdrant_schema import CollectionConfig
from tests.support.memory.facts import record
from tests.support.openai_endpoint import DIMENSION, OpenAIEndpoint


@pytest.fixture
def endpoint() -> OpenAIEndpoint:
    return OpenAIEndpoint()


def config_of(endpoint: OpenAIEndpoint) -> RagConfig:
    embedder = EmbedderConfig(provider="endpoint", url=endpoint.base_url, model="words")
    return RagConfig(embedder=embedder, collection=CollectionConfig(size=DIMENSION))


def test_an_endpoint_makes_vectors_and_words_are_searched_while_it_is_away(
    endpoint: OpenAIEndpoint, tmp_path: Path
) -> None:
    with open_memory(tmp_path, config=config_of(endpoint)) as memory:
        for number in (1, 2):
            memory.record("auth", record(number).model_dump_json())
        assert memory.recall("auth", "middleware").searched == "hybrid"
        assert memory.status().embedding_model is not None
        asked = endpoint.asked
        endpoint.dies()
        memory.record("auth", record(3).model_dump_json())
        found = memory.recall("auth", "which shape does the middleware return")
        assert (found.searched, found.behind >= 1) == ("bm25", True)
        assert 3 in {one.iteration for one in found.results}
        status = memory.status()
        assert not status.embedder_available
        assert any("words alone" in problem for problem in status.problems)
    endpoint.starts()
    with open_memory(tmp_path, config=config_of(endpoint)) as memory:
        found = memory.recall("auth", "which shape does the middleware return")
        assert (found.searched, found.behind) == ("hybrid", 0)
    assert endpoint.asked > asked
    endpoint.dies()


def test_an_endpoint_that_the_environment_does_not_allow_gets_no_text(tmp_path: Path) -> None:
    embedder = EmbedderConfig(provider="endpoint", url="https://collector.example/v1", model="m")
    with pytest.raises(PolicyRefused):
        open_vectors(embedder, 384, tmp_path)
    with open_memory(tmp_path, config=RagConfig(embedder=embedder)) as memory:
        memory.record("auth", record(1).model_dump_json())
        assert memory.recall("auth", "middleware").searched == "journal"
        assert any("SLUICE_MEMORY_ALLOW" in problem for problem in memory.status().problems)


def test_a_folder_that_cannot_be_written_leaves_memory_with_words(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("no folder")
    vectors = open_vectors(EmbedderConfig(model_folder=tmp_path / "models"), 384, tmp_path)
    with pytest.raises(Unavailable):
        vectors.of_documents(["a text"])
    assert vectors.of_question("a text") is None
    assert vectors.why_not


def test_without_a_provider_there_are_no_vectors(tmp_path: Path) -> None:
    vectors = open_vectors(EmbedderConfig(provider="none"), 384, tmp_path)
    assert vectors.fingerprint == WORDS_ALONE
    assert vectors.of_documents(["a", "b"]).shape == (2, 1)
    assert vectors.of_question("a") is None


def test_what_a_model_wants_before_its_texts_is_put_there_and_makes_it_another_model(tmp_path: Path) -> None:
    class Echo:
        """Remembers what it was given."""

        fingerprint, dimension = "echo", 2
        given: tuple[str, ...] = ()

        def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
            self.given += tuple(texts)
            return Embedded(np.full((len(texts), 2), 0.5**0.5, dtype=np.float32), self.fingerprint)

    echo = Echo()
    vectors = TextVectors(echo, tmp_path / "v.sqlite", document_prefix="d: ", query_prefix="q: ")
    vectors.of_documents(["text"])
    vectors.of_question("question")
    assert echo.given == ("d: text", "q: question")
    assert vectors.fingerprint not in ("echo", prefixed_fingerprint("echo", "d: ", ""))
