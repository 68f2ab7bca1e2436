"""PDF files made for tests, honest and hostile."""

from __future__ import annotations

import io

from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, DictionaryObject, NameObject, NumberObject

ENDLESS = b"BT /F1 12 Tf " + b"(a) Tj " * 40_000 + b"ET"
"""One page's content, which takes a second to read and a few hundred bytes to keep."""


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


def pdf_of_entries(count: int, content: bytes) -> bytes:
    """A PDF whose page tree names one page `count` times: some kilobytes that are `count` times their work."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf_of("x")))
    page = writer.pages[0]
    stream = DecodedStreamObject()
    stream.set_data(content)
    page[NameObject("/Contents")] = writer._add_object(stream.flate_encode())
    tree = writer._root_object["/Pages"]
    tree[NameObject("/Kids")] = ArrayObject([page.indirect_reference] * count)
    tree[NameObject("/Count")] = NumberObject(count)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()
