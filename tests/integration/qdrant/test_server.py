"""A server by URL: what is sent to it, what its failures become. The engine behind the loopback is the client's own."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from sluice.contracts.errors import InvalidSetting, TimedOut, Unavailable
from sluice.contracts.retrieval import Filters, Query, Strategy
from sluice.index.qdrant.reader import QdrantReader
from sluice.index.qdrant.server import DENSE, KEYWORDS, NUMBERS, PREFIXED, TERMS, Clause, list_corpora, open_collection
from sluice.index.qdrant.writer import QdrantWriter
from sluice.index.settings import QdrantSettings, QuerySettings
from tests.support.loopback_qdrant import LoopbackQdrant, serving

pytestmark = pytest.mark.filterwarnings(
    "ignore:Payload indexes have no effect", "ignore:Api key is used with an insecure connection"
)


BUILT = "/collections/team-a_c~00000001"
"""The first collection of a corpus."""


@pytest.fixture
def server() -> Iterator[LoopbackQdrant]:
    with serving() as server:
        yield server


def _settings(url: str, **more: object) -> QdrantSettings:
    return QdrantSettings.model_validate({"url": url, "api_key": SecretStr("very-secret"), **more})


def _filled(make, root: Path, settings: QdrantSettings, count: int = 6):
    collection = open_collection("c", settings)
    with QdrantWriter(root, "c", collection) as writer:
        writer.append(*make.batch(make.many(count)))
        writer.publish()
    return collection


def test_a_corpus_is_written_and_searched_over_http(make, server, memory_path) -> None:
    collection = _filled(make, memory_path, _settings(server.url))
    reader = QdrantReader(collection, "c", QuerySettings())
    for strategy in Strategy:
        query = Query(query="alpha number3", corpus="c", strategy=strategy, filters=Filters(sources=("file",)))
        found = reader.retrieve(query, make.vector("alpha common number3"))
        assert found.chunks[0].text == "alpha common number3"
        assert found.chunks[0].dense_distance == pytest.approx(0, abs=1e-5)
    together = reader.batch_retrieve([query, query], np.array([make.vector("a"), make.vector("b")]))
    assert len({one.generation for one in together}) == 1
    assert reader.document_frequency(["alpha", "absent"]) == {"alpha": 6, "absent": 0}
    assert reader.documents(["doc-1", "none"]).keys() == {"doc-1"}
    assert server.keys == {"very-secret"}
    collection.close()


def test_the_collection_has_one_dense_and_one_sparse_vector_and_an_index_for_every_condition(
    make, server, memory_path
) -> None:
    _filled(make, memory_path, _settings(server.url, collection_prefix="team-a", shards=6, replicas=3)).close()
    calls = [(method, path, body) for method, path, _, body in server.calls]
    (created,) = [body for method, path, body in calls if (method, path) == ("PUT", BUILT)]
    assert created["vectors"][DENSE] == {"size": make.dimension, "distance": "Dot"}
    assert created["sparse_vectors"] == {TERMS: {"modifier": "idf"}}
    indexed = {body["field_name"]: body["field_schema"] for _, path, body in calls if path.endswith("/index")}
    assert indexed.keys() == {*KEYWORDS, *PREFIXED, *NUMBERS}
    assert indexed["url"]["prefix"] is True
    upserts = [body["points"] for method, path, body in calls if (method, path) == ("PUT", f"{BUILT}/points")]
    assert [len(points) for points in upserts] == [18, 1, 1]
    assert (created["shard_number"], created["replication_factor"], created["write_consistency_factor"]) == (6, 3, 2)
    chunk = next(point for point in upserts[0] if point["payload"]["kind"] == "chunk")
    assert len(chunk["vector"][DENSE]) == make.dimension
    assert all(0 <= index < 2**32 for index in chunk["vector"][TERMS]["indices"])
    assert len(chunk["vector"][TERMS]["indices"]) == len(set(chunk["vector"][TERMS]["indices"]))


def test_writing_calls_wait_until_they_can_be_searched_and_every_call_has_a_time_limit(
    make, server, memory_path
) -> None:
    collection = _filled(make, memory_path, _settings(server.url, timeout_seconds=3, write_timeout_seconds=7))
    QdrantReader(collection, "c", QuerySettings()).retrieve(Query(query="alpha", corpus="c", strategy=Strategy.BM25))
    collection.close()
    for method, path, asked, _ in server.calls:
        if path.endswith(("/points", "/payload", "/delete", "/index")) and not (
            method == "POST" and path.endswith("/points")
        ):
            assert asked["wait"] == "true", (method, path)
    assert {asked["timeout"] for _, path, asked, _ in server.calls if "query/batch" in path} == {"3"}
    assert {
        asked["timeout"] for method, path, asked, _ in server.calls if (method, path[-7:]) == ("PUT", "/points")
    } == {"7"}


def test_a_search_costs_two_round_trips_and_a_third_for_the_scores_that_it_has_not_told(
    make, server, memory_path
) -> None:
    collection = _filled(make, memory_path, _settings(server.url))
    reader = QdrantReader(collection, "c", QuerySettings())
    search, batch = "/points", "/points/query/batch"
    for query, expected in (
        (Query(query="alpha number3", corpus="c", top_k=3), [search, batch, batch]),
        (Query(query="alpha", corpus="c", top_k=3, strategy=Strategy.VECTOR), [search, batch]),
        (Query(query="alpha", corpus="c", top_k=3, strategy=Strategy.BM25), [search, batch, batch]),
    ):
        reader.retrieve(query, make.vector("x"))
        server.calls.clear()
        reader.retrieve(query, make.vector("x"))
        assert [re.sub(r"/collections/sluice_c(~\d+)?", "", path) for _, path, _, _ in server.calls] == expected
    server.engine.delete_collection("sluice_c~00000001")
    assert reader.retrieve(query).generation is None
    collection.close()


def test_a_server_that_refuses_the_key_names_the_setting_and_never_the_key(make, server, memory_path) -> None:
    server.status = 403
    collection = open_collection("c", _settings(server.url))
    with pytest.raises(InvalidSetting, match=r"qdrant\.api_key") as refused:
        collection.builds()
    assert "very-secret" not in str(refused.value)
    collection.close()


def test_an_alias_is_moved_in_one_request(make, server, memory_path) -> None:
    collection = _filled(make, memory_path, _settings(server.url))
    server.calls.clear()
    with QdrantWriter(memory_path, "c", collection) as writer:
        assert writer.rebuild().is_proven
    collection.close()
    (moved,) = [body["actions"] for _, path, _, body in server.calls if path == "/collections/aliases"]
    assert moved == [
        {"delete_alias": {"alias_name": "sluice_c"}},
        {"create_alias": {"collection_name": "sluice_c~00000002", "alias_name": "sluice_c"}},
    ]


def test_a_passing_failure_is_tried_again_and_a_refusal_is_not(make, server, memory_path, monkeypatch) -> None:
    monkeypatch.setattr("sluice.index.qdrant.server._WRITE_PAUSES", (0.0, 0.0))
    collection = _filled(make, memory_path, _settings(server.url))
    for status, tries in ((503, 3), (400, 1)):
        server.status = status
        server.calls.clear()
        with pytest.raises(Unavailable, match=str(status)):
            collection.delete((Clause("above", "until", 0),))
        assert len(server.calls) == tries
    collection.close()


def test_corpora_are_listed_by_their_aliases(make, server, memory_path) -> None:
    _filled(make, memory_path, _settings(server.url)).close()
    _filled(make, memory_path, _settings(server.url, collection_prefix="other"))
    server.engine.create_collection("sluice_old", vectors_config={})
    assert list_corpora(_settings(server.url)) == ("c", "old")


def test_a_server_that_fails_is_unavailable(make, server, memory_path) -> None:
    collection = _filled(make, memory_path, _settings(server.url))
    reader = QdrantReader(collection, "c", QuerySettings())
    server.status = 500
    with pytest.raises(Unavailable, match="500"):
        reader.retrieve(Query(query="alpha", corpus="c", strategy=Strategy.BM25))
    collection.close()


def test_a_server_that_is_too_slow_has_timed_out(server, memory_path) -> None:
    server.delay_seconds = 1.4
    collection = open_collection("c", _settings(server.url, timeout_seconds=1, write_timeout_seconds=1))
    with pytest.raises(TimedOut, match="did not answer in time"):
        collection.builds()
    collection.close()


def test_a_server_that_is_not_there_is_unavailable(memory_path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    collection = open_collection("c", _settings(url))
    with pytest.raises(Unavailable, match="does not answer"):
        collection.builds()
    collection.close()


def test_a_url_that_is_none_is_an_invalid_setting(memory_path) -> None:
    with pytest.raises(InvalidSetting, match=r"qdrant\.url: not set"):
        open_collection("c", QdrantSettings())
    with pytest.raises(InvalidSetting, match=r"qdrant\.url"):
        open_collection("c", _settings("no url at all://"))
    with pytest.raises(InvalidSetting, match=r"qdrant\.url: .*removed"):
        open_collection("c", _settings("embedded"))
