"""A secret in a document reaches neither an answer nor an endpoint, whatever the way to it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.private.made_up import SECRETS
from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from sluice.contracts.errors import NotFound
from sluice.contracts.retrieval import Query, Strategy
from sluice.contracts.trust import Inspection
from sluice.trust.private.mask import is_current
from sluice.trust.private.patterns import PatternFinder
from sluice.workers.context import Context
from sluice.workers.service.documents import read_document_text
from sluice.workers.settings import Settings
from tests.support.rerank_endpoint import Endpoint
from tests.support.searching import searched

TOKEN = SECRETS["github token"](random.Random(7))
TEXTS = ("ferrets sleep all day and play at night", f"the key of the ferrets is {TOKEN} and no other")


def _document() -> ChunkedDocument:
    chunks = tuple(
        Chunk(
            chunk_id=f"c{number}",
            document_id="d",
            ordinal=number,
            text=text,
            start_line=3 * number + 1,
            end_line=3 * number + 1,
            section_path=("Ferrets", f"Key {TOKEN}"),
            token_estimate=9,
            checksum=sha256_text(text),
        )
        for number, text in enumerate(TEXTS)
    )
    provenance = Provenance(source="file", fetched_at=datetime.now(UTC))
    return ChunkedDocument(document_id="d", checksum="0" * 64, provenance=provenance, title="Ferrets", chunks=chunks)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.says({"results": [{"index": number, "relevance_score": number / 10} for number in range(2)]})
    yield endpoint
    endpoint.close()


@pytest.fixture(params=["inspected", "not inspected"])
def context(tmp_path: Path, endpoint: Endpoint, request: pytest.FixtureRequest) -> Iterator[Context]:
    """An instance without processes that holds a document with a token in a text and in its headings."""
    address = endpoint.url.removeprefix("http://").removesuffix("/v1")
    settings = {
        "data_dir": tmp_path,
        "rerank": {"provider": "http", "url": endpoint.url, "model": "m", "timeout_seconds": 5.0},
        "egress": {"allow": [f"rerank={address}"]},
    }
    with closing(Context(Settings.model_validate(settings))) as context:
        document = _document()
        if request.param == "inspected":
            finder = PatternFinder()
            chunks = tuple(_inspected(chunk, finder) for chunk in document.chunks)
            document = document.model_copy(update={"chunks": chunks, "inspected_by": f"guard+{finder.version}"})
            assert is_current(document.inspected_by, finder)
        with context.writers.writing("c") as writer:
            writer.append(ChunkBatch(documents=(document,)), np.eye(2, dtype=np.float32), "model")
            writer.publish()
        yield context


def _inspected(chunk: Chunk, finder: PatternFinder) -> Chunk:
    private = finder.find(chunk.text)
    return chunk.model_copy(update={"inspection": Inspection(private=private)}) if private else chunk


@pytest.mark.parametrize("neighbours", [0, 2])
def test_a_secret_reaches_neither_the_answer_nor_the_reranker(
    context: Context, endpoint: Endpoint, neighbours: int
) -> None:
    query = Query(query="key of the ferrets", corpus="c", strategy=Strategy.BM25, neighbours=neighbours)
    found, _ = searched(query, context)
    assert found.metadata.reranked
    assert any("[secret: " in chunk.text for chunk in found.chunks)
    assert TOKEN not in found.model_dump_json()
    assert endpoint.requests
    assert TOKEN not in json.dumps(endpoint.requests)


def test_the_text_of_the_document_has_it_masked_on_its_line(context: Context) -> None:
    shown = read_document_text(context.readers, context.settings.trust, "c", "d")
    assert TOKEN not in shown.model_dump_json()
    assert shown.text.split("\n")[3].startswith("the key of the ferrets is [secret: ")


def test_the_refusal_of_a_document_that_is_not_there_names_the_id_that_was_asked_for(context: Context) -> None:
    with pytest.raises(NotFound, match=r"holds no document 'docs/nope\.md'"):
        read_document_text(context.readers, context.settings.trust, "c", "docs/nope.md")


def test_an_answer_from_a_corpus_that_does_not_exist_says_so(context: Context) -> None:
    missing, _ = searched(Query(query="ferrets", corpus="nope", strategy=Strategy.BM25), context)
    assert missing.metadata.limits == "No corpus 'nope' exists: nothing was written to it yet."
    found, _ = searched(Query(query="ferrets", corpus="c", strategy=Strategy.BM25), context)
    assert "exists" not in (found.metadata.limits or "")
