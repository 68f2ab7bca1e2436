"""The data of one machine go to what many share, and back, by backups: nothing differs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sluice.index.settings import ObjectStoreSettings
from sluice.workers.backup.archive import Keys, Seal
from sluice.workers.backup.restore import restore
from sluice.workers.backup.take import take
from sluice.workers.backup.target import Target
from sluice.workers.context import Context
from sluice.workers.service.callers import secret_of
from sluice.workers.service.operate.shared_form import pull_all, push_all
from tests.support.backup_story import fill, opened, state
from tests.support.engines import CREDENTIALS, moto_server, store_settings
from tests.support.in_process import MakeInstance

SEAL, KEYS = Seal(passphrase="correct horse"), Keys(passphrase="correct horse")


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_a_data_directory_moves_to_the_shared_form_and_back_by_backups(
    make_instance: MakeInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "s3" and moto_server() is None:
        pytest.skip("no moto_server (PyPI: moto[server]); MOTO_SERVER names one")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    full = make_instance()
    fill(full)
    before, blobs = state(full.context), _blobs(full.context)
    assert before["memory"]
    assert before["letters"]
    told = store_settings(kind, tmp_path)
    shared: dict[str, Any] = {
        "signing_key": secret_of(full.context.settings).hex(),
        "object_store": {"url": told["OBJECT_STORE__URL"], "endpoint": told.get("OBJECT_STORE__ENDPOINT")},
    }
    there, back = tmp_path / "there", tmp_path / "back"
    _move(full.context, tmp_path / "1.backup", there, shared)
    with closing(opened(there, **shared)) as context:
        assert state(context) == before
        assert blobs <= _blobs(context)
        assert not (there / "blobs").exists()
        _move(context, tmp_path / "2.backup", back, {})
    with closing(opened(back)) as context:
        assert state(context) == before
        assert blobs <= _blobs(context)


def _move(context: Context, file: Path, into: Path, sections: dict[str, Any]) -> None:
    target = Target(str(file), ObjectStoreSettings())
    take(context, target, SEAL)
    with closing(opened(into, **sections)) as new:
        settings = new.settings
    assert restore(settings, target, KEYS, "me", into=into).is_equal


def _blobs(context: Context) -> set[str]:
    """The blobs that are there and that something refers to."""
    return {one.sha256 for one in context.blobs.kept()}


def test_a_data_directory_moves_to_the_shared_form_in_place_and_home_again(
    make_instance: MakeInstance, tmp_path: Path
) -> None:
    full = make_instance()
    fill(full)
    before, blobs = state(full.context), _blobs(full.context)
    here, key = full.context.settings.data_dir, secret_of(full.context.settings).hex()
    shared: dict[str, Any] = {"signing_key": key, "object_store": {"url": f"file://{tmp_path}/store"}}
    full.context.close()
    with closing(opened(here, **shared)) as context:
        push_all(context)
    with closing(opened(here, **shared)) as context:
        assert state(context) == before
        assert blobs <= _blobs(context)
        pull_all(context)
    with closing(opened(here)) as context:
        assert state(context) == before
        assert blobs <= _blobs(context)
