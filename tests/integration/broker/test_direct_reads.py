"""Direct queries that ask for a journal offset: waiting for it holds no thread, and an impossible one is refused."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.contracts.document import ChunkBatch
from sluice.contracts.errors import InvalidInput
from sluice.contracts.ingest import ChunksEmbedded
from sluice.contracts.retrieval import Query, Strategy
from sluice.workers.broker.direct_query import ask_query_pool
from sluice.workers.broker.transport import ReadRequest
from sluice.workers.steps.embed import vectors_from_bytes
from sluice.workers.steps.retrieve import DirectReads
from tests.support.in_process import Instance, MakeInstance, one_thread_serves

CORPUS = "default"
BEYOND = 99_999


def asks(offset: int) -> Query:
    return Query(query="lease", corpus=CORPUS, strategy=Strategy.BM25, minimum_journal_offset=offset)


@pytest.fixture
def unpublished(make_instance: MakeInstance) -> Instance:
    """An instance whose journal holds a document that no generation covers yet."""
    instance = make_instance()
    run_id = instance.adds("A lease is renewed by a heartbeat.")
    instance.works("chunk", "embed")
    [event] = instance.context.ledger.events_of_kind(run_id, ChunksEmbedded.kind)
    embedded, blobs = event.body_as(ChunksEmbedded), instance.context.blobs
    vectors = vectors_from_bytes(blobs.get(embedded.vectors_blob), embedded.dimension)
    with instance.context.writers.writing(CORPUS) as writer:
        batch = ChunkBatch.model_validate_json(instance.context.blobs.get(embedded.chunks_blob))
        writer.append(batch, vectors, embedded.model_fingerprint)
    return instance


def ask(instance: Instance, offset: int, seconds: float = 10.0) -> bytes:
    return ask_query_pool(instance.context.transport, asks(offset), None, seconds)


def test_an_offset_that_the_journal_does_not_have_is_refused_at_once(unpublished: Instance) -> None:
    started = time.monotonic()
    with one_thread_serves(unpublished, DirectReads(unpublished.context)), ThreadPoolExecutor(8) as callers:
        for refused in [callers.submit(ask, unpublished, BEYOND) for _ in range(8)]:
            with pytest.raises(InvalidInput, match="ends at 1") as told:
                refused.result()
            assert (told.value.field, bool(told.value.remedy)) == ("minimum_journal_offset", True)
    assert time.monotonic() - started < 9


def test_queries_that_wait_stop_no_other_and_are_answered_once_they_are_covered(unpublished: Instance) -> None:
    with one_thread_serves(unpublished, DirectReads(unpublished.context)), ThreadPoolExecutor(8) as callers:
        waiting = [callers.submit(ask, unpublished, 1) for _ in range(7)]
        started = time.monotonic()
        assert json.loads(ask(unpublished, 0))["journal_offset"] == 0
        assert time.monotonic() - started < 8
        assert not any(one.done() for one in waiting)
        with unpublished.context.writers.writing(CORPUS) as writer:
            writer.publish()
        assert [json.loads(one.result())["journal_offset"] for one in waiting] == [1] * 7


def test_a_query_that_waits_in_vain_is_told_before_its_caller_gives_up(unpublished: Instance) -> None:
    now = [time.time()]
    reads = DirectReads(unpublished.context, clock=lambda: now[0])
    request = ReadRequest.of(asks(1), unpublished.context.settings.instance, None, 10.0)
    reads.take(request)
    reads.look()
    assert unpublished.context.transport.await_reply(request.reply_key, 0.1) is None
    now[0] += 9.8
    reads.look()
    reply = unpublished.context.transport.await_reply(request.reply_key, 1.0)
    assert reply is not None
    assert b"not yet 1" in reply


def test_what_waits_is_bounded(unpublished: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.workers.steps.retrieve.MOST_WAITING", 1)
    reads = DirectReads(unpublished.context)
    requests = [ReadRequest.of(asks(1), unpublished.context.settings.instance, None, 10.0) for _ in range(2)]
    for request in requests:
        reads.take(request)
    reply = unpublished.context.transport.await_reply(requests[1].reply_key, 1.0)
    assert reply is not None
    assert b"overloaded" in reply
