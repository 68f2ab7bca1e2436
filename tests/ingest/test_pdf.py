"""PDF: text page by page, with the facts of its metadata; a damaged file is a named error."""

from __future__ import annotations

import base64
import io
from datetime import UTC, datetime

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from contracts.document import Document, Provenance
from contracts.errors import InvalidInput
from ingest.chunk import chunk_document
from ingest.extract import extract
from ingest.settings import ChunkSettings
from ingest.tokens import load_tokenizer


def pdf_of(*pages: str, title: str = "") -> bytes:
    """A PDF with one line of Helvetica per page."""
    writer = PdfWriter()
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font_object = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
    for text in pages:
        page = writer.add_blank_page(612, 792)
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(content)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font_object)})}
        )
    if title:
        writer.add_metadata({"/Title": title, "/Author": "Ada Example", "/CreationDate": "D:20240102030405Z"})
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def test_pages_and_metadata_are_kept() -> None:
    found = extract(pdf_of("First page text", "Second page text", title="A paper"), "application/pdf")
    assert [page.strip() for page in found.text.split("\f")] == ["First page text", "Second page text"]
    assert (found.title, found.author, found.form) == ("A paper", "Ada Example", "pages")
    assert found.published_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_pages_are_sections() -> None:
    data = base64.b64encode(pdf_of("The first page of it", "The second page of it"))
    source = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
    document = Document(id="p", media_type="application/pdf", provenance=source, data=data)
    found = chunk_document(document, ChunkSettings(), load_tokenizer(None))
    assert [chunk.section_path for chunk in found.chunks] == [("Page 1",), ("Page 2",)]
    assert [chunk.start_line for chunk in found.chunks] == [1, 3]


def test_a_pdf_sent_as_html_is_a_pdf() -> None:
    assert extract(pdf_of("Text"), "text/html").media_type == "application/pdf"


def test_a_page_without_text_lowers_the_confidence() -> None:
    scanned = extract(pdf_of("", ""), "application/pdf")
    assert (scanned.text, scanned.confidence) == ("", 0.0)


def test_an_encrypted_file_is_refused() -> None:
    writer = PdfWriter(clone_from=io.BytesIO(pdf_of("Text")))
    writer.encrypt("password", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    with pytest.raises(InvalidInput, match="encrypted"):
        extract(stream.getvalue(), "application/pdf")


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        extract(pdf_of("Text")[:40], "application/pdf")
