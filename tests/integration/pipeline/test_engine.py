"""`index.engine = "qdrant"`: a corpus is ingested, probed, searched and answered as with the local engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.contracts.api import GateRequest
from sluice.contracts.gate import CoverageProbed
from sluice.contracts.memory.api import LearningPatch
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Strategy
from sluice.workers.service.instance import check_health
from tests.support.in_process import Instance
from tests.support.loopback_qdrant import LoopbackQdrant, serving
from tests.support.memory.instance import Remembering, claude_stream
from tests.support.searching import searched
from tests.support.valkey import Valkey

CORPUS = "default"
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


@pytest.fixture
def qdrant() -> Iterator[LoopbackQdrant]:
    with serving() as server:
        yield server


@pytest.fixture
def instance(valkey: Valkey, qdrant: LoopbackQdrant) -> Iterator[Instance]:
    instance = Instance(valkey, {"index": {"engine": "qdrant"}, "qdrant": {"url": qdrant.url}})
    yield instance
    instance.close()


def test_a_corpus_in_qdrant_is_ingested_probed_searched_and_answered(instance) -> None:
    texts = ("A lease is renewed by a heartbeat.", "A badger sleeps in its sett.", "Valves open under pressure.")
    run_id = instance.adds(*texts)
    instance.works("chunk", "embed", "index")
    assert instance.context.ledger.run(run_id).status == "finished"

    for strategy in Strategy:
        found, _ = searched(Query(query="where do badgers sleep", strategy=strategy), instance.context)
        assert found.chunks[0].text == texts[1]
        assert found.generation is not None
        assert found.generation.startswith("q")
    assert instance.context.readers.reader(CORPUS).stats().engine == "qdrant"
    assert instance.context.readers.existing(CORPUS).has_document("doc-1")

    asked = instance.service.ask(GateRequest(query="how is a lease renewed", plan=Plan.RETRIEVE)).run_id
    instance.works("query", "gate", "query")
    (probed,) = instance.context.ledger.events_of_kind(asked, CoverageProbed.kind)
    assert probed.body_as(CoverageProbed).chunk_count == 3
    answer = instance.context.ledger.run(asked).answer
    assert answer is not None
    assert answer.citations[0].chunk_id == answer.chunks[0].chunk_id
    assert "heartbeat" in answer.context
    assert check_health(instance.context).checks["snapshot"].facts["corpora"][CORPUS]["chunks"] == 3

    instance.service.remove_document(CORPUS, "doc-1")
    instance.works("index")
    found, _ = searched(Query(query="badgers", strategy=Strategy.BM25), instance.context)
    assert found.chunks == ()


def test_a_corpus_moves_to_qdrant_by_configuration_alone(valkey, qdrant) -> None:
    local = Instance(valkey, {})
    local.adds("A lease is renewed by a heartbeat.", "A badger sleeps in its sett.")
    local.works("chunk", "embed", "index")
    query = Query(query="badger heartbeat", top_k=2)
    before, _ = searched(query, local.context)
    local.close()
    moved = Instance(valkey, {"index": {"engine": "qdrant"}, "qdrant": {"url": qdrant.url}})
    try:
        with moved.context.writers.writing(CORPUS) as writer:
            writer.publish()
            first = writer.rebuild().generation
            writer.rebuild()
        readers = moved.context.readers
        kept = readers.generations(CORPUS)
        assert [one.is_current for one in kept] == [True, False]
        assert readers.roll_back(CORPUS, kept[1].name).name == first.name == readers.reader(CORPUS).generation
        after, _ = searched(query, moved.context)
        assert [chunk.chunk_id for chunk in after.chunks] == [chunk.chunk_id for chunk in before.chunks]
        for one, other in zip(after.chunks, before.chunks, strict=True):
            assert one.dense_distance == pytest.approx(other.dense_distance, abs=1e-5)
    finally:
        moved.close()


def test_what_an_agent_remembers_is_recalled_from_qdrant_and_proved_against_the_journal(instance) -> None:
    memory = Remembering(instance)
    memory.record(claude_stream("s1", summary="The turquoise button breaks the checkout"))
    rejected = memory.learn("The tests need a running database").learning
    assert rejected is not None
    memory.index()
    with memory.query_worker():
        found = memory.memory.recall("auth", "why does the checkout break")
    assert (found.searched, found.behind) == ("hybrid", 0)
    assert "turquoise" in found.results[0].text
    memory.memory.patch("auth", rejected.id, LearningPatch(rejected=True))
    memory.index()
    proof = memory.memory.prove("auth")
    assert proof.is_equal
    assert proof.indexed == 1
    assert memory.memory.status().engine == "qdrant"
