"""What the service refuses, and that a refusal leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.api import DocumentsRequest
from contracts.errors import InvalidInput, NotFound
from workers.parts import Parts
from workers.service import Service
from workers.settings import Settings


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    parts = Parts(Settings(data_dir=tmp_path))
    yield parts
    parts.close()


def submission(**document: object) -> DocumentsRequest:
    return DocumentsRequest.model_validate({"documents": [document]})


@pytest.mark.parametrize("document", [{"id": "a", "text": ""}, {"url": "https://example.com/", "text": ""}])
def test_an_empty_text_is_an_empty_document_and_no_page_to_crawl(parts: Parts, document: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="every document is empty"):
        Service(parts).add_documents(submission(**document))


def test_half_a_surrogate_pair_is_refused_by_name(parts: Parts) -> None:
    with pytest.raises(InvalidInput) as refused:
        Service(parts).add_documents(submission(id="a", text="x \ud800 y"))
    assert refused.value.field == "documents"


def test_a_corpus_that_was_only_asked_about_does_not_exist(parts: Parts) -> None:
    parts.reader("ghost")
    with pytest.raises(NotFound):
        parts.existing_reader("ghost")
