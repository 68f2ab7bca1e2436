"""Blobs that nothing refers to are removed after a grace period, and no other, whatever happens meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import PolicyRefused
from sluice.contracts.event import DeadLetter, Done, Event, encode
from sluice.contracts.ingest import DocumentsSubmitted, RememberedPage
from sluice.ledger.database import Database
from sluice.ledger.retention import Pruning
from sluice.ledger.trust.blobs import Place
from sluice.workers.runtime import blob_store
from sluice.workers.runtime.blob_store import CYCLE_SECONDS, GRACE_SECONDS, BlobCollector, BlobStore
from tests.support.ledger_story import Story

Old = Callable[[bytes], BlobRef]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def blobs(root: Path) -> BlobStore:
    return BlobStore(root)


@pytest.fixture
def collector(story: Story, blobs: BlobStore) -> BlobCollector:
    story.clock.now = time.time()  # files have the time of the system
    return BlobCollector(blobs, story.ledger, story.clock)


@pytest.fixture
def old(root: Path, blobs: BlobStore) -> Old:
    """Keeps a body as if it had been put long ago."""

    def put(data: bytes) -> BlobRef:
        ref, long_ago = blobs.put(data), time.time() - 2 * GRACE_SECONDS
        [file] = root.rglob(f"{ref.sha256}*")
        os.utime(file, (long_ago, long_ago))
        return ref

    return put


def kept(blobs: BlobStore) -> set[str]:
    return {blob.sha256 for blob in blobs.kept()}


def submitted(story: Story, ref: BlobRef) -> Event:
    [event] = story.begins(DocumentsSubmitted(documents=ref, document_count=1))
    return event


def whole_cycle(collector: BlobCollector, story: Story) -> None:
    story.clock.passes(CYCLE_SECONDS)
    collector.tick()
    while collector.is_collecting:
        collector.tick()


def test_what_nothing_refers_to_goes_after_the_grace_period(
    story: Story, blobs: BlobStore, collector: BlobCollector, old: Old
) -> None:
    young, stale, used = blobs.put(b"young"), old(b"stale"), old(b"used")
    submitted(story, used)
    found = collector.measure()
    assert (found.referenced, found.young, found.collectable) == (1, 1, 1)
    assert found.collectable_bytes > 0
    assert kept(blobs) == {young.sha256, stale.sha256, used.sha256}
    whole_cycle(collector, story)
    assert kept(blobs) == {young.sha256, used.sha256}


def test_a_run_keeps_its_blobs_until_it_is_pruned(
    story: Story, blobs: BlobStore, collector: BlobCollector, old: Old
) -> None:
    ref = old(b"of a run that ended")
    story.handles(submitted(story, ref), Done())
    whole_cycle(collector, story)
    assert kept(blobs) == {ref.sha256}
    database = Database(story.url)
    Pruning(database, story.clock).prune(datetime.fromtimestamp(story.clock.now, UTC) + timedelta(days=1), "a test")
    database.close()
    whole_cycle(collector, story)
    assert kept(blobs) == set()


def test_a_dead_letter_keeps_its_blobs_those_of_its_past_payloads_too(
    story: Story, blobs: BlobStore, collector: BlobCollector, old: Old
) -> None:
    first, second = old(b"first"), old(b"second")
    event = submitted(story, first)
    story.handles(event, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
    [letter] = story.ledger.dead_letters.list()
    payload = encode(event).replace(first.sha256.encode(), second.sha256.encode())
    story.ledger.dead_letters.edit(letter.id, payload, "operator", "")
    with Database(story.url).installing() as connection:  # the letter outlives the events of a run that is gone
        connection.exec_driver_sql("DELETE FROM events")
    whole_cycle(collector, story)
    assert kept(blobs) == {first.sha256, second.sha256}


def test_a_known_page_keeps_its_body(story: Story, blobs: BlobStore, collector: BlobCollector, old: Old) -> None:
    body = old(b"<p>A page.")
    memory = story.ledger.page_memory(read_as="", is_there=lambda corpus: True)
    url = "https://example.org/"
    page = RememberedPage(
        url=url,
        final_url=url,
        document_id="doc_1",
        body_sha256=body.sha256,
        fetched_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    memory.remember("docs", page, run_id="run_1")
    whole_cycle(collector, story)
    assert kept(blobs) == {body.sha256}


def test_a_body_that_is_put_again_while_it_is_looked_at_stays(
    story: Story, blobs: BlobStore, collector: BlobCollector, old: Old
) -> None:
    ref = old(b"again")
    story.clock.passes(CYCLE_SECONDS)
    collector.tick()  # the cycle has begun, and the blob counts as old
    assert blobs.put(b"again") == ref
    while collector.is_collecting:
        collector.tick()
    assert blobs.get(ref) == b"again"


def test_a_tick_does_a_bounded_piece_of_work(
    story: Story, blobs: BlobStore, collector: BlobCollector, old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_store, "ROWS_PER_TICK", 2)
    monkeypatch.setattr(blob_store, "BLOBS_PER_TICK", 3)
    used = [old(b"used %d" % number) for number in range(5)]
    for ref in used:
        submitted(story, ref)
    for number in range(7):
        old(b"stale %d" % number)
    story.clock.passes(CYCLE_SECONDS)
    left = []
    while not left or collector.is_collecting:
        collector.tick()
        left.append(len(kept(blobs)))
    assert kept(blobs) == {ref.sha256 for ref in used}
    assert all(before - after <= 3 for before, after in pairwise(left))
    collector.tick()  # nothing to do before the next cycle
    assert not collector.is_collecting


def test_references_are_read_batch_by_batch_to_the_end(story: Story, blobs: BlobStore) -> None:
    refs = {submitted(story, blobs.put(b"%d" % number)).body_as(DocumentsSubmitted).documents for number in range(7)}
    found: set[str] = set()
    place: Place | None = Place()
    while place is not None:
        some, place = story.ledger.blob_references(place, 3)
        found |= some
    assert {ref.sha256 for ref in refs} <= found
