"""The weights of an embedding model, fitted to questions of a corpus: the local one's, and an endpoint's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.retrieval import Query
from sluice.disk.object_store import open_store
from sluice.evaluation.retrieval.cases import Case
from sluice.index.settings import ObjectStoreSettings
from sluice.trust.confidence import BY_MEANING
from sluice.workers.context import Context
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.training.fit_model import Fitted, fit_model
from sluice.workers.wiring.inject import assemble
from sluice.workers.wiring.models import ModelFit, ModelFits
from tests.support.in_process import Instance, MakeInstance
from tests.support.openai_endpoint import OpenAIEndpoint
from tests.support.repository import REPOSITORY
from tests.support.valkey import Valkey

CHARACTERS = 1_200


def adds(instance: Instance, texts: dict[str, str]) -> None:
    documents = [{"id": name, "text": text} for name, text in texts.items()]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works("chunk", "embed", "index")


def fitted(context: Context, questions: dict[str, str]) -> Fitted:
    cases = [Case(id=name, query=question, relevant={name: 1}) for name, question in questions.items()]
    return fit_model(assemble(Retriever, context), "docs", cases)


def test_the_local_models_weights_are_found_again_by_the_questions_of_our_decisions(
    make_instance: MakeInstance,
) -> None:
    texts, questions = {}, {}
    for path in sorted((REPOSITORY / "docs" / "decisions").glob("*.md")):
        whole = path.read_text("utf-8")
        if found := re.search(r"\*\*Question\.\*\*\s+(.+?)\n\n(.+)", whole, re.DOTALL):
            questions[path.stem], texts[path.stem] = " ".join(found[1].split()), found[2][:CHARACTERS]
    instance = make_instance()
    adds(instance, texts)
    fit = fitted(instance.context, questions)
    assert len(questions) >= 20
    assert fit.written is None, "its weights are built in"
    assert BY_MEANING.closeness / 2 < fit.formula.closeness < BY_MEANING.closeness * 3
    assert 0 < fit.formula.coverage < BY_MEANING.coverage * 3
    assert fit.confidence.turned_away["covered"] < 0.15 < 0.5 < fit.confidence.turned_away["topic missing"]


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    endpoint = OpenAIEndpoint()
    yield endpoint
    endpoint.dies()


def test_an_endpoints_weights_are_written_for_it_alone_and_judge_every_language(
    valkey: Valkey, endpoint: OpenAIEndpoint
) -> None:
    random = np.random.default_rng(3)
    words = {f"d{number}": [f"слово{one}" for one in random.choice(900, 12, replace=False)] for number in range(80)}
    sections = {"embed": endpoint.settings}
    instance = Instance(valkey, sections)
    adds(instance, {name: " ".join(text) for name, text in words.items()})
    questions = {name: " ".join([*random.choice(text, 4, replace=False), "где"]) for name, text in words.items()}
    query = Query(query=questions["d7"], corpus="docs", top_k=3, confidence_floor=0.2)
    absent = query.model_copy(update={"query": "другой вопрос ни о чём"})
    before, _ = assemble(Retriever, instance.context).retrieve(absent)
    assert len(before.chunks) == 3, "nothing is known of the model yet"
    assert "by the question's words alone" in (before.metadata.limits or "")
    fit = fitted(instance.context, questions)
    assert fit.written is not None
    assert fit.confidence.turned_away["covered"] < 0.1 < 0.8 < fit.confidence.turned_away["topic missing"]
    instance.close()
    context = Context(instance.context.settings)
    retriever = assemble(Retriever, context)
    found, _ = retriever.retrieve(query)
    assert found.chunks[0].document_id == "d7"
    assert (found.metadata.confidence or 0.0) > 0.7
    after, _ = retriever.retrieve(absent)
    assert (after.chunks, after.metadata.confidence_dropped) == ((), 3)
    first = found.chunks[0]
    cosine, words_score = 1.0 - (first.dense_distance or 0.0), first.lexical_score or 0.0
    assert first.fused_score == pytest.approx(cosine**2 + fit.fusion.lexical_weight * words_score, abs=0.001)
    assert context.readers.fits.of("words/32/another/l2") is None
    context.close()


def test_weights_of_another_model_in_a_file_of_that_name_are_not_used(tmp_path) -> None:
    fits = ModelFits(tmp_path)
    fit = ModelFit(fingerprint="one/32", lexical_weight=0.02, confidence=BY_MEANING)
    path = fits.write(fit)
    assert ModelFits(tmp_path).of("one/32") == fit
    path.replace(fits.write(fit.model_copy(update={"fingerprint": "two/32"})))
    assert ModelFits(tmp_path).of("two/32") is None
    assert ModelFits(tmp_path).of(None) is None


def test_weights_that_one_machine_fitted_are_those_of_all(tmp_path) -> None:
    store = open_store(f"file://{tmp_path}/store", ObjectStoreSettings())
    fit = ModelFit(fingerprint="one/32", lexical_weight=0.02, confidence=BY_MEANING)
    there = ModelFits(tmp_path / "there" / "fitted-models", store)
    assert there.of("two/32") is None
    ModelFits(tmp_path / "here" / "fitted-models", store).write(fit)
    assert there.of("one/32") == fit
