"""Answers say how confident they are, cite nothing below the floor, and say so where that leaves nothing."""

from __future__ import annotations

import pytest

from sluice.contracts.api import DocumentsRequest, FeedbackRequest, GateRequest
from sluice.contracts.event import Gap
from sluice.contracts.index import Answer
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched

SAMPLES = (
    "A lease is renewed by its holder every five seconds. A lease that is not renewed is free again after fifteen.",
    "The keeper of a canal lock opens the paddles first, so that the levels meet, and only then the gates.",
    "asyncio.gather runs awaitables concurrently and returns their results in the order in which they were given.",
)


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    instance = make_instance()
    documents = [{"id": f"doc-{number}", "text": text} for number, text in enumerate(SAMPLES)]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works("chunk", "embed", "index")
    return instance


def answered(instance: Instance, question: str, **fields: object) -> tuple[Answer, tuple[Gap, ...]]:
    request = GateRequest.model_validate({"query": question, "corpus": "docs", "plan": "retrieve", **fields})
    run_id = instance.service.ask(request).run_id
    instance.works("query", "gate", "query")
    run = instance.context.ledger.run(run_id)
    assert run.answer is not None
    return run.answer, run.missing


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("How often does the holder renew a lease?", "doc-0"),
        ("What does the lock keeper do before opening the gates?", "doc-1"),
        ("asyncio gather", "doc-2"),
        ("How do I run several coroutines at the same time in Python?", "doc-2"),
    ],
)
def test_the_smallest_corpus_answers_what_it_holds(instance: Instance, question: str, document: str) -> None:
    answer, _ = answered(instance, question)
    assert answer.chunks[0].document_id == document
    assert answer.confidence is not None
    assert (answer.limits is None) == (answer.confidence >= 0.7)
    matches = [one.match for one in answer.citations]
    assert matches == sorted(matches, reverse=True)
    assert answer.context.startswith(f"[1] {answer.citations[0].source} ({round(100 * matches[0])}% match)")
    assert all(one.confidence is not None and one.confidence >= 0.2 for one in answer.citations)


def test_a_question_on_an_absent_topic_is_told_that_nothing_was_found(instance: Instance) -> None:
    answer, gaps = answered(instance, "Which enzyme repairs mismatched bases in bacterial DNA?")
    assert (answer.citations, answer.context) == ((), "")
    [gap] = [gap for gap in gaps if gap.reason == "nothing_found"]
    assert "below the floor" in gap.detail
    assert "confidence_floor" in gap.lifted_by
    assert answer.limits is not None
    assert answer.limits.startswith("Confidence ")
    cited, _ = answered(instance, "Which enzyme repairs mismatched bases in bacterial DNA?", confidence_floor=0)
    assert len(cited.citations) == 3, "a request may ask for whatever is found"


@pytest.mark.parametrize("named", [{"filters": {"document_ids": ["doc-1"]}}, {"seeds": ["https://example.org/locks"]}])
def test_where_the_agent_names_what_to_read_there_is_no_floor_but_its_own(
    instance: Instance, named: dict[str, object]
) -> None:
    question = "Which enzyme repairs mismatched bases in bacterial DNA?"
    assert answered(instance, question, **named)[0].citations
    assert not answered(instance, question, **named, confidence_floor=0.2)[0].citations


@pytest.mark.parametrize(
    "question",
    [
        "How often does the holder renew a lease?",
        "How many keepers does the longest canal have?",
        "Which enzyme repairs mismatched bases in bacterial DNA?",
    ],
)
def test_the_gate_decides_by_the_confidence_that_the_answer_has(instance: Instance, question: str) -> None:
    request = GateRequest.model_validate({"query": question, "corpus": "docs", "plan": "retrieve"})
    run_id = instance.service.ask(request).run_id
    instance.works("query", "gate", "query")
    run = instance.context.ledger.run(run_id)
    assert run.answer is not None
    assert run.decision is not None
    assert run.decision.coverage_probability == run.answer.confidence
    abstains, goes_out = not run.answer.citations, run.decision.scored_plan in (Plan.SEARCH, Plan.FULL_LOOP)
    assert goes_out or not abstains, "where the answer would have nothing, the gate wants to search"


def test_a_query_keeps_every_passage_with_its_confidence_unless_it_names_a_floor(instance: Instance) -> None:
    question = "How often does the holder renew a lease?"
    every, _ = searched(Query(query=question, corpus="docs"), instance.context)
    assert [chunk.confidence is not None for chunk in every.chunks] == [True] * 3
    sure, _ = searched(Query(query=question, corpus="docs", confidence_floor=0.5), instance.context)
    assert [chunk.chunk_id for chunk in sure.chunks] == [every.chunks[0].chunk_id]
    assert sure.metadata.confidence_dropped == 2
    assert every.metadata.confidence == sure.metadata.confidence


@pytest.mark.parametrize(
    "question", ["Wie kocht man Nudeln mit Tomaten?", "¿Cuál es la capital de Francia?", "日本の首都は"]
)
def test_a_question_in_another_language_gets_nothing_that_its_words_do_not_find(
    instance: Instance, question: str
) -> None:
    answer, gaps = answered(instance, question)
    assert answer.citations == ()
    assert "English" in (answer.limits or "")
    assert "nothing_found" in {gap.reason for gap in gaps}


GERMAN = (
    "Die Kündigungsfrist für Wohnungen beträgt drei Monate zum Ende eines Monats, wenn der Mieter kündigt. "
    "Für den Vermieter verlängert sie sich nach fünf und nach acht Jahren um jeweils drei Monate."
)


def test_a_passage_in_another_language_is_found_by_a_question_with_its_words(make_instance: MakeInstance) -> None:
    instance = make_instance()
    documents = [{"id": "de", "text": GERMAN}, {"id": "en", "text": SAMPLES[1]}]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works("chunk", "embed", "index")
    assert not answered(instance, "What is the notice period for a tenant?")[0].chunks
    answer, _ = answered(instance, "Welche Kündigungsfrist gilt für den Mieter?")
    assert [chunk.document_id for chunk in answer.chunks] == ["de"]


def test_a_corpus_whose_answers_were_good_is_surer_and_the_evidence_is_recorded_beside_it(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, ledger = "How often does the holder of a canal renew a lease?", instance.context.ledger
    request = GateRequest.model_validate({"query": question, "corpus": "docs", "plan": "retrieve"})

    def asks() -> str:
        run_id = instance.service.ask(request).run_id
        instance.works("query", "gate", "query")
        return run_id

    runs = [asks() for _ in range(20)]
    before = ledger.outcomes.of_run(runs[0])
    assert before is not None
    for run_id in runs:
        instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome="success"))
    instance.works("gate")
    assert instance.context.priors.of("docs") == 0.0, "as it was read a moment ago"
    monkeypatch.setattr("sluice.workers.wiring.steering.PRIOR_SECONDS", 0.0)
    assert 0.0 < instance.context.priors.of("docs") <= 2.0
    after = ledger.run(latest := asks())
    assert after.answer is not None
    assert (after.answer.confidence or 0.0) > (before.confidence or 1.0)
    kept = ledger.outcomes.of_run(latest)
    assert kept is not None
    assert kept.confidence == pytest.approx(before.confidence, abs=0.001), "so the prior is not taken for evidence"
