"""No event holds more than about a second of embedding, whatever was handed in, and nothing is lost between the steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.document import Document
from sluice.contracts.event import Event
from sluice.contracts.ingest import ChunksEmbedded, ChunksPartlyEmbedded, DocumentChunked
from sluice.contracts.retrieval import Query, Strategy
from sluice.ingest.embed.batching import LOCAL_PORTION, Portion, end_of_portion, in_portions
from sluice.workers.steps import chunk as chunk_step
from tests.support.in_process import Instance
from tests.support.searching import searched
from tests.support.valkey import Valkey

SENTENCES = 1_400
"""Of eleven tokens each: three steps of the local model."""


@pytest.fixture
def instance(valkey: Valkey) -> Iterator[Instance]:
    instance = Instance(valkey, {"chunk": {"max_document_tokens": 20_000}})
    yield instance
    instance.close()


def book(subject: str, sentences: int = SENTENCES) -> str:
    return " ".join(f"Sentence {number} tells of the {subject} and its house." for number in range(sentences))


def bodies(instance: Instance, run_id: str, kind: str) -> list[Event]:
    return list(instance.context.ledger.events_of_kind(run_id, kind))


def test_a_long_document_is_embedded_in_steps_and_found_by_its_last_words(instance: Instance) -> None:
    run_id = instance.adds(book("badger"))
    instance.works("chunk", "embed", "index")
    [chunked] = bodies(instance, run_id, DocumentChunked.kind)
    steps = bodies(instance, run_id, ChunksPartlyEmbedded.kind)
    [embedded] = bodies(instance, run_id, ChunksEmbedded.kind)
    tokens = chunked.body_as(DocumentChunked).token_estimate
    assert len(steps) == tokens // LOCAL_PORTION.tokens >= 2
    assert embedded.body_as(ChunksEmbedded).chunk_count == len(chunked.body_as(DocumentChunked).chunks)
    run = instance.context.ledger.run(run_id)
    assert (run.status, run.dead_letters) == ("finished", 0)
    last = f"Sentence {SENTENCES - 1} tells of the badger and its house."
    found, _ = searched(Query(query=last, strategy=Strategy.VECTOR, top_k=1), instance.context)
    assert found.chunks[0].text.endswith(last)


def test_the_spend_of_all_steps_is_the_runs_and_nothing_stays_reserved(instance: Instance) -> None:
    run_id = instance.adds(book("badger"), max_tokens=200_000)
    instance.works("chunk", "embed", "index")
    run = instance.context.ledger.run(run_id)
    [chunked] = bodies(instance, run_id, DocumentChunked.kind)
    assert run.status == "finished"
    assert run.spend.tokens > chunked.body_as(DocumentChunked).token_estimate
    left = instance.context.ledger.budget_left(run_id).run
    assert left.tokens == 200_000 - run.spend.tokens


def test_documents_handed_in_together_travel_in_portions_of_a_second(instance: Instance) -> None:
    run_id = instance.adds(*(book(f"animal {number}", 180) for number in range(9)))
    instance.works("chunk", "embed", "index")
    events = [event.body_as(DocumentChunked) for event in bodies(instance, run_id, DocumentChunked.kind)]
    assert sum(len(event.document_ids) for event in events) == 9
    assert len(events) > 2
    assert max(event.token_estimate for event in events) <= LOCAL_PORTION.tokens
    assert instance.context.readers.reader("default").document_count == 9


def test_a_document_a_little_longer_than_a_portion_is_embedded_in_one_step(instance: Instance) -> None:
    run_id = instance.adds(book("badger", 400))
    instance.works("chunk", "embed", "index")
    [chunked] = bodies(instance, run_id, DocumentChunked.kind)
    assert 1 < chunked.body_as(DocumentChunked).token_estimate / LOCAL_PORTION.tokens <= 1.25
    assert bodies(instance, run_id, ChunksPartlyEmbedded.kind) == []
    assert instance.context.ledger.run(run_id).status == "finished"


def test_a_remainder_of_a_quarter_goes_with_the_portion_before_it() -> None:
    most = Portion(texts=8, tokens=100)
    assert end_of_portion([Portion(1, 50), Portion(1, 50), Portion(1, 25)], most) == 3
    assert end_of_portion([Portion(1, 50), Portion(1, 50), Portion(1, 26)], most) == 2
    assert end_of_portion([Portion(1, 10)] * 8 + [Portion(1, 5)] * 2, most) == 10
    assert end_of_portion([Portion(1, 10)] * 8 + [Portion(1, 5)] * 3, most) == 8
    assert end_of_portion([], most) == 0


def test_a_small_submission_is_indexed_between_two_steps_of_a_long_document(instance: Instance) -> None:
    documents = [{"id": "long", "text": book("badger")}]
    long = instance.service.add_documents(DocumentsRequest.model_validate({"documents": documents})).run_id
    instance.works("chunk")
    ledger = instance.context.ledger
    instance.works_once("embed")
    small = instance.adds("An otter swims on its back.")
    instance.works("chunk")
    instance.works_once("embed")
    instance.works("index")
    assert ledger.run(small).status == "finished"
    assert ledger.run(long).status == "open"
    found, _ = searched(Query(query="otter", top_k=1), instance.context)
    assert found.chunks[0].document_id == "doc-0"


def test_a_document_beyond_the_bound_is_read_up_to_it_and_the_gap_says_so(instance: Instance) -> None:
    run_id = instance.adds(book("badger", 3_000), "A small one beside it.")
    instance.works("chunk", "embed", "index")
    [gap] = instance.gaps(run_id)
    assert (gap.stage, gap.reason, gap.subject) == ("chunk", "document_cut", "doc-0")
    assert gap.lifted_by == "split the document"
    assert instance.context.readers.reader("default").document_count == 2


def test_a_document_that_asks_for_too_much_memory_is_a_gap_and_those_beside_it_are_found(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = chunk_step.chunk_to_limit

    def read(document: Document, *rest: object) -> object:
        if document.id == "doc-0":
            raise MemoryError
        return reading(document, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(chunk_step, "chunk_to_limit", read)
    run_id = instance.adds("A bomb.", "A small one beside it.")
    instance.works("chunk", "embed", "index")
    [gap] = instance.gaps(run_id)
    assert (gap.stage, gap.reason, gap.subject) == ("chunk", "memory", "doc-0")
    assert instance.context.readers.reader("default").document_count == 1
    assert instance.context.ledger.run(run_id).dead_letters == 0


def test_portions_hold_no_more_than_the_most_unless_one_item_alone_does() -> None:
    sizes = [Portion(1, 4), Portion(1, 4), Portion(1, 30), Portion(1, 1), Portion(1, 1), Portion(1, 1), Portion(1, 1)]
    parts = list(in_portions(sizes, Portion(texts=3, tokens=10)))
    assert parts == [slice(0, 2), slice(2, 3), slice(3, 6), slice(6, 7)]
    assert list(in_portions([], Portion(1, 1))) == []
