"""What an instance keeps is readable for its own user alone, also where an older Sluice wrote it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sluice.cli.instance.doctor import checks_of
from sluice.workers.data_dir import make_private, open_to_others
from sluice.workers.settings import Settings


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data directory as a file mask of 022 leaves it."""
    folder = tmp_path / "data"
    (folder / "blobs" / "ab").mkdir(parents=True)
    for path in (folder / "ledger.sqlite", folder / "blobs" / "ab" / "one.zst"):
        path.write_text("x")
        path.chmod(0o644)
    for path in (folder, folder / "blobs", folder / "blobs" / "ab"):
        path.chmod(0o755)
    return folder


def test_a_new_folder_is_private_whatever_the_mask(tmp_path: Path) -> None:
    make_private(tmp_path / "new")
    assert mode_of(tmp_path / "new") == 0o700


def test_an_older_directory_is_mended_and_files_may_still_be_run(old: Path) -> None:
    script = old / "blobs" / "run"
    script.write_text("x")
    script.chmod(0o755)
    make_private(old)
    assert list(open_to_others(old)) == []
    assert [mode_of(path) for path in (old, old / "blobs", old / "ledger.sqlite", script)] == [
        0o700,
        0o700,
        0o600,
        0o700,
    ]


def test_a_private_folder_that_holds_open_files_is_mended_too(old: Path) -> None:
    old.chmod(0o700)  # as an image makes its volume
    make_private(old)
    assert list(open_to_others(old)) == []


def test_an_interrupted_mending_is_taken_up_again(old: Path) -> None:
    old.chmod(0o700)
    (old / "ledger.sqlite").chmod(0o600)
    assert set(open_to_others(old)) == {old / "blobs", old / "blobs/ab", old / "blobs/ab/one.zst"}
    make_private(old)
    assert list(open_to_others(old)) == []


def test_a_link_leads_to_no_change_elsewhere(old: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    elsewhere.chmod(0o755)
    (old / "link").symlink_to(elsewhere)
    make_private(old)
    assert mode_of(elsewhere) == 0o755


def test_a_folder_that_holds_more_than_sluice_is_left_alone(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old)
    make_private(old)
    assert (mode_of(old), mode_of(old / "ledger.sqlite")) == (0o755, 0o644)


def test_doctor_names_what_others_may_read(old: Path) -> None:
    told = next(check for check in checks_of(Settings(data_dir=old)) if check.name == "data_dir")
    assert told.state != "ok"
    make_private(old)
    told = next(check for check in checks_of(Settings(data_dir=old)) if check.name == "data_dir")
    assert "other users" not in told.detail
