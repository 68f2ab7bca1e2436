"""Durable writes: files are flushed in threads while something else is done."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.disk.durable import fsync_meanwhile, fsync_together, replace_file, replacing


def test_every_file_is_flushed_when_the_block_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = _note_flushes(monkeypatch)
    paths = _files(tmp_path, 20)
    with ThreadPoolExecutor(2) as threads, fsync_meanwhile(paths, threads):
        pass
    assert sorted(flushed) == sorted(map(str, paths))


def test_a_file_that_cannot_be_flushed_is_an_error_at_the_end_of_the_block(tmp_path: Path) -> None:
    reached: list[str] = []
    paths = [*_files(tmp_path, 3), tmp_path / "missing"]
    with ThreadPoolExecutor(2) as threads, pytest.raises(FileNotFoundError), fsync_meanwhile(paths, threads):
        reached.append("the end of the block")
    assert reached


def test_files_that_are_flushed_together_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fsync_together([*_files(tmp_path, 3), tmp_path / "missing"])


def test_nothing_is_being_flushed_any_more_when_the_block_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = _note_flushes(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(ValueError, match="the block"), fsync_meanwhile(_files(tmp_path, 10), threads):
            raise ValueError("the block")
        assert len(flushed) == 10


def test_a_replaced_file_has_the_new_content_and_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "key"
    replace_file(path, b"old", 0o600)
    replace_file(path, b"new", 0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_file_whose_replacing_fails_stays_and_nothing_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "state"
    replace_file(path, b"old")
    with pytest.raises(ValueError, match="half-way"):
        _replace_half(path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_threads_that_replace_one_file_leave_one_of_them_whole(tmp_path: Path) -> None:
    contents = [bytes([65 + number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for written in [threads.submit(replace_file, tmp_path / "one", content) for content in contents]:
            written.result()
    assert (tmp_path / "one").read_bytes() in contents
    assert len(list(tmp_path.iterdir())) == 1


def _files(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"{number}.txt" for number in range(count)]
    for path in paths:
        path.write_text("words")
    return paths


def _note_flushes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of what is flushed from now on."""
    flushed: list[str] = []
    fsync = os.fsync

    def fsync_and_note(descriptor: int) -> None:
        fsync(descriptor)
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", fsync_and_note)
    return flushed


def _replace_half(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"ne")
        raise ValueError("half-way")
