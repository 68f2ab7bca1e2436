"""Backups in an object store: sent in parts, there when they are whole, and fetched from there to restore."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.contracts.errors import NotFound
from sluice.disk.object_store import open_store
from sluice.index.settings import ObjectStoreSettings
from sluice.workers.backup.archive import Keys, Seal
from sluice.workers.backup.restore import restore, verify
from sluice.workers.backup.take import take
from sluice.workers.backup.target import Target
from tests.support.backup_story import fill, forgets
from tests.support.in_process import Instance, MakeInstance
from tests.support.moto_server import KEYS, moto_serving

BUCKET = "s3://backups/sluice"


@pytest.fixture
def full(make_instance: MakeInstance) -> Instance:
    instance = make_instance()
    fill(instance)
    return instance


@pytest.fixture(params=["file", "s3"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, ObjectStoreSettings]]:
    """The URL of a place in a store, and how it is reached. S3 is moto's server, where `MOTO_SERVER` names one."""
    if request.param == "file":
        yield f"file://{tmp_path}/store", ObjectStoreSettings()
        return
    for name, value in KEYS:
        monkeypatch.setenv(name, value)
    with moto_serving("backups") as url:
        yield BUCKET, ObjectStoreSettings(endpoint=url)


def test_a_backup_goes_to_an_object_store_in_parts_and_comes_back_from_there(
    full: Instance, tmp_path: Path, place: tuple[str, ObjectStoreSettings]
) -> None:
    url, store = place
    (full.context.settings.data_dir / "freshness").mkdir(exist_ok=True)
    (full.context.settings.data_dir / "freshness" / "large").write_bytes(os.urandom(20_000_000))  # several parts
    target, seal = Target(f"{url}/", store, "one.backup"), Seal(passphrase="correct horse")
    taken = take(full.context, target, seal)
    assert taken.place == f"{url}/one.backup"
    assert open_store(url, store).size("one.backup") == taken.size_bytes
    assert verify(full.context.settings, target, seal.keys()).is_equal
    forgets(full, "doc-3")
    take(full.context, Target(f"{url}/two.backup", store), seal)  # the log goes beside it
    gone = full.context.settings.model_copy(update={"data_dir": tmp_path / "gone"})
    keys = Keys(passphrase="correct horse")
    done = restore(gone, Target(f"{url}/one.backup", store), keys, "me", into=tmp_path / "gone")
    assert (done.is_equal, done.forgotten) == (True, 1)
    with pytest.raises(NotFound):
        restore(gone, Target(f"{url}/none.backup", store), keys, "me", into=tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir() if "fetched" in path.name or "restor" in path.name] == []
