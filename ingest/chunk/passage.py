"""A passage: a range of a text that will be a chunk, before it has an identity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Passage:
    """`text[start:end]` in its section or symbol, with `text[head[0]:head[1]]` repeated above it."""

    start: int
    end: int
    section_path: tuple[str, ...] = ()
    symbol_path: str | None = None
    head: tuple[int, int] | None = None


def trimmed(passages: Iterable[Passage], text: str, *, keep_indent: bool) -> Iterator[Passage]:
    """Passages without white space around them; with `keep_indent`, a first line keeps its indentation."""
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
    """Passages of at most `most_chars`: a run without word boundaries is one token, however long it is."""
    for passage in passages:
        start = passage.start
        while passage.end - start > most_chars:
            cut = max(text.rfind(" ", start, start + most_chars), text.rfind("\n", start, start + most_chars))
            cut = cut if cut > start else start + most_chars
            yield replace(passage, start=start, end=cut)
            start = cut
        yield replace(passage, start=start)
