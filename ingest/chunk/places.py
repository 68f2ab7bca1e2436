"""Where a passage is found by who opens the document: the fragment of its heading, the page of a PDF; and its links."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from sluice.contracts.document import PageLink
from sluice.ingest.chunk.passage import Passage
from sluice.ingest.extract.extracted import Extracted

MOST_LINKS = 100
"""Of one passage, the first: it has a few hundred words."""
MOST_URL_CHARACTERS, _MOST_WORDS = 2_000, 100
_PAGE_BREAK = "\f"


class Places:
    """The places of one text."""

    def __init__(self, extracted: Extracted) -> None:
        self._anchors = extracted.anchors
        self._starts = [anchor.start for anchor in self._anchors]
        self._text = extracted.text
        self._is_paged = extracted.form == "pages"
        self._counted_to, self._breaks = 0, 0
        self._links = [link for link in extracted.linked_words if len(link.url) <= MOST_URL_CHARACTERS]
        self._link_starts = [link.start for link in self._links]

    def links(self, passage: Passage, lines: Sequence[int]) -> tuple[PageLink, ...]:
        """The links that begin in it. `lines` are where the lines of the text begin."""
        first = bisect_left(self._link_starts, passage.start)
        last = bisect_left(self._link_starts, passage.end)
        return tuple(
            PageLink(bisect_right(lines, link.start), link.url, self._text[link.start : link.end][:_MOST_WORDS])
            for link in self._links[first : min(last, first + MOST_LINKS)]
        )

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
