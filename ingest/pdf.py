"""PDF to text by pypdf: page by page, parted by form feeds, with the title and author of its metadata.

Lines that the page's width broke are joined again, so that a passage reads as a sentence.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

from contracts.errors import InvalidInput
from ingest.extracted import Extracted
from ingest.invisible import visible
from ingest.media import PDF

if TYPE_CHECKING:
    from pypdf import PdfReader

PAGE_BREAK = "\f"
_MOST_PAGES = 2_000
_PAGE_CHARS = 100
"""A page with less text on average is more likely a scan than a text."""
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BROKEN_LINE = re.compile(r"(?<=[\w,;])[ \t]*\n(?=[a-z(])")


def extract_pdf(body: bytes) -> Extracted:
    """The text of every page. Raises InvalidInput for a damaged or encrypted file."""
    # Half a second to import, which only the process that meets a PDF should pay.
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    # pypdf logs every oddity of a damaged file; what matters is raised.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise InvalidInput("body", "the PDF is encrypted", "send it without a password")
        pages = [_page_text(page.extract_text()) for page, _ in zip(reader.pages, range(_MOST_PAGES), strict=False)]
        facts = reader.metadata
        title, author = (facts.title, facts.author) if facts else (None, None)
        created = _created(reader)
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError) as error:
        raise InvalidInput("body", f"the PDF cannot be read: {error}", "repair or convert it") from error
    text = f"\n{PAGE_BREAK}\n".join(pages)
    chars = sum(map(len, pages))
    return Extracted(
        text=text if chars else "",
        media_type=PDF,
        form="pages",
        title=_fact(title),
        author=_fact(author),
        published_at=created,
        confidence=round(min(1.0, chars / max(1, len(pages)) / _PAGE_CHARS), 3),
    )


def _page_text(text: str) -> str:
    text = visible(text).replace(PAGE_BREAK, "\n").strip()
    return _BROKEN_LINE.sub(" ", _HYPHENATED.sub("", text))


def _created(reader: PdfReader) -> datetime | None:
    try:
        moment = reader.metadata.creation_date if reader.metadata else None
    except ValueError:
        return None
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _fact(value: str | None) -> str | None:
    return (" ".join(visible(value).split()) or None) if value else None
