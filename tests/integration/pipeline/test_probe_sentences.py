"""The probe's sentences on a real index: which is compared, and what is left where the model goes away meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from contracts.errors import Unavailable
from contracts.gate import CoverageProbed, GateRequested
from ingest.embed.port import Embedded
from tests.support.in_process import Instance
from tests.support.valkey import Valkey
from workers.steps.probe import probe_coverage
from workers.wiring.embedding import EmbeddingService

BRIDGE = "The bridge is of steel. It was opened to traffic in 1894. Trams have crossed it ever since."
QUESTION = GateRequested(query="When was the bridge opened to traffic?")


class OneAnswer:
    """An embedding service that answers so many questions and is out of reach after that."""

    def __init__(self, service: EmbeddingService, answers: int) -> None:
        self._service, self._left = service, answers

    def __getattr__(self, name: str) -> object:
        return getattr(self._service, name)

    def embed_question(self, texts: Sequence[str], fingerprint: str) -> Embedded:
        if not self._left:
            raise Unavailable("the embedding model is out of reach")
        self._left -= 1
        return self._service.embed_question(texts, fingerprint)


@pytest.fixture
def instance(valkey: Valkey) -> Iterator[Instance]:
    instance = Instance(valkey, {})
    instance.adds(BRIDGE, "Valves open under pressure.")
    instance.works("chunk", "embed", "index")
    yield instance
    instance.close()


def probe(instance: Instance, answers: int) -> CoverageProbed:
    context = instance.context
    embedding = OneAnswer(context.embedding, answers)
    profile = context.profiles["default"]
    return probe_coverage(QUESTION, "default", profile, embedding, context.readers, context.page_memory)[0]  # type: ignore[arg-type]


def test_the_sentence_that_holds_most_of_the_question_is_compared_with_it(instance) -> None:
    probed = probe(instance, answers=2)
    [sentence] = probed.sentences
    assert sentence.chunk_id == probed.hits[0].chunk_id
    assert sentence.term_coverage == 1.0
    assert sentence.similarity > 0.5


def test_where_the_model_goes_away_meanwhile_the_words_of_the_sentence_are_left(instance) -> None:
    probed = probe(instance, answers=1)
    assert [(one.term_coverage, one.similarity) for one in probed.sentences] == [(1.0, None)]
    assert probed.hits[0].dense_similarity is not None
    assert probed.embedder_down is None
