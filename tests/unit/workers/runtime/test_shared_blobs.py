"""Blobs of several machines: each puts and gets by the store, and reads from its cache what it put itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import structlog

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Corrupted, NotFound, StoreDown
from sluice.contracts.ingest import DocumentsSubmitted
from sluice.disk.cache import FileCache
from sluice.disk.object_store import ObjectStore, Stored, open_store
from sluice.index.settings import ObjectStoreSettings
from sluice.workers.runtime.blob_store import CYCLE_SECONDS, GRACE_SECONDS, BlobCollector
from sluice.workers.runtime.shared_blobs import BLOBS, SharedBlobs, SharedPages
from tests.support.ledger_story import Story


class Counted(ObjectStore):
    """A store that names its requests, ages its objects, and may be away."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner._backend)  # noqa: SLF001
        self.requests: list[str] = []
        self.is_away = False
        self.ages: dict[str, float] = {}
        self.before_delete = lambda path: None

    def _asked(self, what: str) -> None:
        if self.is_away:
            raise StoreDown("the object store does not answer")
        self.requests.append(what)

    def create(self, path: str, content: bytes) -> bool:
        self._asked("create")
        made = super().create(path, content)
        if made:
            self.ages.pop(path, None)
        return made

    def write(self, path: str, content: bytes) -> None:
        self._asked("write")
        self.ages.pop(path, None)
        super().write(path, content)

    def read(self, path: str) -> bytes:
        self._asked("read")
        return super().read(path)

    def delete(self, paths: object) -> None:
        for path in list(paths):  # type: ignore[call-overload]
            self.before_delete(path)
            super().delete([path])

    def look(self, path: str) -> Stored:
        return self._aged(super().look(path))

    def listed(self, prefix: str, after: str | None = None) -> Iterator[Stored]:
        return map(self._aged, super().listed(prefix, after))

    def _aged(self, one: Stored) -> Stored:
        return one._replace(written_at=one.written_at - self.ages.get(one.path, 0.0))

    def ages_by(self, seconds: float) -> None:
        for one in ObjectStore.listed(self, BLOBS):
            self.ages[one.path] = self.ages.get(one.path, 0.0) + seconds


@pytest.fixture
def store() -> Counted:
    return Counted(open_store("memory:///", ObjectStoreSettings()))


def machine(store: ObjectStore, folder: Path) -> SharedBlobs:
    return SharedBlobs(store, BLOBS, FileCache(folder))


@pytest.fixture
def here(store: Counted, tmp_path: Path) -> SharedBlobs:
    return machine(store, tmp_path / "here")


@pytest.fixture
def there(store: Counted, tmp_path: Path) -> SharedBlobs:
    return machine(store, tmp_path / "there")


def test_a_body_is_put_in_one_request_and_read_here_without_one(here: SharedBlobs, store: Counted) -> None:
    ref = here.put(b"a body")
    assert here.get(ref) == b"a body"
    assert store.requests == ["create"]


def test_another_machine_reads_it_from_the_store_once(here: SharedBlobs, there: SharedBlobs, store: Counted) -> None:
    ref = here.put(b"a body")
    assert [there.get(ref) for _ in range(3)] == [b"a body"] * 3
    assert store.requests == ["create", "read"]
    assert there.named(ref.sha256) == b"a body"
    assert there.has(ref.sha256)
    assert [one.sha256 for one in there.kept()] == [ref.sha256]


def test_a_body_that_another_machine_put_is_written_again_once(
    here: SharedBlobs, there: SharedBlobs, store: Counted
) -> None:
    refs = {here.put(b"a body"), here.put(b"a body"), there.put(b"a body"), there.put(b"a body")}
    assert len(refs) == 1
    assert store.requests == ["create", "create", "create", "write", "create"]


def test_machines_put_the_same_body_at_once(store: Counted, tmp_path: Path) -> None:
    machines = [machine(store, tmp_path / str(number)) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        refs = set(pool.map(lambda one: one.put(b"the same" * 1_000), machines))
    assert len(refs) == 1
    assert all(one.get(*refs) == b"the same" * 1_000 for one in machines)
    assert len(list(store.listed(BLOBS))) == 1


def test_an_unknown_body_is_not_found(here: SharedBlobs) -> None:
    with pytest.raises(NotFound):
        here.get(BlobRef(sha256="0" * 64, size_bytes=1))
    assert not here.has("0" * 64)


@pytest.mark.parametrize("harm", [b"", b"garbage"])
def test_a_damaged_file_of_the_cache_is_noticed_and_read_anew(
    here: SharedBlobs, store: Counted, tmp_path: Path, harm: bytes
) -> None:
    ref = here.put(b"a body")
    [cached] = [path for path in (tmp_path / "here").rglob("*") if path.is_file()]
    cached.write_bytes(harm)
    with structlog.testing.capture_logs() as logs:
        assert here.get(ref) == b"a body"
    assert [one["event"] for one in logs] == ["cached_blob_damaged"]
    assert here.get(ref) == b"a body"
    assert store.requests == ["create", "read"]


@pytest.mark.parametrize("harm", [b"", b"garbage"])
def test_a_damaged_object_is_never_taken_for_the_body_and_mended_by_the_next_put(
    here: SharedBlobs, there: SharedBlobs, store: Counted, harm: bytes
) -> None:
    ref = here.put(b"a body")
    [one] = store.listed(BLOBS)
    store.write(one.path, harm)
    with pytest.raises(Corrupted):
        there.get(ref)
    there.put(b"a body")
    assert SharedBlobs(store).get(ref) == b"a body"


def test_while_the_store_is_away_a_body_is_not_put_and_the_cache_is_read(here: SharedBlobs, store: Counted) -> None:
    ref = here.put(b"a body")
    store.is_away = True
    assert here.get(ref) == b"a body"
    with pytest.raises(StoreDown):
        here.put(b"another")
    store.is_away = False
    assert here.get(here.put(b"another")) == b"another"


# -- collection


@pytest.fixture
def collector(story: Story, here: SharedBlobs) -> BlobCollector:
    return BlobCollector(here, story.ledger, story.clock)


def submitted(story: Story, ref: BlobRef) -> None:
    story.begins(DocumentsSubmitted(documents=ref, document_count=1))


def cycle(collector: BlobCollector, story: Story) -> None:
    story.clock.passes(CYCLE_SECONDS)
    collector.tick()
    while collector.is_collecting:
        collector.tick()


def test_the_clock_of_a_machine_decides_nothing(
    story: Story, collector: BlobCollector, here: SharedBlobs, there: SharedBlobs
) -> None:
    story.clock.passes(10 * GRACE_SECONDS)  # this machine is ten days ahead
    ref = there.put(b"put just now")
    cycle(collector, story)
    assert there.has(ref.sha256)


def test_what_is_unused_is_set_aside_and_goes_after_another_grace_period(
    story: Story, collector: BlobCollector, here: SharedBlobs, there: SharedBlobs, store: Counted
) -> None:
    stale, used = there.put(b"stale"), there.put(b"used")
    submitted(story, used)
    store.ages_by(GRACE_SECONDS + 60)
    young = there.put(b"young")
    found = collector.measure()
    assert (found.referenced, found.young, found.collectable) == (1, 1, 1)
    cycle(collector, story)
    assert {(one.sha256, one.is_set_aside) for one in here.kept()} == {
        (used.sha256, False),
        (young.sha256, False),
        (stale.sha256, True),
    }
    cycle(collector, story)
    assert here.get(stale) == b"stale"
    store.ages_by(GRACE_SECONDS + 60)
    submitted(story, young)
    cycle(collector, story)
    assert {one.sha256 for one in store_blobs(here)} == {used.sha256, young.sha256}


def store_blobs(blobs: SharedBlobs) -> list[BlobRef]:
    return [BlobRef(sha256=one.sha256, size_bytes=0) for one in blobs.kept()]


def test_a_body_that_is_put_between_the_look_and_the_removal_is_not_lost(
    story: Story, collector: BlobCollector, here: SharedBlobs, there: SharedBlobs, store: Counted
) -> None:
    ref = here.put(b"again")
    store.ages_by(GRACE_SECONDS + 60)

    def put_again(path: str) -> None:
        store.before_delete = lambda path: None
        there.put(b"again")

    store.before_delete = put_again
    cycle(collector, story)
    assert [one.is_set_aside for one in here.kept()] == [True]  # the new one went too
    submitted(story, ref)
    assert there.get(ref) == b"again"
    assert SharedBlobs(store).get(ref) == b"again"
    cycle(collector, story)
    assert [(one.sha256, one.is_set_aside) for one in here.kept()] == [(ref.sha256, False)]


def test_a_body_that_is_put_again_counts_as_new(
    story: Story, collector: BlobCollector, here: SharedBlobs, there: SharedBlobs, store: Counted
) -> None:
    ref = here.put(b"again")
    store.ages_by(GRACE_SECONDS + 60)
    there.put(b"again")
    cycle(collector, story)
    assert [one.is_set_aside for one in here.kept()] == [False]
    assert there.get(ref) == b"again"


def test_one_machine_collects_at_a_time(
    story: Story, here: SharedBlobs, there: SharedBlobs, store: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (BlobCollector(one, story.ledger, story.clock) for one in (here, there))
    story.clock.passes(CYCLE_SECONDS)
    first.tick()
    second.tick()
    assert (first.is_collecting, second.is_collecting) == (True, False)
    story.clock.passes(2 * CYCLE_SECONDS)  # the first was cut off
    second.tick()
    first.tick()
    assert (first.is_collecting, second.is_collecting) == (False, True)


def test_what_is_forgotten_goes_at_once_set_aside_or_not(
    story: Story, collector: BlobCollector, here: SharedBlobs, store: Counted, tmp_path: Path
) -> None:
    first, second = here.put(b"first"), here.put(b"second")
    store.ages_by(GRACE_SECONDS + 60)
    cycle(collector, story)
    first = here.put(b"first")
    assert here.remove_unused(first.sha256)
    assert here.remove_unused(second.sha256)
    assert not here.remove_unused(second.sha256)
    assert list(store.listed(BLOBS)) == []
    assert [path for path in (tmp_path / "here").rglob("*") if path.is_file()] == []


def test_a_cached_body_is_not_taken_for_one_that_was_put_lately(
    here: SharedBlobs, there: SharedBlobs, store: Counted, tmp_path: Path
) -> None:
    """The time of a put is noted where the put was: reading does not make it younger."""
    ref = here.put(b"a body")
    there.get(ref)
    store.requests.clear()
    there.put(b"a body")
    assert store.requests == ["create", "write"]
    [cached] = [path for path in (tmp_path / "there").rglob("*") if path.is_file()]
    os.utime(cached, (time.time(), time.time() - GRACE_SECONDS / 4 - 1))
    store.requests.clear()
    there.put(b"a body")
    assert store.requests == ["create", "write"]


# -- pages of which no copy may be kept


def test_a_page_without_a_copy_is_read_on_another_machine_and_goes_when_it_was_read(
    story: Story, store: Counted
) -> None:
    here, there = SharedPages(store), SharedPages(store)
    ref = here.of_crawl("run_1", "evt_1").put(b"<p>A page.")
    assert there.of_crawl("run_1", "evt_1").get(ref) == b"<p>A page."
    with pytest.raises(NotFound):
        there.of_crawl("run_1", "evt_2").get(ref)
    assert there.remove_read(story.ledger) == 1  # no event of that run is open
    assert list(store.listed("unarchived")) == []
    assert there.remove_read(story.ledger) == 0
