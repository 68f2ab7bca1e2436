"""Extracts text from PDF by PDFium: pages parted by form feeds, with the title and author of the metadata.

A child process reads it (ingest/extract/jailed.py, which says how that ends).

Lines that the page's width broke are joined again, so that a passage reads as a sentence.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.extract.jailed import MOST_CHARS, WALL_SECONDS, Bounds, read_jailed
from sluice.ingest.extract.media_types import PDF
from sluice.text.hidden import visible

PAGE_BREAK = "\f"
MOST_PAGES = 2_000
CPU_SECONDS = 5
"""Processor time for any file, the half second for starting included."""
CPU_SECONDS_PER_MEGABYTE = 20
"""A text needs some five: 35 ms per page of 7 KB."""
MOST_CPU_SECONDS = 60
ADDRESS_SPACE_BYTES = 700_000_000
"""Limit of the child: the longest text that is kept, out of the largest file, takes 110 MB of memory. A container of 1
GB must hold the worker beside it."""
_PAGE_CHARS = 100
"""A page with less text on average is more likely a scan than a text."""
_HYPHENATED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")
_BROKEN_LINE = re.compile(r"(?<=[\w,;])[ \t]*\n(?=[a-z(])")
_DATE = re.compile(r"D:(\d{4}(?:\d\d){0,5})(Z|[+-]\d\d'\d\d)?")


def extract_pdf(body: bytes) -> Extracted:
    """Extract the text of every page.

    Raises InvalidInput, naming the cause, if the file is damaged, encrypted or exceeds a limit, and Unavailable if the
    process that reads it could not be started.
    """
    cpu_seconds = min(MOST_CPU_SECONDS, CPU_SECONDS + len(body) * CPU_SECONDS_PER_MEGABYTE // 1_000_000)
    bounds = Bounds(cpu_seconds, ADDRESS_SPACE_BYTES, MOST_CHARS, WALL_SECONDS)
    answer = read_jailed("PDF", "pdf_child", body, bounds, MOST_PAGES, MOST_CHARS)
    pages = [_page_text(page) for page in answer["pages"]]
    text = f"\n{PAGE_BREAK}\n".join(pages)
    chars = sum(map(len, pages))
    return Extracted(
        text=text if chars else "",
        media_type=PDF,
        form="pages",
        title=_fact(answer["title"]),
        author=_fact(answer["author"]),
        published_at=_moment(answer["created"]),
        confidence=round(min(1.0, chars / max(1, len(pages)) / _PAGE_CHARS), 3),
    )


def _page_text(text: str) -> str:
    text = visible(text).replace(PAGE_BREAK, "\n").strip()
    return _BROKEN_LINE.sub(" ", _HYPHENATED.sub("", text))


def _moment(created: str | None) -> datetime | None:
    """Return the time of a date such as `D:20240102030405+01'00'` (ISO 32000-2, 7.9.4). Without a zone it is UTC."""
    found = _DATE.match(created or "")
    if found is None:
        return None
    digits, zone = found[1] + "0101000000"[len(found[1]) - 4 :], (found[2] or "Z").replace("'", "")
    try:
        return datetime.strptime(digits + zone, "%Y%m%d%H%M%S%z").astimezone(UTC)
    except ValueError:
        return None


def _fact(value: str | None) -> str | None:
    return (" ".join(visible(value).split()) or None) if value else None
