"""Manifests are read in one order, whatever theirs is, and what cannot be read is named by file and line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.ingest.freshness import ManifestEntry, read_manifest, write_manifest


def manifest(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def page(number: int) -> ManifestEntry:
    return ManifestEntry(url=f"https://example.org/{number:04}", checksum=f"{number:064x}")


def test_a_manifest_in_any_order_is_read_sorted(tmp_path: Path) -> None:
    entries = [page(number) for number in range(50)]
    shuffled = random.Random(7).sample(entries, len(entries))
    path = manifest(tmp_path / "m.jsonl", *(entry.model_dump(mode="json", exclude_none=True) for entry in shuffled))
    assert list(read_manifest(path)) == entries
    assert write_manifest(shuffled, tmp_path / "written.jsonl") == 50
    assert list(read_manifest(tmp_path / "written.jsonl")) == entries


def test_a_manifest_of_another_program_needs_url_and_checksum_only(tmp_path: Path) -> None:
    path = manifest(tmp_path / "m.jsonl", {"url": "https://a/", "checksum": "1", "title": "A", "tokens": 7}, "")
    assert list(read_manifest(path)) == [ManifestEntry(url="https://a/", checksum="1")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is no JSON"),
        ("[1]", "is a JSON list"),
        ({"checksum": "1"}, "url: Field required"),
        ({"url": "https://b/", "checksum": 7}, "checksum: Input should be a valid string"),
        ({"url": "", "checksum": "7"}, "url: String should have at least 1 character"),
        ('{"url": "https://a/\\ud800", "checksum": "7"}', "is no JSON"),
        ({"url": "https://a/", "checksum": "2"}, "'https://a/' stands in line 1 already"),
    ],
)
def test_a_line_that_is_no_entry_is_named_with_its_file(tmp_path: Path, line: Any, problem: str) -> None:
    path = manifest(tmp_path / "m.jsonl", {"url": "https://a/", "checksum": "1"}, line)
    with pytest.raises(InvalidInput) as refused:
        list(read_manifest(path))
    assert refused.value.field == f"{path}:2"
    assert problem in refused.value.problem


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no manifest .*nowhere\.jsonl"):
        list(read_manifest(tmp_path / "nowhere.jsonl"))


def test_a_manifest_that_cannot_be_finished_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_manifest([page(1)], path)

    def breaking() -> Any:
        yield page(2)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        write_manifest(breaking(), path)
    assert list(read_manifest(path)) == [page(1)]
    assert [one.name for one in tmp_path.iterdir()] == ["m.jsonl"]
