"""Extracts readable text, and the facts around it, from the bytes of a page or file.

    HTML            Markdown of the main content          ingest/extract/html/extract_html.py
    PDF             text, pages parted by form feeds       ingest/extract/pdf.py
    DOCX, PPTX, XLSX, ODT, EPUB  Markdown, in parts with names  ingest/extract/office.py
    notebooks       their text and code as Markdown        ingest/extract/notebook.py
    RSS, Atom, XML  one section per item, or plain text    ingest/extract/feeds.py
    Markdown        the words that rendering shows         ingest/extract/markdown_input.py
    reStructuredText  the same, as Markdown                text/restructured.py
    text            as it is, without invisible characters
    JSON            laid out over lines
    source code     as it is, without the invisible characters that a model could read as a message

Promises: deterministic; bounded work for hostile input; a medium that cannot be read raises
InvalidInput, which lists the supported ones.
"""

from __future__ import annotations

import json
import re

from sluice.contracts.document import Document
from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract import media_types
from sluice.ingest.extract.charset import decode
from sluice.ingest.extract.extracted import Extracted, LinkedWords
from sluice.ingest.extract.feeds import extract_xml
from sluice.ingest.extract.html.extract_html import extract_html
from sluice.ingest.extract.markdown_input import extract_markdown
from sluice.ingest.extract.notebook import extract_notebook
from sluice.ingest.extract.office import extract_office
from sluice.ingest.extract.pdf import extract_pdf
from sluice.text.hidden import visible, visible_in_its_lines, without_smuggled
from sluice.text.restructured import is_restructured, read_restructured

__all__ = ["MAX_BODY_BYTES", "Extracted", "extract", "extract_document", "extract_text"]

MAX_BODY_BYTES = 20_000_000
"""Largest body that the egress guard lets in; a file of that size is read in seconds."""
_HEAD_BYTES = 2_048
_READABLE_LINE_CHARS = 400
MOST_GROWTH, LEAST_ROOM = 16, 100_000
"""Characters of text for each byte of a document, and for any document: lists nested 100 deep give four times the page.
A PDF is compressed, and has bounds of its own."""
_LAYOUT_GROWTH = 4
"""Characters of laid out JSON for each of it: objects of one short pair, in five levels, give three."""
_JSON_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\[\s*\]|\{\s*\}|[\[\]{},:]|[^\s"\[\]{},:]+')


def extract_document(document: Document) -> Extracted:
    """Return the readable text of `document`, from its `data` if it has some, else its `text`. Raises as `extract`."""
    if document.data is not None:
        charset, place = media_types.charset_of(document.media_type), document.url or document.file_path
        return extract(document.data, document.media_type, charset=charset, url=place)
    return extract_text(document.text or "", document.media_type, url=document.url, path=document.file_path)


def extract(body: bytes, media_type: str, *, charset: str | None = None, url: str | None = None) -> Extracted:
    """Read `body`, which was declared as `media_type` and came from `url` (a URL or a path; may be None).

    Raises InvalidInput for a medium that is not supported, a body that is damaged or one that is
    larger than `MAX_BODY_BYTES`.
    """
    if len(body) > MAX_BODY_BYTES:
        raise InvalidInput("body", f"{len(body)} bytes are more than {MAX_BODY_BYTES}", "split the document")
    kind = media_types.settle(media_type, url, body[:_HEAD_BYTES])
    if kind == media_types.PDF:
        return extract_pdf(body)
    if kind in media_types.OFFICE:
        return extract_office(body, kind)
    _require_text(kind)
    return _bounded(_read(decode(body, charset), kind, url), len(body))


def extract_text(text: str, media_type: str, *, url: str | None = None, path: str | None = None) -> Extracted:
    """Extract like `extract`, from a body that is already text.

    Only `path` refines a generic type: the text may be a snippet of the document at `url`.
    """
    if len(text) > MAX_BODY_BYTES:
        raise InvalidInput("text", f"{len(text)} characters are more than {MAX_BODY_BYTES}", "split the document")
    kind = media_types.settle(media_type, path, text[:_HEAD_BYTES].encode("utf-8", "replace"))
    _require_text(kind)
    return _bounded(_read(text, kind, url), len(text))


def _bounded(extracted: Extracted, size: int) -> Extracted:
    most = max(LEAST_ROOM, MOST_GROWTH * size)
    if len(extracted.text) > most:
        problem = f"its text is longer than {most:,} characters, {MOST_GROWTH} times the document"
        raise InvalidInput("body", problem, "send the text itself")
    return extracted


def _read(text: str, kind: str, url: str | None) -> Extracted:
    language = media_types.code_language(kind)
    if language:
        return Extracted(text=without_smuggled(text), media_type=kind, form="code", code_language=language)
    if kind in ("text/html", "application/xhtml+xml"):
        return extract_html(text, url)
    if kind in (media_types.XML, "text/xml") or kind.endswith("+xml"):
        return extract_xml(text, url)
    if kind == media_types.NOTEBOOK:
        return extract_notebook(text)
    if kind == media_types.JSON or kind.endswith("+json"):
        return Extracted(text=_laid_out(text), media_type=kind, form="code", code_language="json")
    if kind in (media_types.MARKDOWN, "text/x-markdown"):
        return extract_markdown(text)
    text = visible_in_its_lines(text)
    if kind in (media_types.RESTRUCTURED, "text/prs.fallenstein.rst") or is_restructured(text):
        return _restructured(text)
    return Extracted(text=text, media_type=media_types.PLAIN, form="text")


def _restructured(text: str) -> Extracted:
    read = read_restructured(text)
    links = tuple(LinkedWords(*link) for link in read.links)
    return Extracted(read.text, media_types.RESTRUCTURED, "markdown", title=read.title, linked_words=links)


def _require_text(kind: str) -> None:
    if not media_types.is_textual(kind):
        raise InvalidInput("media_type", f"{kind or 'nothing'} cannot be read", f"supported: {media_types.SUPPORTED}")


def _laid_out(text: str) -> str:
    """Indent JSON over several lines, in time and room linear in the text.

    Text with short lines, text that is not JSON, and JSON that is so deep that its indents would outgrow it stay
    unchanged.
    """
    text = visible_in_its_lines(text)
    if max(map(len, text.split("\n"))) <= _READABLE_LINE_CHARS:
        return text
    try:
        json.loads(text)
        pieces: list[str] = []
        room, depth = _LAYOUT_GROWTH * len(text), 0
        for piece in map(_written_out, _JSON_PIECE.findall(text)):
            if piece in "]}":
                depth -= 1
                pieces.append("\n" + depth * " ")
            pieces.append(piece)
            if piece in "[{":
                depth += 1
            if piece in "[{,":
                pieces.append("\n" + depth * " ")
            elif piece == ":":
                pieces.append(" ")
            room -= len(piece) + (depth + 1) * (piece in "[]{},")
            if room < 0:
                return text
        return visible("".join(pieces))
    except (ValueError, RecursionError):
        return text


def _written_out(piece: str) -> str:
    """Return a piece of JSON with its escaped letters as letters."""
    if piece[0] == '"':
        return json.dumps(json.loads(piece), ensure_ascii=False) if "\\" in piece else piece
    return piece if len(piece) == 1 or piece[0] not in "[{" else piece[0] + piece[-1]
