"""What is published is in the object store before anybody is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import StoreDown
from sluice.contracts.event import Done, Event
from sluice.contracts.index import DocumentIndexed, SnapshotPublished
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.remote.snapshots import list_stored_generations, pull, read_stored_current
from sluice.index.settings import ObjectStoreSettings
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.handlers import HANDLERS
from sluice.workers.settings import Settings
from tests.support.metric import value_of
from tests.support.valves import valve

MakeParts = Callable[..., Context]


@pytest.fixture
def make_parts(tmp_path: Path) -> Iterator[MakeParts]:
    with ExitStack() as opened:

        def make(url: str | None, **index: Any) -> Context:
            settings = {"data_dir": tmp_path / "data", "object_store": {"url": url}, "index": index}
            context = Context(Settings.model_validate(settings))
            opened.callback(context.close)
            return context

        yield make


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "store").as_uri()


def _publish(context: Context, number: int, *, erase: bool = False) -> str:
    with context.writers.writing("default") as writer:
        offset = writer.append(*valve(number))
    body = DocumentIndexed(document_ids=(f"d{number}",), chunk_count=1, journal_offset=offset, erase=erase)
    done = HANDLERS["DocumentIndexed"](Event.of(body, run_id="run", corpus="default"), context)
    assert isinstance(done, Done)
    published = done.emits[0].body
    assert isinstance(published, SnapshotPublished)
    return published.generation


def _store(url: str) -> ObjectStore:
    return open_store(f"{url}/index", ObjectStoreSettings())


def _pushes(outcome: str) -> float:
    return value_of(metrics.SNAPSHOT_PUSHES, outcome=outcome)


def test_what_is_published_is_in_the_store_by_the_time_the_worker_ends(url, tmp_path) -> None:
    before, bytes_before = _pushes("ok"), value_of(metrics.SNAPSHOT_PUSHED_BYTES)
    context = Context(Settings.model_validate({"data_dir": tmp_path / "data", "object_store": {"url": url}}))
    for number in range(3):
        name = _publish(context, number)
    context.close()
    assert read_stored_current(_store(url), "default") == name
    assert pull(tmp_path / "away", "default", _store(url)).generation == name
    assert _pushes("ok") > before
    assert value_of(metrics.SNAPSHOT_PUSHED_BYTES) > bytes_before


def test_a_store_that_fails_is_counted_and_the_event_comes_again(make_parts, url, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise StoreDown("the object store does not answer", 5.0)

    context = make_parts(url)
    context.index_owner.check()
    before = _pushes("failed")
    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "upload", away)
        with pytest.raises(StoreDown):
            _publish(context, 1)
    assert _pushes("failed") == before + 1
    assert _publish(context, 1) == read_stored_current(_store(url), "default")


def test_the_store_holds_few_generations_however_many_are_published(make_parts, url) -> None:
    context = make_parts(url, keep_generations=2)
    for number in range(7):
        _publish(context, number)
    assert len(list_stored_generations(_store(url), "default")) <= 4


def test_without_a_store_nothing_is_sent(make_parts) -> None:
    before = _pushes("ok") + _pushes("failed")
    context = make_parts(None)
    _publish(context, 1)
    assert _pushes("ok") + _pushes("failed") == before


def test_after_an_erasure_the_store_holds_the_new_snapshot_alone(url: str, make_parts: MakeParts) -> None:
    context = make_parts(url, keep_generations=5)
    for number in range(2):
        _publish(context, number)
    assert len(list_stored_generations(_store(url), "default")) == 2
    last = _publish(context, 2, erase=True)
    assert list_stored_generations(_store(url), "default") == [last]
    assert read_stored_current(_store(url), "default") == last
