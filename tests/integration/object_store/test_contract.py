"""The contract of an object store: one suite for folders, memory and S3's protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.contracts.errors import NotFound, Unavailable
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.settings import ObjectStoreSettings
from tests.support.instance import free_port
from tests.support.moto_server import BUCKET, KEYS, moto_serving


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_serving() as url:
        yield url


@pytest.fixture(params=["file", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "s3":
        for name, value in KEYS:
            monkeypatch.setenv(name, value)
        url = request.getfixturevalue("moto")
        return open_store(f"s3://{BUCKET}/{tmp_path.name}", ObjectStoreSettings(endpoint=url))
    place = f"file://{tmp_path}/store" if request.param == "file" else "memory:///"
    return open_store(place, ObjectStoreSettings())


def test_an_object_is_put_once(store: ObjectStore) -> None:
    assert store.create("a/one", b"first")
    assert not store.create("a/one", b"second")
    assert store.read("a/one") == b"first"


def test_one_of_many_puts_an_object_first(store: ObjectStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: store.create("a/race", b"%d" % number), range(16)))
    assert sum(made) == 1
    assert store.read("a/race") == b"%d" % made.index(True)


def test_objects_are_listed_with_sizes_and_the_stores_times(store: ObjectStore) -> None:
    before = store.now()
    for path in ("a/b/one", "a/two", "b/three"):
        store.write(path, path.encode())
    found = {one.path: one for one in store.listed("a")}
    assert set(found) == {"a/b/one", "a/two"}
    assert found["a/two"].size_bytes == 5
    assert found["a/two"].written_at >= before - 1
    assert store.look("a/two").written_at == pytest.approx(found["a/two"].written_at, abs=1)
    assert [one.path for one in store.listed("a", "a/b/one")] == ["a/two"]
    assert store.folders("a") == ["b"]
    assert list(store.listed("none")) == []


def test_the_stores_time_goes_on(store: ObjectStore) -> None:
    first = store.now()
    time.sleep(1.1)
    assert store.now() > first


def test_a_missing_object_is_named_and_may_be_removed(store: ObjectStore) -> None:
    for ask in (store.read, store.look):
        with pytest.raises(NotFound, match="a/none"):
            ask("a/none")
    store.write("a/there", b"")
    store.delete(["a/none", "a/there"])
    assert list(store.listed("a")) == []


def test_a_store_that_is_away_is_named_as_such_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS:
        monkeypatch.setenv(name, value)
    settings = ObjectStoreSettings(endpoint=f"http://127.0.0.1:{free_port()}", timeout_seconds=1, max_retries=1)
    store, begun = open_store(f"s3://{BUCKET}", settings), time.monotonic()
    for ask in (lambda: store.create("a", b""), lambda: store.now(), lambda: list(store.listed("a"))):
        with pytest.raises(Unavailable, match="does not answer"):
            ask()
    assert time.monotonic() - begun < 15
