"""With `embed.fallback = "local"` an outage of the endpoint goes on in a second index, and nothing is lost with it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from sluice.contracts.api import GateRequest
from sluice.contracts.event import Queue
from sluice.contracts.gate import CoverageProbed
from sluice.contracts.operations.forget import ForgetRequest, Selection
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generation_names, rollback
from sluice.ingest.circuit_breaker import BreakerRule
from sluice.ingest.embed.minilm import FINGERPRINT
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.corpora import CorpusDesk
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.instance import check_health
from sluice.workers.steps.embed import fill_fallback
from sluice.workers.task import outage_pause_seconds
from sluice.workers.wiring.corpora import CorpusReaders
from tests.support.in_process import Instance, MakeInstance
from tests.support.openai_endpoint import OpenAIEndpoint
from tests.support.repository import MODELS
from tests.support.searching import searched
from tests.support.waiting import until

BEFORE = ("A lease is renewed by a heartbeat.", "A badger sleeps in its sett.", "Valves open under pressure.")
MEANWHILE = (*BEFORE, "An otter swims on its back.", "Glaciers carve valleys out of rock.")
STAGES: tuple[Queue, ...] = ("chunk", "embed", "index", "embed", "index")
RULE = BreakerRule(window=1, least=1, pause_seconds=0.05)
"""As the product's, sooner: down after one failure, asked again after a moment."""
OTTER = Query(query="which animal floats face up in a river", top_k=1)
"""It shares no word with its answer: a vector finds it, and BM25 does not."""


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ingest.embed.embed.ENDPOINT_RULE", RULE)
    monkeypatch.setattr("sluice.ingest.embed.openai.MAX_RETRIES", 0)


@pytest.fixture
def endpoint() -> Iterator[OpenAIEndpoint]:
    endpoint = OpenAIEndpoint()
    yield endpoint
    endpoint.dies()


@pytest.fixture
def instance(make_instance: MakeInstance, endpoint: OpenAIEndpoint) -> Instance:
    return _open(make_instance, endpoint)


def _open(make_instance: MakeInstance, endpoint: OpenAIEndpoint, fallback: str = "local") -> Instance:
    return make_instance(
        embed={**endpoint.settings, "fallback": fallback},
        crawl={"enabled": True},
        search={"enabled": True},
        delivery={"retry_base_seconds": 0.01},
    )


def _beside(instance: Instance) -> CorpusReaders:
    beside = instance.context.readers.beside
    assert beside is not None
    return beside


def _chunk_ids(readers: CorpusReaders, corpus: str = "default") -> list[str]:
    reader = readers.reader(corpus)
    return sorted(chunk.chunk_id for one in reader.all_facts() for chunk in reader.chunks(one.document_id))


def _fill(instance: Instance) -> int | None:
    context = instance.context
    return fill_fallback("default", context.settings.index_root, context.readers, context.writers, context.embedding)


def _works_on(instance: Instance) -> None:
    """What waits for the endpoint is tried again if it is due, and all that follows is done."""
    time.sleep(RULE.pause_seconds)
    instance.context.ledger.wake_due_retries()
    instance.works(*STAGES)


def _works_until_finished(instance: Instance, run_id: str) -> None:
    def is_finished() -> bool:
        _works_on(instance)
        return instance.context.ledger.run(run_id).status == "finished"

    until(is_finished)


def test_an_outage_goes_on_in_the_second_index_and_returns_with_the_same_chunks(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    first, second = instance.context.readers, _beside(instance)
    instance.adds(*BEFORE)
    instance.works(*STAGES)
    before = _chunk_ids(first)
    assert len(before) == len(BEFORE)
    assert _chunk_ids(second) == before
    assert first.reader("default").model_fingerprint != second.reader("default").model_fingerprint == FINGERPRINT

    endpoint.dies()
    run_id = instance.adds(*MEANWHILE)
    for _ in range(20):  # often enough for a stage to be paused
        _works_on(instance)
    during = _chunk_ids(second)
    assert _chunk_ids(first) == before
    assert len(during) == len(MEANWHILE)
    assert set(before) < set(during)
    found, _ = searched(OTTER, instance.context)
    assert found.chunks[0].text == MEANWHILE[3]
    assert (found.metadata.strategy, found.metadata.fallback_model) == (Strategy.HYBRID, FINGERPRINT)
    assert "out of reach" in (found.metadata.embedder_down or "")
    run = instance.context.ledger.run(run_id)
    assert (run.status, run.dead_letters, instance.context.ledger.paused()) == ("open", 0, [])

    endpoint.starts()
    _works_until_finished(instance, run_id)
    assert instance.context.ledger.run(run_id).dead_letters == 0
    assert _chunk_ids(first) == _chunk_ids(second) == during
    found, _ = searched(Query(query=MEANWHILE[3], top_k=1), instance.context)
    assert found.chunks[0].text == MEANWHILE[3]
    assert (found.metadata.embedder_down, found.metadata.fallback_model) == (None, None)


def test_a_run_is_probed_and_answered_from_the_second_index(instance: Instance, endpoint: OpenAIEndpoint) -> None:
    instance.adds(*BEFORE)
    instance.works(*STAGES)
    endpoint.dies()
    instance.adds(*MEANWHILE)
    _works_on(instance)
    run_id = instance.service.ask(GateRequest(query="An otter swims on its back?", plan=Plan.RETRIEVE)).run_id
    instance.works("query", "gate", "query")
    run = instance.context.ledger.run(run_id)
    assert run.answer is not None
    assert run.answer.chunks[0].text == MEANWHILE[3]
    assert run.answer.journal_offset == instance.context.readers.reader("default").journal_offset
    [probed] = instance.context.ledger.events_of_kind(run_id, CoverageProbed.kind)
    assert probed.body_as(CoverageProbed).model_fingerprint == FINGERPRINT
    assert len(probed.body_as(CoverageProbed).hits) == len(MEANWHILE)
    assert "embedder_down" in {gap.reason for gap in run.missing}


def test_a_corpus_that_begins_in_an_outage_is_found_at_once(instance: Instance, endpoint: OpenAIEndpoint) -> None:
    endpoint.dies()
    run_id = instance.adds(*MEANWHILE)
    _works_on(instance)
    found, _ = searched(OTTER, instance.context)
    assert (found.chunks[0].text, found.metadata.fallback_model) == (MEANWHILE[3], FINGERPRINT)
    endpoint.starts()
    _works_until_finished(instance, run_id)
    assert _chunk_ids(instance.context.readers) == _chunk_ids(_beside(instance)) != []


def test_a_second_index_that_lacks_documents_answers_nothing_until_it_is_filled(
    make_instance: MakeInstance, endpoint: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = _open(make_instance, endpoint, "none")
    without.adds(*MEANWHILE)
    without.works(*STAGES)
    assert not _beside(without).exists("default")
    without.context.writers.close()

    instance = _open(make_instance, endpoint)
    instance.adds("A violin has four strings.")
    instance.works(*STAGES)
    assert len(_chunk_ids(_beside(instance))) == 1
    endpoint.dies()
    found, _ = searched(OTTER, instance.context)
    assert (found.metadata.strategy, found.metadata.fallback_model) == (Strategy.BM25, None)
    instance.context.writers.close()
    monkeypatch.setenv("SLUICE_DATA_DIR", str(instance.context.settings.data_dir))
    for name, value in {**endpoint.settings, "fallback": "local", "model_dir": MODELS}.items():
        monkeypatch.setenv(f"SLUICE_EMBED__{name.upper()}", str(value))
    rebuilt = CliRunner().invoke(app, ["rebuild", "--json"], prog_name="sluice")
    assert json.loads(rebuilt.stdout)["fallback_chunks"] == len(MEANWHILE) - 1
    assert _fill(instance) == 0
    assert _chunk_ids(_beside(instance)) == _chunk_ids(instance.context.readers)
    found, _ = searched(OTTER, instance.context)
    assert (found.chunks[0].text, found.metadata.fallback_model) == (MEANWHILE[3], FINGERPRINT)


def test_removals_and_forgetting_reach_the_second_index_and_the_proof_looks_there(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    context, first, second = instance.context, instance.context.readers, _beside(instance)
    instance.adds(*BEFORE)
    instance.works(*STAGES)
    endpoint.dies()
    added = instance.adds(*MEANWHILE)
    _works_on(instance)
    instance.service.remove_document("default", "doc-0")
    instance.works("index")
    assert {one.document_id for one in second.reader("default").all_facts()} == {f"doc-{n}" for n in (1, 2, 3, 4)}

    desk, selection = ForgetDesk(context), Selection(run_id=added)
    traced = {one.place: one.found for one in desk.prove("default", selection, OWN_MACHINE).traces}
    assert traced["what queries find"] == ()
    assert traced["what queries find, of the fallback's index"] == ("doc-3", "doc-4")
    forgetting = desk.forget(ForgetRequest(run_id=added), OWN_MACHINE).run_id
    instance.works("index")
    assert {one.document_id for one in second.reader("default").all_facts()} == {"doc-1", "doc-2"}

    endpoint.starts()  # the waiting chunks come, and are kept out
    _works_until_finished(instance, forgetting)
    assert _chunk_ids(first) == _chunk_ids(second)
    assert {one.document_id for one in first.reader("default").all_facts()} == {"doc-1", "doc-2"}
    assert not [one for one in desk.prove("default", selection, OWN_MACHINE).traces if one.found]


def test_a_removal_that_is_delivered_again_repairs_what_a_kill_left(instance: Instance) -> None:
    instance.adds(*BEFORE)
    instance.works(*STAGES)
    with instance.context.writers.writing("default") as writer:  # as if killed before the other of the two journals
        writer.remove(["doc-0"])
    instance.context.writers.remove("default", ["doc-0"])
    with instance.context.writers.both("default") as (first, second):
        first.publish()
        assert second is not None
        second.publish()
    assert _chunk_ids(instance.context.readers) == _chunk_ids(_beside(instance))
    assert len(_chunk_ids(_beside(instance))) == len(BEFORE) - 1


def test_after_a_rollback_the_second_index_does_not_bring_back_what_was_left_out(
    instance: Instance, endpoint: OpenAIEndpoint
) -> None:
    root, readers = instance.context.settings.index_root, instance.context.readers
    for texts in (BEFORE, MEANWHILE):
        instance.adds(*texts)
        instance.works(*STAGES)
    assert readers.fallback("default") is not None
    rollback(root, "default", list_generation_names(CorpusLayout(root, "default"))[1])
    endpoint.dies()
    found, _ = searched(OTTER, instance.context)
    assert (found.metadata.strategy, found.metadata.fallback_model) == (Strategy.BM25, None)


def test_what_waits_is_tried_the_more_rarely_the_longer_it_waits() -> None:
    assert [outage_pause_seconds(10, age) for age in (0, 30, 60, 600, 86_400)] == [10, 10, 15, 150, 300]


def test_health_says_what_answers_meanwhile(instance: Instance) -> None:
    instance.context.transport.say_embedder_down("words/32: connection refused")
    detail = check_health(instance.context).checks["embedder"].detail
    assert "connection refused: questions are answered by the fallback's index" in detail


def test_an_import_fills_both_indices(instance: Instance) -> None:
    instance.adds(*BEFORE)
    instance.works(*STAGES)
    desk = CorpusDesk(instance.context)
    link = desk.export("default", OWN_MACHINE).links["artefact"]
    instance.works("index")
    run_id = desk.bring_in("docs", link.rpartition("/")[2], OWN_MACHINE).run_id
    instance.works("index", *STAGES)
    assert _chunk_ids(instance.context.readers, "docs") == _chunk_ids(_beside(instance), "docs")
    assert len(_chunk_ids(_beside(instance), "docs")) == len(BEFORE)
    assert instance.context.ledger.run(run_id).status == "finished"
