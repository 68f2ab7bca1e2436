"""Neighbour expansion: a found chunk together with those before and behind it in its document.

Where the neighbourhoods of two found chunks overlap, they become one passage in the place of the better one, so no
sentence is given twice. Lines, tokens and checksum of a passage are those of its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from contracts.document import Chunk, sha256_text
from contracts.retrieval import RetrievedChunk


@dataclass(slots=True, eq=False)
class Stretch:
    """A run of chunks of one document, by their ordinals, and the found chunks in it, the best first."""

    document_id: str
    found: list[RetrievedChunk]
    chunks: dict[int, Chunk] = field(default_factory=dict)

    def overlaps(self, other: Stretch) -> bool:
        """Whether both have a chunk in common."""
        return self.document_id == other.document_id and not self.chunks.keys().isdisjoint(other.chunks)

    def absorb(self, other: Stretch) -> None:
        """Take in what the other has."""
        self.found += other.found
        self.chunks |= other.chunks


def stretch_of(chunk: RetrievedChunk, neighbourhood: Sequence[Chunk]) -> Stretch:
    """A found chunk with its neighbourhood, itself included."""
    return Stretch(chunk.document_id, [chunk], {near.ordinal: near for near in neighbourhood})


def merged(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches in their order, those that overlap joined in the first one's place."""
    apart: list[Stretch] = []
    for stretch in stretches:
        first, *others = [one for one in apart if one.overlaps(stretch)] or [stretch]
        if first is stretch:
            apart.append(stretch)
            continue
        for other in (*others, stretch):
            first.absorb(other)
        apart = [one for one in apart if one not in others]
    return apart


def passage(stretch: Stretch) -> RetrievedChunk:
    """The best chunk of the stretch with the text of all of it."""
    best, others = stretch.found[0], stretch.found[1:]
    chunks = [stretch.chunks[ordinal] for ordinal in sorted(stretch.chunks)]
    if len(chunks) == 1:
        return best
    text = joined(chunks)
    changes: dict[str, object] = {
        "text": text,
        "start_line": min(chunk.start_line for chunk in chunks),
        "end_line": max(chunk.end_line for chunk in chunks),
        "token_estimate": sum(chunk.token_estimate for chunk in chunks),
        "checksum": sha256_text(text),
        "passage": tuple(chunk.chunk_id for chunk in chunks),
        "duplicates": (*best.duplicates, *(duplicate for other in others for duplicate in other.duplicates)),
    }
    return best.model_copy(update=changes)


def joined(chunks: Sequence[Chunk]) -> str:
    """Their texts one after the other, in reading order; what a chunk repeats of the one before stands once."""
    text = chunks[0].text
    for before, chunk in pairwise(chunks):
        repeated = _overlap(text, chunk.text) if chunk.start_line <= before.end_line else 0
        text += ("" if repeated else _between(before, chunk)) + chunk.text[repeated:]
    return text


def _between(before: Chunk, chunk: Chunk) -> str:
    """What stood between two chunks: nothing but a space within a line, a line's end, or an empty line."""
    lines = chunk.start_line - before.end_line
    return " " if lines <= 0 else "\n" * min(lines, 2)


def _overlap(before: str, after: str) -> int:
    """How many characters at the end of one text are the beginning of the next."""
    most = min(len(before), len(after))
    return next((size for size in range(most, _LEAST_OVERLAP - 1, -1) if before.endswith(after[:size])), 0)


_LEAST_OVERLAP = 8
"""Characters below which an agreement is chance: the same word at an end and at a beginning."""
