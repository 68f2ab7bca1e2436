"""Snapshots in an object store: only new files travel, nothing damaged is ever put in place."""

from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from obstore.store import MemoryStore

from sluice.contracts.errors import Conflict, Corrupted, InvalidSetting, NotFound, Unavailable
from sluice.contracts.retrieval import Query, Strategy
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.folder import CorpusLayout
from sluice.index.generations.manifest import load_manifest, make_generation_name
from sluice.index.generations.publish import list_generation_names, read_current_name, verify
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.remote.snapshots import list_stored_generations, prune, pull, push, read_stored_current
from sluice.index.settings import ObjectStoreSettings, QuerySettings
from tests.support.loopback_s3 import LoopbackS3, serving

SETTINGS = WritePolicy()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def away(tmp_path: Path) -> Path:
    return tmp_path / "away"


@pytest.fixture
def writer(home: Path):
    with IndexWriter(home, "c", SETTINGS) as writer:
        yield writer


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore(MemoryStore())


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    with serving() as bucket:
        yield bucket


def _s3(bucket: LoopbackS3, **changes: object) -> ObjectStore:
    settings = {"endpoint": bucket.url, "max_retries": 2, "timeout_seconds": 5.0, **changes}
    return open_store("s3://bucket/some/prefix", ObjectStoreSettings.model_validate(settings))


def _answers(root: Path) -> list[tuple[str, float]]:
    reader = IndexReader(root, "c", QuerySettings())
    try:
        found = reader.search(Query(query="common beta", corpus="c", strategy=Strategy.BM25, top_k=50))
        return [(chunk.chunk_id, chunk.fused_score) for chunk in found.chunks]
    finally:
        reader.close()


def _publish(make, writer: IndexWriter, count: int, start: int = 0) -> str:
    writer.append(*make.batch(make.many(count, start=start)))
    return writer.publish().name


def test_a_reader_elsewhere_that_only_pulls_gives_the_same_answers(make, writer, store, home, away) -> None:
    name = _publish(make, writer, 20)
    pushed = push(home, "c", store)
    pulled = pull(away, "c", store)
    assert (pushed.generation, pulled.generation) == (name, name)
    assert pushed.bytes_moved == pulled.bytes_moved > 0
    assert verify(away, "c", name).chunk_count == 40
    assert _answers(away) == _answers(home)
    assert len(_answers(away)) == 40


def test_only_new_files_travel(make, writer, store, home, away) -> None:
    _publish(make, writer, 400)
    first = push(home, "c", store)
    pull(away, "c", store)
    _publish(make, writer, 1, start=400)
    second, down = push(home, "c", store), pull(away, "c", store)
    assert second.bytes_moved == down.bytes_moved < first.bytes_moved / 5
    assert second.bytes_present == down.bytes_present > first.bytes_moved / 2
    again, nothing = push(home, "c", store), pull(away, "c", store)
    assert (again.files_moved, again.bytes_moved, nothing.files_moved) == (0, 0, 0)
    assert _answers(away) == _answers(home)


def test_an_earlier_generation_is_pulled_by_name(make, writer, store, home, away) -> None:
    old = _publish(make, writer, 3)
    push(home, "c", store)
    new = _publish(make, writer, 3, start=3)
    push(home, "c", store)
    assert list_stored_generations(store, "c") == [new, old]
    assert pull(away, "c", store, old).generation == old
    assert read_current_name(CorpusLayout(away, "c")) == old
    with pytest.raises(NotFound, match="has no"):
        pull(away, "c", store, "g00000009-0123456789abcdef")


def test_what_was_never_pushed_is_not_found(writer, store, home, away) -> None:
    with pytest.raises(NotFound, match="no generation yet"):
        push(home, "c", store)
    with pytest.raises(NotFound, match="c/CURRENT"):
        pull(away, "c", store)


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_corrupt_object_is_refused_and_nothing_is_put_in_place(make, writer, store, home, away, damage) -> None:
    old = _publish(make, writer, 3)
    push(home, "c", store)
    pull(away, "c", store)
    before = _answers(away)
    new = _publish(make, writer, 30, start=3)
    push(home, "c", store)
    kept = {entry.sha256 for entry in load_manifest(home / "c/generations" / old).files.values()}
    entries = load_manifest(home / "c/generations" / new).files.values()
    victim = next(entry for entry in entries if entry.sha256 not in kept and entry.size_bytes > 10)
    path = f"c/files/{victim.sha256}"
    content = bytearray(store.read(path))
    content[len(content) // 2] ^= 1
    if damage == "gone":
        store.delete([path])
    else:
        store.write(path, bytes(content) if damage == "flip" else bytes(content[:-1]))
    with pytest.raises(Corrupted, match=victim.sha256):
        pull(away, "c", store)
    layout = CorpusLayout(away, "c")
    assert (read_current_name(layout), list_generation_names(layout)) == (old, [old])
    assert [path.name for path in layout.generations.iterdir()] == [old]
    assert _answers(away) == before


def test_a_manifest_that_is_not_the_one_its_name_vouches_for_is_refused(make, writer, store, home, away) -> None:
    name = _publish(make, writer, 3)
    push(home, "c", store)
    path = f"c/generations/{name}/manifest.json"
    store.write(path, store.read(path).replace(b'"c"', b'"d"'))
    with pytest.raises(Corrupted, match="does not match the hash in its name"):
        pull(away, "c", store)
    store.write("c/CURRENT", b"../../../etc")
    with pytest.raises(Corrupted, match="no name of one"):
        pull(away, "c", store)


def test_a_manifest_cannot_name_files_outside_its_generation(make, writer, store, home, away) -> None:
    name = _publish(make, writer, 3)
    manifest = load_manifest(home / "c/generations" / name)
    entry = next(iter(manifest.files.values()))
    evil = manifest.model_copy(update={"files": {"../../evil": entry}}).encode()
    evil_name = make_generation_name(7, evil)
    store.write(f"c/generations/{evil_name}/manifest.json", evil)
    with pytest.raises(Corrupted, match="outside a generation"):
        pull(away, "c", store, evil_name)
    assert not (away / "c").exists()


def test_a_damaged_file_here_is_never_pushed(make, writer, store, home) -> None:
    name = _publish(make, writer, 3)
    folder = home / "c/generations" / name
    path = max(
        (path for path in folder.rglob("*") if path.name != "manifest.json"),
        key=lambda path: path.stat().st_size if path.is_file() else 0,
    )
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupted, match="damaged"):
        push(home, "c", store)
    with pytest.raises(NotFound):
        read_stored_current(store, "c")


class _Stopped(Exception):
    pass


class _Interrupted(ObjectStore):
    """The same store, whose line breaks after so many file transfers."""

    def __init__(self, store: ObjectStore, transfers: int) -> None:
        self.__dict__.update(store.__dict__)
        self._left = transfers
        self._lock = threading.Lock()

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise _Stopped

    def upload(self, path: str, file: Path) -> None:
        self._count()
        super().upload(path, file)

    def download(self, path: str, size_bytes: int, target: Path) -> str:
        self._count()
        return super().download(path, size_bytes, target)


def test_a_push_that_ends_half_way_is_harmless_and_the_next_one_completes_it(make, writer, store, home, away) -> None:
    old = _publish(make, writer, 3)
    push(home, "c", store)
    new = _publish(make, writer, 30, start=3)
    with pytest.raises(_Stopped):
        push(home, "c", _Interrupted(store, 2))
    assert read_stored_current(store, "c") == old
    assert pull(away, "c", store).generation == old
    assert push(home, "c", store).generation == new
    assert pull(away, "c", store).generation == new
    assert _answers(away) == _answers(home)


def test_a_pull_that_ends_half_way_leaves_the_old_generation_serving(make, writer, store, home, away) -> None:
    old = _publish(make, writer, 3)
    push(home, "c", store)
    pull(away, "c", store)
    reader = IndexReader(away, "c", QuerySettings())
    new = _publish(make, writer, 30, start=3)
    push(home, "c", store)
    with pytest.raises(_Stopped):
        pull(away, "c", _Interrupted(store, 2))
    assert reader.reload() == old
    layout = CorpusLayout(away, "c")
    assert [path.name for path in layout.generations.iterdir()] == [old]
    pull(away, "c", store)
    assert reader.reload() == new
    reader.close()


def test_a_damaged_generation_here_is_made_whole_by_pulling_it_again(make, writer, store, home, away) -> None:
    name = _publish(make, writer, 30)
    push(home, "c", store)
    pull(away, "c", store)
    path = next(path for path in (away / "c/generations" / name / "segments").iterdir())
    path.write_bytes(path.read_bytes()[:-1] + b"\x00\x01")
    with pytest.raises(Corrupted):
        verify(away, "c", name)
    healed = pull(away, "c", store)
    assert healed.files_moved == 1
    verify(away, "c", name)
    assert _answers(away) == _answers(home)


def test_pulling_over_a_corpus_with_a_journal_of_its_own_is_refused(make, writer, store, home, away) -> None:
    _publish(make, writer, 5)
    push(home, "c", store)
    with IndexWriter(away, "c", SETTINGS) as other:
        other.append(*make.batch(make.many(1, start=90)))
        with pytest.raises(Unavailable, match="another writer"):
            pull(away, "c", store)
    with pytest.raises(Conflict, match="journal of its own"):
        pull(away, "c", store)


def test_nobody_writes_to_a_corpus_that_was_only_pulled(make, writer, store, home, away) -> None:
    _publish(make, writer, 5)
    push(home, "c", store)
    pull(away, "c", store)
    with pytest.raises(Corrupted, match="restore the journal"):
        IndexWriter(away, "c", SETTINGS)
    _publish(make, writer, 5, start=5)
    push(home, "c", store)
    assert pull(away, "c", store).files_moved > 0


def test_pull_keeps_only_so_many_generations(make, writer, store, home, away) -> None:
    for start in range(4):
        _publish(make, writer, 1, start=start)
        push(home, "c", store)
        pull(away, "c", store, keep=2)
    assert len(list_generation_names(CorpusLayout(away, "c"))) == 2


def test_prune_removes_what_no_kept_generation_names(make, writer, store, home, away) -> None:
    names = []
    for start in range(4):
        names.append(_publish(make, writer, 5, start=5 * start))
        push(home, "c", store)
    files_before = len(store.sizes("c/files"))
    pruned = prune("c", store, keep=1)
    assert sorted(pruned.generations) == sorted(names[:3])
    assert 0 < pruned.files == files_before - len(store.sizes("c/files"))
    assert {path.split("/")[-1] for path in store.sizes("c/files")} == {
        entry.sha256 for entry in load_manifest(home / "c/generations" / names[-1]).files.values()
    }
    assert pull(away, "c", store).generation == names[-1]
    assert _answers(away) == _answers(home)
    assert prune("c", store, keep=1).files == 0


def test_a_folder_serves_as_a_store(make, writer, home, away, tmp_path) -> None:
    name = _publish(make, writer, 8)
    url = (tmp_path / "the store").as_uri()
    push(home, "c", open_store(url, ObjectStoreSettings()))
    assert (tmp_path / "the store/c/CURRENT").read_text() == name
    shutil.move(tmp_path / "the store", tmp_path / "moved")
    assert pull(away, "c", open_store((tmp_path / "moved").as_uri(), ObjectStoreSettings())).generation == name
    assert _answers(away) == _answers(home)


def test_an_s3_store_takes_and_gives_snapshots_with_signed_requests(make, writer, bucket, home, away) -> None:
    name = _publish(make, writer, 8)
    pushed = push(home, "c", _s3(bucket))
    assert bucket.objects["some/prefix/c/CURRENT"].decode() == name
    puts = [path for method, path in bucket.requests if method == "PUT"]
    assert puts[-2:] == [f"/bucket/some/prefix/c/generations/{name}/manifest.json", "/bucket/some/prefix/c/CURRENT"]
    assert len(puts) == pushed.files_moved + 2
    assert all("AWS4-HMAC-SHA256 Credential=me/" in value for value in bucket.authorizations)
    assert not any("very-secret" in value for value in bucket.authorizations)
    pulled = pull(away, "c", _s3(bucket))
    assert pulled.bytes_moved == pushed.bytes_moved
    assert _answers(away) == _answers(home)
    prune("c", _s3(bucket), keep=1)
    _publish(make, writer, 1, start=8)
    push(home, "c", _s3(bucket))
    prune("c", _s3(bucket), keep=1)
    assert len([key for key in bucket.objects if key.endswith("manifest.json")]) == 1


def test_a_request_that_fails_in_passing_is_tried_again(make, writer, bucket, home, away) -> None:
    _publish(make, writer, 2)
    bucket.fail_next = 2
    push(home, "c", _s3(bucket))
    bucket.fail_next = 1
    pull(away, "c", _s3(bucket))
    assert _answers(away) == _answers(home)


def test_a_store_that_does_not_answer_is_unavailable_and_one_that_refuses_names_the_key(
    make, writer, bucket, home
) -> None:
    _publish(make, writer, 2)
    bucket.fail_next = 99
    with pytest.raises(Unavailable, match="does not answer") as unavailable:
        push(home, "c", _s3(bucket, max_retries=1))
    bucket.fail_next, bucket.forbidden = 0, True
    with pytest.raises(InvalidSetting, match=r"AWS_ACCESS_KEY_ID") as refused:
        push(home, "c", _s3(bucket))
    assert "very-secret" not in str(unavailable.value) + str(refused.value)


@pytest.mark.parametrize("url", ["foo://x", "/just/a/path", "s3://"])
def test_a_url_that_names_no_store_is_an_invalid_setting(url) -> None:
    with pytest.raises(InvalidSetting, match=r"object_store\.url"):
        open_store(url, ObjectStoreSettings())


def test_large_files_travel_in_parts(tmp_path, store) -> None:
    content = np.random.default_rng(1).bytes(20_000_001)
    (tmp_path / "big").write_bytes(content)
    store.upload("c/files/big", tmp_path / "big")
    digest = store.download("c/files/big", len(content), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert digest == hashlib.sha256(content).hexdigest()
