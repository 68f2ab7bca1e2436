"""What a view asks of the engine: ties that an engine cuts anywhere, and how frequent words are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sluice.contracts.retrieval import Query, Strategy
from sluice.index.qdrant.reader import QdrantReader
from sluice.index.qdrant.server import ServerCollection as Collection
from sluice.index.qdrant.writer import QdrantWriter
from sluice.index.settings import QuerySettings
from tests.support.loopback_qdrant import KINDS, collection_of

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")

QUERIES = QuerySettings(duplicate_threshold=0.0)


@pytest.fixture(params=KINDS)
def collection(request: pytest.FixtureRequest) -> Iterator[Collection]:
    with collection_of(request.param) as collection:
        yield collection


@pytest.fixture
def writer(memory_path: Path, collection: Collection) -> Iterator[QdrantWriter]:
    with QdrantWriter(memory_path, "c", collection) as writer:
        yield writer


@pytest.mark.parametrize("strategy", list(Strategy))
def test_of_more_equals_than_candidates_those_with_the_first_chunk_ids_come(make, writer, collection, strategy) -> None:
    documents = [make.document(f"d{i}", "the same words") for i in range(130)]
    writer.append(*make.batch(documents))
    writer.publish()
    reader = QdrantReader(collection, "c", QUERIES)
    query = Query(query="same words", corpus="c", strategy=strategy, top_k=8)
    found = reader.retrieve(query, make.vector("the same words")).chunks
    first = sorted(chunk.chunk_id for document in documents for chunk in document.chunks)[:8]
    assert [chunk.chunk_id for chunk in found] == first


def test_frequencies_are_exact_whatever_else_stands_in_the_chunks(make, writer, collection) -> None:
    documents = [
        make.document(f"d{i}", f"common {'rare ' * (i % 7 == 0)}" + "filler " * i, title="Topic") for i in range(50)
    ]
    writer.append(*make.batch(documents))
    writer.publish()
    view = QdrantReader(collection, "c", QUERIES)
    wanted = ["common", "rare", "topic", "absent", "common rare", "?"]
    expected = {"common": 50, "rare": 8, "topic": 50, "absent": 0, "common rare": 8, "?": 0}
    assert view.document_frequency(wanted) == expected


def test_a_search_sees_its_own_generation_while_another_is_half_written(make, writer, collection) -> None:
    writer.append(*make.batch([make.document("d", "ferrets old"), make.document("e", "ferrets stay")]))
    writer.publish()
    reader = QdrantReader(collection, "c", QUERIES)
    view = reader.current_view()
    assert view is not None
    writer.append(*make.batch([make.document("d", "ferrets new", age=timedelta(seconds=-1))]))
    writer.publish()
    for seen, text in ((view, "ferrets old"), (reader.current_view(), "ferrets new")):
        assert seen is not None
        ranked, source = seen.find("ferrets", None, Strategy.BM25, None, 20)
        assert {source.read(one.number)[1].text for one in ranked} == {text, "ferrets stay"}
