"""Files that are built once, verified, and built again where they are not what was built."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.ingest.built_files import ensure_files

FILES = {"one": b"first", "two": b"second"}


class Builder:
    """Builds `FILES`, and counts how often."""

    def __init__(self) -> None:
        self.builds = 0

    def __call__(self) -> dict[str, bytes]:
        self.builds += 1
        return FILES


def ensured(folder: Path, builder: Builder, version: int = 1) -> dict[str, bytes]:
    ensure_files(folder, {"version": version}, builder)
    return {name: (folder / name).read_bytes() for name in FILES}


def test_files_are_built_once(tmp_path: Path) -> None:
    builder = Builder()
    assert ensured(tmp_path / "new", builder) == ensured(tmp_path / "new", builder) == FILES
    assert builder.builds == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"fir5t", b"more than there was"])
def test_a_damaged_file_is_built_again(name: str, content: bytes, tmp_path: Path) -> None:
    builder = Builder()
    ensured(tmp_path, builder)
    (tmp_path / name).write_bytes(content)
    assert ensured(tmp_path, builder) == FILES
    (tmp_path / name).unlink()
    assert ensured(tmp_path, builder) == FILES
    assert builder.builds == 3


@pytest.mark.parametrize("manifest", ["", "[]", '{"version": 1}', '{"version": 1, "sha256": []}', '{"version": 0}'])
def test_a_manifest_that_vouches_for_nothing_leads_to_a_build(manifest: str, tmp_path: Path) -> None:
    builder = Builder()
    (tmp_path / "manifest.json").write_text(manifest)
    assert ensured(tmp_path, builder) == FILES


def test_files_of_another_version_are_built_again(tmp_path: Path) -> None:
    builder = Builder()
    ensured(tmp_path, builder, version=1)
    ensured(tmp_path, builder, version=2)
    assert builder.builds == 2


def test_a_build_that_fails_leaves_nothing_that_counts(tmp_path: Path) -> None:
    def failing() -> dict[str, bytes]:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        ensure_files(tmp_path, {"version": 1}, failing)
    assert ensured(tmp_path, Builder()) == FILES
