"""A corpus that holds something else although nothing was written is told of; what runs and operators do is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sluice.disk.durable import replace_pointer
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generation_names, rollback
from sluice.index.local.writer import IndexWriter
from sluice.otel import metrics
from sluice.workers.processes.watches.corpora import CorpusWatch
from tests.support.index_corpus import Maker
from tests.support.metric import value_of


@pytest.fixture
def root(tmp_path: Path, make: Maker) -> Path:
    write(tmp_path, make, "one")
    return tmp_path


def write(root: Path, make: Maker, name: str) -> None:
    with IndexWriter(root / "index", "docs") as writer:
        writer.append(*make.batch([make.document(name, f"text of {name}")]))
        writer.publish()


def watch(root: Path) -> CorpusWatch:
    return CorpusWatch(root / "index", root)


def test_what_is_written_is_no_surprise(root: Path, make: Maker) -> None:
    watching = watch(root)
    assert watching.look() == ()
    for name in ("two", "three"):
        write(root, make, name)
        assert watching.look() == ()
    with IndexWriter(root / "index", "docs") as writer:
        writer.rebuild()
    assert watching.look() == ()


def test_going_back_on_purpose_is_no_surprise_nor_is_going_on_from_there(root: Path, make: Maker) -> None:
    watching = watch(root)
    watching.look()
    write(root, make, "two")
    watching.look()
    rollback(root / "index", "docs", list_generation_names(CorpusLayout(root / "index", "docs"))[1])
    assert watching.look() == ()
    write(root, make, "three")
    assert watching.look() == ()


def test_a_pointer_that_somebody_moved_is_told_of_once_also_after_a_restart(root: Path, make: Maker) -> None:
    write(root, make, "two")
    assert watch(root).look() == ()
    layout = CorpusLayout(root / "index", "docs")
    replace_pointer(layout.current, f"generations/{list_generation_names(layout)[1]}")
    before = value_of(metrics.CORPUS_CHANGES_UNEXPLAINED, corpus="docs")
    watching = watch(root)
    assert watching.look() == ("docs",)
    assert watching.look() == ()
    assert value_of(metrics.CORPUS_CHANGES_UNEXPLAINED, corpus="docs") == before + 1


def test_another_corpus_laid_over_this_one_is_told_of(root: Path, tmp_path: Path, make: Maker) -> None:
    watching = watch(root)
    watching.look()
    write(tmp_path / "elsewhere", make, "other")
    shutil.rmtree(root / "index" / "docs")
    shutil.copytree(tmp_path / "elsewhere" / "index" / "docs", root / "index" / "docs", symlinks=True)
    assert watching.look() == ("docs",)
