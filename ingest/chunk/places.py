"""Where a passage is found by who opens the document: the fragment of its heading, the page of a PDF."""

from __future__ import annotations

from bisect import bisect_right

from ingest.chunk.passage import Passage
from ingest.extract.extracted import Extracted

_PAGE_BREAK = "\f"


class Places:
    """The places of one text."""

    def __init__(self, extracted: Extracted) -> None:
        self._anchors = extracted.anchors
        self._starts = [anchor.start for anchor in self._anchors]
        self._text = extracted.text
        self._is_paged = extracted.form == "pages"
        self._counted_to, self._breaks = 0, 0

    def anchor(self, passage: Passage) -> str | None:
        """The fragment of the last heading at or before its beginning, else of the first one in it."""
        after = bisect_right(self._starts, passage.start)
        if after:
            return self._anchors[after - 1].fragment
        is_inside = bool(self._starts) and self._starts[0] < passage.end
        return self._anchors[0].fragment if is_inside else None

    def page(self, passage: Passage) -> int | None:
        """The number of the page that it begins on, from 1; None for what has no pages. Passages come in order."""
        if not self._is_paged:
            return None
        self._breaks += self._text.count(_PAGE_BREAK, self._counted_to, passage.start)
        self._counted_to = passage.start
        return self._breaks + 1
