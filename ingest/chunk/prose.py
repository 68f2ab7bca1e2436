"""Prose to passages: whole sections where they fit, several small ones together, large ones split.

Neighbouring sections share a passage while it fits and while they are siblings or descendants of the
first; its path is what they have in common. A heading always stays with the beginning of its body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sluice.ingest.chunk.breadcrumb import Breadcrumbs
from sluice.ingest.chunk.passage import Passage
from sluice.ingest.chunk.sections import Section
from sluice.ingest.chunk.split_text import cut_text, joined
from sluice.ingest.chunk.splitters import MOST_TOKENS, Splitters
from sluice.ingest.chunk.tables import tables_in, with_table_heads
from sluice.ingest.embed.tokens import TokenSpans
from sluice.ingest.extract.extracted import Form

_DEEP = re.compile(r"^[ \t>]{64}", re.MULTILINE)
"""Nesting beyond what a writer makes: the Markdown splitter's time grows with the square of the depth and worse."""
_STRUCTURE = re.compile(r"^[ \t]*(?:```|~~~|\||>(?!>)|[-*+][ \t]|\d+[.)][ \t])", re.MULTILINE)
"""Code, tables, quotes and lists: what the Markdown splitter keeps together better than a cut by sentences."""


class Prose:
    """One text to be split, with what is needed for it."""

    def __init__(self, text: str, form: Form, spans: TokenSpans, breadcrumbs: Breadcrumbs, splitters: Splitters):
        self._text = text
        self._form = form
        self._spans = spans
        self._breadcrumbs = breadcrumbs
        self._splitters = splitters
        self._tokens_to_split = MOST_TOKENS

    def passages(self, sections: Iterable[Section]) -> Iterator[Passage]:
        """Passages of `sections` in order; each fits under its breadcrumb."""
        group: Section | None = None
        first_depth = 0
        for section in sections:
            if group is not None and self._may_join(group, section, first_depth):
                group = replace(group, end=section.end, path=_common(group.path, section.path))
                continue
            if group is not None:
                yield from self._split(group)
            group, first_depth = section, len(section.path)
        if group is not None:
            yield from self._split(group)

    def _may_join(self, group: Section, section: Section, first_depth: int) -> bool:
        if not (group.joins and section.joins):
            return False
        path = _common(group.path, section.path)
        fits = self._spans.count(group.start, section.end) <= self._breadcrumbs.capacity(path)
        return fits and len(path) >= first_depth - 1

    def _split(self, group: Section) -> Iterator[Passage]:
        capacity = self._breadcrumbs.capacity(group.path)
        if self._spans.count(group.start, group.end) <= capacity:
            yield Passage(group.start, group.end, group.path)
            return
        parts = (Passage(start, end, group.path) for start, end in self._context(group, capacity))
        tables = tables_in(self._text, group.body, group.end) if self._form == "markdown" else []
        yield from with_table_heads(parts, tables, self._text, self._spans, capacity) if tables else parts

    def _context(self, group: Section, capacity: int) -> Iterator[tuple[int, int]]:
        tokens = self._spans.count(group.start, group.end)
        if tokens <= self._tokens_to_split and self._is_structured(group):
            self._tokens_to_split -= tokens
            return joined(self._structured_parts(group, capacity), capacity, self._spans)
        body = self._text[group.body : group.end]
        keep = group.body + len(body) - len(body.lstrip()) + 1
        overlap_tokens = self._splitters.overlap_tokens
        return cut_text(self._text, group.start, group.end, capacity, self._spans, overlap_tokens, keep)

    def _is_structured(self, group: Section) -> bool:
        if self._form != "markdown" or not _STRUCTURE.search(self._text, group.body, group.end):
            return False
        return _DEEP.search(self._text, group.body, group.end) is None

    def _structured_parts(self, group: Section, capacity: int) -> Iterator[tuple[int, int]]:
        heading_tokens = self._spans.count(group.start, group.body)
        body = group.body if heading_tokens <= capacity // 2 else group.start
        # Every part leaves room for the heading, so that the first one can take it in.
        room = capacity - (heading_tokens if body > group.start else 0)
        parts = self._splitters.split(self._text[body : group.end], room)
        for number, (start, end) in enumerate(parts):
            yield (group.start if number == 0 else body + start), body + end


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return one[:shared]
