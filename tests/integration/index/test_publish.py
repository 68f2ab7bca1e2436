"""Publishing: killed at any point, it leaves a complete generation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.contracts.errors import Corrupted, InvalidInput, NotFound
from sluice.index.folder import CorpusLayout
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import (
    VerifiedFiles,
    collect,
    list_generation_names,
    list_generations,
    read_current_name,
    rollback,
    verify,
    verify_files,
)
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from tests.support.repository import REPOSITORY


def test_a_writer_killed_at_random_leaves_a_complete_generation_and_loses_nothing_it_acknowledged(
    memory_path: Path,
) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.integration.index.killed_writer", str(memory_path), "12"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[-1] == "12"


def test_verifying_names_the_damaged_file(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c") as writer:
        writer.append(*make.batch(make.many(3)))
        generation = writer.publish()
    assert verify(tmp_path, "c", generation.name).chunk_count == 6
    (vectors,) = (tmp_path / "c/generations" / generation.name / "segments").glob("*.segment")
    vectors.unlink()
    with pytest.raises(Corrupted, match=vectors.name):
        verify(tmp_path, "c", generation.name)


def test_a_generation_that_is_not_there_is_named(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c") as writer:
        writer.append(*make.batch(make.many(1)))
        writer.publish()
    for name in ("g00000009-0123456789abcdef", "../../etc"):
        with pytest.raises(NotFound):
            rollback(tmp_path, "c", name)
    with pytest.raises(InvalidInput):
        list_generations(tmp_path, "../c")


def test_no_more_than_the_wanted_generations_are_kept(tmp_path: Path, make) -> None:
    with IndexWriter(tmp_path, "c", WritePolicy(keep_generations=2)) as writer:
        for number in range(6):
            writer.append(*make.batch([make.document(f"d{number}", "ferrets")]))
            writer.publish()
    with IndexWriter(tmp_path, "c", WritePolicy(keep_generations=2)) as writer:
        writer.append(*make.batch([make.document("last", "ferrets")]))
        writer.publish()
    infos = list_generations(tmp_path, "c")
    assert len(infos) == 2
    assert [info.is_current for info in infos] == [True, False]
    assert infos[0].size_bytes > 0
    assert not list((tmp_path / "c/generations").glob(".*"))


def test_a_generation_published_while_others_are_collected_stays(tmp_path: Path, make, monkeypatch) -> None:
    layout = CorpusLayout(tmp_path, "default")
    with IndexWriter(tmp_path, "default", WritePolicy(keep_generations=9)) as writer:
        for number in range(3):
            writer.append(*make.batch([make.document(f"d{number}", "some text")]))
            writer.publish()
        looks = []

        def look(at: CorpusLayout) -> list[str]:
            looks.append(list_generation_names(at))
            if len(looks) == 1:
                writer.append(*make.batch([make.document("late", "some text")]))
                writer.publish()
            return looks[0] if len(looks) == 1 else list_generation_names(at)

        monkeypatch.setattr("sluice.index.generations.publish.list_generation_names", look)
        collect(layout, keep=1)
        monkeypatch.undo()
        assert read_current_name(layout) in list_generation_names(layout)


def test_the_memory_of_verified_files_does_not_grow_with_generations(tmp_path: Path, make) -> None:
    layout, verified = CorpusLayout(tmp_path, "default"), VerifiedFiles()
    with IndexWriter(tmp_path, "default") as writer:
        for number in range(5):
            writer.append(*make.batch([make.document(f"d{number}", "some text")]))
            folder = layout.generations / writer.publish().name
            manifest = load_manifest(folder)
            verify_files(folder, manifest, verified)
            assert len(verified) <= len(manifest.files)
