"""The probe's sentences on a real index: when one is compared, and what is left where the model goes away meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from sluice.contracts.errors import Unavailable
from sluice.contracts.gate import CoverageProbed, GateRequested
from sluice.ingest.embed.port import Embedded
from sluice.workers.steps.probe import Probe
from sluice.workers.wiring.inject import assemble
from sluice.workers.wiring.models import EmbeddingService
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

BRIDGE = "The bridge is of steel. It was opened to traffic in 1894. Trams have crossed it ever since."
ANSWERED = "When was the bridge opened to traffic?"
HALF_ANSWERED = "Which company of Glasgow ran the first trams across, and how many people rode them?"


class FewAnswers:
    """An embedding service that answers so many questions and is out of reach after that; it counts what it is asked."""

    def __init__(self, service: EmbeddingService, answers: int) -> None:
        self._service, self._answers, self.asked = service, answers, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._service, name)

    def embed_question(self, texts: Sequence[str], fingerprint: str) -> Embedded:
        self.asked += 1
        if self.asked > self._answers:
            raise Unavailable("the embedding model is out of reach")
        return self._service.embed_question(texts, fingerprint)


@pytest.fixture
def instance(valkey: Valkey) -> Iterator[Instance]:
    instance = Instance(valkey, {})
    instance.adds(BRIDGE, "Valves open under pressure.")
    instance.works("chunk", "embed", "index")
    yield instance
    instance.close()


def probe(instance: Instance, question: str, answers: int) -> tuple[CoverageProbed, int]:
    """What is found, and how often the embedding service was asked."""
    context = instance.context
    embedding = FewAnswers(context.embedding, answers)
    request, profile = GateRequested(query=question), context.profiles["default"]
    asked = replace(assemble(Probe, context), embedding=embedding)  # type: ignore[arg-type]
    probed, _, _ = asked.measure(request, "default", profile)
    return probed, embedding.asked


def test_the_sentence_that_holds_most_of_the_question_is_compared_with_it(instance) -> None:
    probed, asked = probe(instance, HALF_ANSWERED, answers=2)
    [sentence] = probed.sentences
    assert sentence.chunk_id == probed.hits[0].chunk_id
    assert 0 < sentence.term_coverage < 1
    assert sentence.similarity > 0.3
    assert asked == 2


def test_where_the_passages_decide_no_sentence_is_embedded(instance) -> None:
    probed, asked = probe(instance, ANSWERED, answers=2)
    assert [(one.term_coverage, one.similarity) for one in probed.sentences] == [(1.0, None)]
    assert asked == 1


def test_where_the_model_goes_away_meanwhile_the_words_of_the_sentence_are_left(instance) -> None:
    probed, asked = probe(instance, HALF_ANSWERED, answers=1)
    assert [one.similarity for one in probed.sentences] == [None]
    assert probed.hits[0].dense_similarity is not None
    assert probed.embedder_down is None
    assert asked == 2
