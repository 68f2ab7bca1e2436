"""An embedded memory on a Qdrant server: the same journals, the same answers, and it may be away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.memory import Memory, open_memory
from sluice.memory.config import EmbedderConfig, QdrantConfig, RagConfig
from sluice.memory.qdrant_schema import CollectionConfig, collection_name
from tests.support.loopback_qdrant import LoopbackQdrant, serving
from tests.support.memory.facts import record

PROJECT = "/p"
AUTH = collection_name(PROJECT, "auth")


@pytest.fixture
def qdrant() -> Iterator[LoopbackQdrant]:
    with serving() as server:
        yield server


def memory_on(qdrant: LoopbackQdrant, folder: Path) -> Memory:
    config = RagConfig(
        engine="qdrant",
        qdrant=QdrantConfig(url=qdrant.url),
        embedder=EmbedderConfig(provider="none"),
        collection=CollectionConfig(hnsw_m=24, ef_construct=200),
    )
    return open_memory(folder, project_path=PROJECT, config=config)


def test_what_is_recorded_is_found_on_the_server(qdrant: LoopbackQdrant, tmp_path: Path) -> None:
    with memory_on(qdrant, tmp_path) as memory:
        memory.record("auth", record(1).model_dump_json())
        learned = memory.learn("auth", "the session cookie is rotated by the proxy", "seen in nginx.conf").learning
        assert learned is not None
        found = memory.recall("auth", "cookie proxy")
        assert (found.searched, found.behind, found.results[0].id) == ("bm25", 0, learned.id)
        status = memory.status()
        assert (status.engine, status.index_available, status.collections) == ("qdrant", True, (AUTH,))
    [created] = [
        body
        for method, path, _, body in qdrant.calls
        if method == "PUT" and path == f"/collections/memory_{AUTH}~00000001"
    ]
    assert (created["hnsw_config"]["m"], created["hnsw_config"]["ef_construct"]) == (24, 200)


def test_where_the_server_is_away_the_journal_answers(qdrant: LoopbackQdrant, tmp_path: Path) -> None:
    with memory_on(qdrant, tmp_path) as memory:
        memory.record("auth", record(1).model_dump_json())
        qdrant.status = 503
        found = memory.recall("auth", "middleware shape")
        assert (found.searched, len(found.results)) == ("journal", 1)
        status = memory.status()
        assert not status.index_available
        assert status.behind == status.records + status.learnings
        assert any("503" in problem for problem in status.problems)
        qdrant.status = 200
        assert memory.recall("auth", "middleware shape").searched == "bm25"


def test_a_collection_whose_journal_of_the_index_is_gone_is_filled_anew(qdrant: LoopbackQdrant, tmp_path: Path) -> None:
    """Another checkout of the project fills the same collection; both are made from the journals alone."""
    for folder in (tmp_path / "one", tmp_path / "other"):
        with memory_on(qdrant, folder) as memory:
            memory.record("auth", record(1).model_dump_json())
            found = memory.recall("auth", "middleware shape")
            assert (found.searched, found.behind) == ("bm25", 0)
            assert "iteration" in {one.kind for one in found.results}


def test_orphans_on_the_server_are_told_and_dropped(qdrant: LoopbackQdrant, tmp_path: Path) -> None:
    with memory_on(qdrant, tmp_path) as memory:
        memory.record("auth", record(1).model_dump_json())
        memory.recall("auth", "middleware")
        (tmp_path / "auth.jsonl").unlink()
        assert memory.status().orphans == (AUTH,)
        assert memory.drop_orphans() == (AUTH,)
        assert memory.status().orphans == ()
