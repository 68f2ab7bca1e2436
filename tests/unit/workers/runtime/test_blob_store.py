"""A blob is what was put, or an error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.base import BlobRef
from sluice.contracts.errors import Corrupted, NotFound
from sluice.workers.runtime.blob_store import BlobStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def file_of(root: Path, ref: BlobRef) -> Path:
    return root / ref.sha256[:2] / ref.sha256[2:4] / f"{ref.sha256}.zst"


@given(data=st.binary(max_size=2_000))
def test_what_is_put_comes_back(root: Path, data: bytes) -> None:
    store = BlobStore(root)
    ref = store.put(data)
    assert ref.size_bytes == len(data)
    assert store.get(ref) == data


def test_the_same_body_is_kept_once_and_compressed(root: Path) -> None:
    store = BlobStore(root)
    first, second = store.put(b"a" * 100_000), store.put(b"a" * 100_000)
    assert first == second
    [kept] = [path for path in root.rglob("*") if path.is_file()]
    assert kept == file_of(root, first)
    assert kept.stat().st_size < 1_000


def test_many_writers_of_one_body_agree(root: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        refs = set(pool.map(lambda _: BlobStore(root).put(b"the same" * 1_000), range(32)))
    assert len(refs) == 1
    assert len([path for path in root.rglob("*") if path.is_file()]) == 1


def test_an_unknown_blob_is_not_found(root: Path) -> None:
    with pytest.raises(NotFound):
        BlobStore(root).get(BlobRef(sha256="0" * 64, size_bytes=1))


@pytest.mark.parametrize("harm", [b"", b"garbage", None])
def test_a_damaged_file_is_never_taken_for_the_body(root: Path, harm: bytes | None) -> None:
    store = BlobStore(root)
    ref, other = store.put(b"one body of text"), store.put(b"another of bytes")
    file_of(root, ref).write_bytes(file_of(root, other).read_bytes() if harm is None else harm)
    with pytest.raises(Corrupted):
        store.get(ref)


def test_a_failed_write_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (root / "2c" / "f2").mkdir(parents=True)  # the folder of b"hello": only the file itself is synced
    monkeypatch.setattr("sluice.workers.runtime.blob_store.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        BlobStore(root).put(b"hello")
    assert [path for path in root.rglob("*") if path.is_file()] == []
