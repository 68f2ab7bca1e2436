"""`sluice snapshot push` and `pull`: a corpus goes to an object store and is served from another data directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.local.writer import IndexWriter
from sluice.workers.context import Context
from sluice.workers.settings import Settings
from tests.support.valves import valve

Sluice = Callable[..., Result]


@pytest.fixture
def sluice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(home: str, *arguments: str) -> Result:
        monkeypatch.setenv("SLUICE_DATA_DIR", str(tmp_path / home))
        return CliRunner().invoke(app, ["snapshot", *arguments], prog_name="sluice")

    return run


@pytest.fixture
def published(tmp_path: Path) -> list[str]:
    """Two generations of the corpus `default` below `home`, the older first."""
    with IndexWriter(tmp_path / "home/index", "default") as writer:
        return [_publish(writer, number) for number in (1, 2)]


def _publish(writer: IndexWriter, number: int) -> str:
    writer.append(*valve(number))
    return writer.publish().name


def test_what_is_pushed_here_is_pulled_and_served_there(sluice, published, tmp_path) -> None:
    store = (tmp_path / "store").as_uri()
    pushed = json.loads(sluice("home", "push", "--store", store, "--json").stdout)
    assert (pushed["corpus"], pushed["generation"], pushed["files_present"]) == ("default", published[1], 0)
    pulled = json.loads(sluice("away", "pull", "--store", store, "--json").stdout)
    assert pulled["bytes_moved"] == pushed["bytes_moved"] > 0
    again = sluice("away", "pull", "--store", store)
    assert "0 files, 0 bytes travelled" in again.stdout
    listed = json.loads(sluice("away", "list", "--json").stdout)
    assert [(one["name"], one["is_current"]) for one in listed] == [(published[1], True)]
    context = Context(Settings(data_dir=tmp_path / "away"))
    try:
        context.readers.existing("default")
        found = context.readers.reader("default").retrieve(Query(query="valves", strategy=Strategy.BM25))
        assert {chunk.document_id for chunk in found.chunks} == {"d1", "d2"}
    finally:
        context.close()


def test_an_earlier_generation_is_pushed_and_pulled_by_name(sluice, published, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_OBJECT_STORE__URL", (tmp_path / "store").as_uri())
    assert sluice("home", "push").exit_code == 0
    assert sluice("home", "push", published[0]).exit_code == 0
    pulled = json.loads(sluice("away", "pull", published[1], "--json").stdout)
    assert pulled["generation"] == published[1]


def test_a_store_that_is_missing_or_empty_is_named(sluice, published, tmp_path) -> None:
    refused = sluice("home", "push")
    assert refused.exit_code == 2
    assert "object_store.url" in refused.stderr
    empty = sluice("away", "pull", "--store", (tmp_path / "empty").as_uri())
    assert empty.exit_code == 3
    assert "default/CURRENT" in empty.stderr
    assert sluice("home", "push", "--store", "nonsense://x").exit_code == 2


def test_a_corrupted_store_is_never_served(sluice, published, tmp_path) -> None:
    store = tmp_path / "store"
    sluice("home", "push", "--store", store.as_uri())
    victim = max((store / "default/files").iterdir(), key=lambda path: path.stat().st_size)
    body = bytearray(victim.read_bytes())
    body[len(body) // 2] ^= 1
    victim.write_bytes(body)
    result = sluice("away", "pull", "--store", store.as_uri())
    assert result.exit_code == 1
    assert "damaged" in result.stderr
    assert not (tmp_path / "away/index/default/CURRENT").exists()
