"""A passage: a range of a text that will become a chunk; its breadcrumb and its place in the document.

The breadcrumb is the line above a chunk when it is embedded, title > headings > symbol, kept short enough to leave
room. A model reads only `window_tokens`. The title may take a third of them, the headings a quarter, the
symbol a sixth; the rest is the capacity of the chunk below. Longer titles and headings are cut at a token, and the
outermost headings are dropped first.

`Places` tells a reader where to find a passage: the fragment of its heading, the page of a PDF, the name of a
slide or sheet. It also returns
the passage's links.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tokenizers import Tokenizer

from sluice.contracts.document import PageLink
from sluice.ingest.embed.tokens import TokenSpans, count_tokens
from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.settings import ChunkSettings


@dataclass(frozen=True, slots=True)
class Passage:
    """The range `text[start:end]` in its section or symbol; the ranges `heads` of the text are repeated above it."""

    start: int
    end: int
    section_path: tuple[str, ...] = ()
    symbol_path: str | None = None
    heads: tuple[tuple[int, int], ...] = ()


def trimmed(passages: Iterable[Passage], text: str, *, keep_indent: bool) -> Iterator[Passage]:
    """Strip white space around passages; with `keep_indent`, a first line keeps its indentation."""
    for passage in passages:
        part = text[passage.start : passage.end]
        start = passage.start + len(part) - len(part.lstrip())
        end = passage.start + len(part.rstrip())
        if keep_indent and start < end:
            line = text.rfind("\n", passage.start, start) + 1
            start = max(passage.start, line)
        if start < end:
            yield replace(passage, start=start, end=end)


def bounded(passages: Iterable[Passage], text: str, most_chars: int) -> Iterator[Passage]:
    """Cut passages to at most `most_chars`: a run without word boundaries is one token, however long it is."""
    for passage in passages:
        start = passage.start
        while passage.end - start > most_chars:
            cut = max(text.rfind(" ", start, start + most_chars), text.rfind("\n", start, start + most_chars))
            cut = cut if cut > start else start + most_chars
            yield replace(passage, start=start, end=cut)
            start = cut
        yield replace(passage, start=start)


MOST_LINKS = 100
"""Most links of one passage, the first ones; a passage has a few hundred words."""
MOST_URL_CHARACTERS, _MOST_WORDS = 2_000, 100
_PAGE_BREAK = "\f"


class Places:
    """Anchors, pages and links of one text."""

    def __init__(self, extracted: Extracted) -> None:
        self._anchors = extracted.anchors
        self._starts = [anchor.start for anchor in self._anchors]
        self._text = extracted.text
        self._is_paged = extracted.form in ("pages", "parts")
        self._counted_to, self._breaks = 0, 0
        self._links = [link for link in extracted.linked_words if len(link.url) <= MOST_URL_CHARACTERS]
        self._link_starts = [link.start for link in self._links]

    def links(self, passage: Passage, lines: Sequence[int]) -> tuple[PageLink, ...]:
        """Return the links that begin in `passage`. `lines` are the start offsets of the text's lines."""
        first = bisect_left(self._link_starts, passage.start)
        last = bisect_left(self._link_starts, passage.end)
        return tuple(
            PageLink(bisect_right(lines, link.start), link.url, self._text[link.start : link.end][:_MOST_WORDS])
            for link in self._links[first : min(last, first + MOST_LINKS)]
        )

    def anchor(self, passage: Passage) -> str | None:
        """Return the fragment of the last heading at or before the passage's start, else of the first one in it."""
        after = bisect_right(self._starts, passage.start)
        if after:
            return self._anchors[after - 1].fragment
        is_inside = bool(self._starts) and self._starts[0] < passage.end
        return self._anchors[0].fragment if is_inside else None

    def page(self, passage: Passage) -> int | None:
        """Return the 1-based page or part in which the passage begins; None for unpaged text. Call in passage order."""
        if not self._is_paged:
            return None
        self._breaks += self._text.count(_PAGE_BREAK, self._counted_to, passage.start)
        self._counted_to = passage.start
        return self._breaks + 1


_ELLIPSIS = "…"
_SHORT_CHARS = 24
"""Longest text that is never counted: it cannot have more tokens than characters."""


class Breadcrumbs:
    """The breadcrumbs of one document."""

    def __init__(self, title: str | None, settings: ChunkSettings, tokenizer: Tokenizer) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._capacities: dict[tuple[tuple[str, ...], str | None], int] = {}
        self.title = self._cut(title, settings.window_tokens // 3) if title else None

    def path(self, headings: tuple[str, ...]) -> tuple[str, ...]:
        """Return as many of `headings` as fit, keeping the innermost."""
        if headings not in self._paths:
            budget = self._settings.window_tokens // 4
            kept: list[str] = []
            for heading in reversed(headings):
                heading = self._cut(heading, self._settings.window_tokens // 6)
                budget -= self._count(heading) + 1
                if budget < 0:
                    break
                kept.append(heading)
            self._paths[headings] = tuple(reversed(kept))
        return self._paths[headings]

    def symbol(self, symbol: str | None) -> str | None:
        """Return `symbol`, cut if it is very long."""
        return self._cut(symbol, self._settings.window_tokens // 6) if symbol else None

    def capacity(self, headings: tuple[str, ...] = (), symbol: str | None = None) -> int:
        """Return the most tokens that a chunk under these headings may have."""
        key = (headings, symbol)
        if key not in self._capacities:
            parts = dict.fromkeys(part for part in (self.title, *self.path(headings), self.symbol(symbol)) if part)
            above = self._count(" > ".join(parts)) if parts else 0
            self._capacities[key] = min(self._settings.max_tokens, self._settings.window_tokens - above)
        return self._capacities[key]

    def _cut(self, text: str, most_tokens: int) -> str:
        text = " ".join(text.split())
        if len(text) <= min(_SHORT_CHARS, most_tokens):
            return text
        spans = TokenSpans(text, self._tokenizer)
        if spans.count(0, len(text)) <= most_tokens and len(text) <= 16 * most_tokens:
            return text
        return text[: min(spans.end_of(most_tokens - 1) or 16 * most_tokens, 16 * most_tokens)].rstrip() + _ELLIPSIS

    def _count(self, text: str) -> int:
        return count_tokens(text, self._tokenizer)
