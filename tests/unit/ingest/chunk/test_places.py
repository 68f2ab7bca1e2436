"""A chunk knows the fragment of its heading and the page of its PDF; its id does not depend on either."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from sluice.contracts.document import Chunk, Document, Provenance
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import shared_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from tests.support.pdf_files import pdf_of

FETCHED = Provenance(source="crawl", fetched_at=datetime(2026, 1, 1, tzinfo=UTC))
WORDS = "Enough words of a paragraph that is read as content by all who look at the page. " * 12


def chunks_of(page: str) -> list[tuple[str, str | None]]:
    """The first line of each chunk, and its anchor."""
    document = Document(id="d", url="https://e.org/g", media_type="text/html", text=page, provenance=FETCHED)
    chunked = chunk_document(document, extract_document(document), ChunkSettings(), shared_tokenizer())
    return [(chunk.text.partition("\n")[0][:20], chunk.anchor) for chunk in chunked.chunks]


def page_of(body: str) -> str:
    return f"<html><body><main><article>{body}</article></main></body></html>"


def test_a_chunk_has_the_anchor_of_the_last_heading_before_it_that_has_one() -> None:
    page = page_of(
        f'<h1>Guide</h1><p>{WORDS}</p><h2 id="install">Install</h2><p>{WORDS}</p><p>{WORDS}</p><p>{WORDS}</p>'
        f'<h2>Without</h2><p>{WORDS}</p><h2 id="run">Run</h2><p>{WORDS}</p>'
    )
    found = chunks_of(page)
    assert found[0] == ("# Guide", None)
    anchors = dict(found)
    of_install = [anchor for first_line, anchor in found if first_line == "## Install"]
    assert len(of_install) > 1
    assert set(of_install) == {"install"}, "the rest of the section too"
    assert anchors["## Without"] == "install"
    assert anchors["## Run"] == "run"


def test_a_chunk_that_begins_before_the_first_anchored_heading_has_that_of_the_one_in_it() -> None:
    page = page_of(f'<h1>Guide</h1><p>{WORDS[:80]}</p><h2 id="install">Install</h2><p>{WORDS[:160]}</p>')
    assert chunks_of(page) == [("# Guide", "install")]


def test_anchors_change_no_id_and_no_checksum() -> None:
    def chunked(page: str) -> list[tuple[str, str]]:
        document = Document(id="d", url="https://e.org/g", media_type="text/html", text=page, provenance=FETCHED)
        found = chunk_document(document, extract_document(document), ChunkSettings(), shared_tokenizer())
        return [(found.checksum, ""), *((chunk.chunk_id, chunk.checksum) for chunk in found.chunks)]

    body = f"<h2>Install</h2><p>{WORDS}</p><h2>Run</h2><p>{WORDS}</p>"
    assert chunked(page_of(body)) == chunked(page_of(body.replace("<h2>", '<h2 id="x">', 1)))


def test_a_chunk_keeps_the_links_that_begin_in_it_with_line_address_and_words() -> None:
    page = page_of(
        f'<h1>Guide</h1><p>See <a href="/pay?x=1#card">how to pay</a>. {WORDS}</p>'
        f'<h2>More</h2><p>{WORDS}</p><p>{WORDS}</p><p>And <a href="https://shop.example/">the shop</a>. {WORDS}</p>'
    )
    document = Document(id="d", url="https://e.org/g", media_type="text/html", text=page, provenance=FETCHED)
    chunks = chunk_document(document, extract_document(document), ChunkSettings(), shared_tokenizer()).chunks
    links = [link for chunk in chunks for link in chunk.links]
    assert {(link.url.partition("#")[0], link.words) for link in links} == {
        ("https://e.org/pay?x=1", "how to pay"),
        ("https://shop.example/", "the shop"),
    }
    for chunk in chunks:
        assert all(chunk.start_line <= link.line <= chunk.end_line for link in chunk.links)
    kept = Chunk.model_validate_json(chunks[0].model_dump_json())
    assert kept.links == chunks[0].links
    assert "links" not in chunks[0].model_copy(update={"links": ()}).model_dump_json()


def test_each_chunk_of_a_pdf_has_its_page_an_empty_page_counts() -> None:
    data = base64.b64encode(pdf_of("The first page.", "", "The third page."))
    document = Document(id="d", file_path="a.pdf", media_type="application/pdf", data=data, provenance=FETCHED)
    chunked = chunk_document(document, extract_document(document), ChunkSettings(), shared_tokenizer())
    assert [(chunk.text, chunk.page) for chunk in chunked.chunks] == [("The first page.", 1), ("The third page.", 3)]


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.rst", "Title\n=====\n\nRun::\n\n    a = 1\n    b = 2"),
        ("a.rst", "Title\n=====\n\n- Run::\n\n      a = 1"),
        ("a.rst", "Title\n=====\n\n.. code:: py\n\n   a = 1"),
        ("a.md", "# Title\n\n```\na = 1\n```"),
        ("a.md", "# Title\n\n    a = 1"),
        ("a.txt", "Run\n\n    a = 1"),
    ],
)
def test_a_file_that_ends_in_code_is_cited_to_its_last_line_and_not_beyond(path: str, text: str, end: str) -> None:
    document = Document(id="d", file_path=path, media_type="text/plain", text=text + end, provenance=FETCHED)
    chunked = chunk_document(document, extract_document(document), ChunkSettings(), shared_tokenizer())
    assert text.count("\n") + 1 <= chunked.chunks[-1].end_line <= len((text + end).splitlines())
    assert "a = 1" in chunked.chunks[-1].text
