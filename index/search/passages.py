"""Texts joined from chunks: a found chunk with its neighbours, and a whole document (`join_chunks`).

Where the neighbourhoods of two found chunks overlap, they become one passage at the rank of the better one, so that no
sentence is repeated. Lines, tokens and checksum of a passage are those of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sluice.contracts.document import Chunk, sha256_text
from sluice.contracts.retrieval import RetrievedChunk
from sluice.contracts.trust import Finding, Inspection, PrivateSpan, Verdict


@dataclass(slots=True, eq=False)
class Passage:
    """Neighbouring chunks of one document, by ordinal, and the found chunks among them, best first."""

    document_id: str
    found: list[RetrievedChunk]
    chunks: dict[int, Chunk] = field(default_factory=dict)

    def overlaps(self, other: Passage) -> bool:
        """Return whether both passages share a chunk."""
        return self.document_id == other.document_id and not self.chunks.keys().isdisjoint(other.chunks)

    def absorb(self, other: Passage) -> None:
        """Add the other passage's chunks."""
        self.found += other.found
        self.chunks |= other.chunks


def make_passage(chunk: RetrievedChunk, neighbourhood: Sequence[Chunk]) -> Passage:
    """Make a passage of a found chunk and its neighbourhood, which includes it."""
    return Passage(chunk.document_id, [chunk], {near.ordinal: near for near in neighbourhood})


def merge_overlapping(passages: Sequence[Passage]) -> list[Passage]:
    """Join passages that overlap, in the place of the first; the others keep their order."""
    apart: list[Passage] = []
    for passage in passages:
        first, *others = [one for one in apart if one.overlaps(passage)] or [passage]
        if first is passage:
            apart.append(passage)
            continue
        for other in (*others, passage):
            first.absorb(other)
        apart = [one for one in apart if one not in others]
    return apart


def render_passage(passage: Passage) -> RetrievedChunk:
    """Make one result of a passage: its best chunk, with the text of all of its chunks."""
    best, others = passage.found[0], passage.found[1:]
    chunks = [passage.chunks[ordinal] for ordinal in sorted(passage.chunks)]
    if len(chunks) == 1:
        return best
    text, places = join_with_places(chunks)
    changes: dict[str, object] = {
        "text": text,
        "start_line": min(chunk.start_line for chunk in chunks),
        "end_line": max(chunk.end_line for chunk in chunks),
        "token_estimate": sum(chunk.token_estimate for chunk in chunks),
        "checksum": sha256_text(text),
        "inspection": join_inspections(chunks, places),
        "passage": tuple(chunk.chunk_id for chunk in chunks),
        "duplicates": (*best.duplicates, *(duplicate for other in others for duplicate in other.duplicates)),
    }
    return best.model_copy(update=changes)


class Place(NamedTuple):
    """Position of a chunk's text in the joined text: its start, and the number of first characters left out."""

    start: int
    skipped: int = 0

    def of(self, offset: int) -> int:
        """Return the position of a character of the chunk; for one left out, that of the chunk's first character."""
        return self.start + max(offset, self.skipped)


def join_with_places(chunks: Sequence[Chunk]) -> tuple[str, list[Place]]:
    """Return the joined text, and the place of each chunk's text in it."""
    text, places = chunks[0].text, [Place(0)]
    for before, chunk in pairwise(chunks):
        body = body_of(chunk) if chunk.start_line <= before.end_line + 1 else chunk.text
        repeated = count_repeated(text, body, before.end_line - chunk.start_line)
        text += "" if repeated else _between(before, chunk)
        skipped = len(chunk.text) - len(body)
        places.append(Place(len(text) - repeated - skipped, skipped))
        text += body[repeated:]
    return text, places


def join_inspections(chunks: Sequence[Chunk], places: Sequence[Place]) -> Inspection | None:
    """Return the inspection of a passage: all findings of its chunks at their new places, and the gravest verdict.

    A finding that two chunks repeat is listed once; a private span in left-out text is left out.
    """
    found = [(chunk.inspection, place) for chunk, place in zip(chunks, places, strict=True) if chunk.inspection]
    if not found:
        return None
    findings: dict[Finding, None] = {}
    private: list[PrivateSpan] = []
    for inspection, place in found:
        for one in inspection.findings:
            start, end = place.of(one.start), place.of(one.end)
            findings[one.model_copy(update={"start": start, "end": end})] = None
        for span in inspection.private:
            if span.end > place.skipped:
                private.append(PrivateSpan(kind=span.kind, start=place.of(span.start), end=place.of(span.end)))
    return Inspection(
        verdict=max((inspection.verdict for inspection, _ in found), key=tuple(Verdict).index),
        findings=tuple(findings),
        private=without_overlaps(private),
    )


def without_overlaps(spans: Iterable[PrivateSpan]) -> tuple[PrivateSpan, ...]:
    """Return the spans in order; overlapping ones become one, from the first character to the last."""
    apart: list[PrivateSpan] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if apart and span.start < apart[-1].end:
            widest = max(apart[-1], span, key=lambda one: (one.is_secret, one.end - one.start))
            end = max(apart[-1].end, span.end)
            apart[-1] = PrivateSpan(kind=widest.kind, start=apart[-1].start, end=end)
        else:
            apart.append(span)
    return tuple(apart)


def body_of(chunk: Chunk) -> str:
    """Return the text of the chunk's own lines, without the header rows that a table's chunk repeats from above."""
    lines = chunk.text.split("\n")
    return "\n".join(lines[len(lines) - (chunk.end_line - chunk.start_line + 1) :])


def count_repeated(before: str, after: str, line_breaks: int) -> int:
    """Count the characters at the end of `before` that begin `after`, with that many line breaks in them."""
    if line_breaks < 0:
        return 0
    line_ends = [position for position, letter in enumerate(after) if letter == "\n"]
    least = line_ends[line_breaks - 1] + 1 if 0 < line_breaks <= len(line_ends) else 1
    most = line_ends[line_breaks] if line_breaks < len(line_ends) else len(after)
    size = next((size for size in range(min(most, len(before)), least - 1, -1) if before.endswith(after[:size])), 0)
    return size if line_breaks or len(after[:size].encode("utf-8", "replace")) >= _LEAST_OVERLAP_BYTES else 0


def _between(before: Chunk, chunk: Chunk) -> str:
    """Return the separator between two chunks: a space within a line, a line end, or an empty line."""
    lines = chunk.start_line - before.end_line
    return " " if lines <= 0 else "\n" * min(lines, 2)


_LEAST_OVERLAP_BYTES = 8
"""Least UTF-8 bytes of an overlap; a shorter agreement is chance, such as the same word at an end and a beginning."""


_SPACELESS = ("\u2e80", "\U0003ffff")
"""First and last character of scripts that put no space between words: Chinese, Japanese, Korean."""


class LineRange(NamedTuple):
    """Lines from `start` to `end`, both inclusive, from 1."""

    start: int
    end: int


class JoinedText(NamedTuple):
    """`text.split("\\n")[n - 1]` is line `n`. `private` are spans of `text` in order, without overlaps.

    `left_out` are lines of chunks that are not served; they are empty.
    """

    text: str
    private: tuple[PrivateSpan, ...]
    left_out: tuple[LineRange, ...]


def join_chunks(chunks: Sequence[Chunk]) -> JoinedText:
    """Join the chunks of one document in the order of their ordinals. Blocked chunks are left out."""
    joined = _Joined()
    for chunk in sorted(chunks, key=lambda one: one.ordinal):
        if chunk.inspection is None or chunk.inspection.verdict is not Verdict.BLOCKED:
            joined.add(chunk)
    return JoinedText("".join(joined.parts), without_overlaps(joined.private), tuple(joined.left_out))


class _Joined:
    """The text joined so far; it ends in line `_line`."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.private: list[PrivateSpan] = []
        self.left_out: list[LineRange] = []
        self._length = 0
        self._line = 1
        self._ordinal = -1
        self._last = ""

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk, preceded by its separator from the previous chunk."""
        body = body_of(chunk)
        first_free = self._line + 1 if self._length else 1
        if chunk.ordinal > self._ordinal + 1 and chunk.start_line > first_free:
            self.left_out.append(LineRange(first_free, chunk.start_line - 1))
        between, skipped = self._joint(body, chunk.start_line)
        self._append(between)
        self._mark_private(chunk.inspection.private if chunk.inspection else (), len(chunk.text) - len(body) + skipped)
        self._append(body[skipped:])
        self._line, self._ordinal, self._last = max(self._line, chunk.end_line), chunk.ordinal, body

    def _joint(self, body: str, start_line: int) -> tuple[str, int]:
        """Return the separator before `body`, and how many of its first characters the text already has."""
        if start_line > self._line or not self._length:
            return "\n" * (start_line - self._line), 0
        if repeated := count_repeated(self._last, body, self._line - start_line):
            return "", repeated
        skipped = 0
        for _ in range(self._line - start_line):
            skipped = body.find("\n", skipped) + 1
        is_spaceless = _is_spaceless(self._last[-1:]) or _is_spaceless(body[skipped : skipped + 1])
        return "" if is_spaceless else " ", skipped

    def _append(self, text: str) -> None:
        self.parts.append(text)
        self._length += len(text)

    def _mark_private(self, spans: Sequence[PrivateSpan], skipped: int) -> None:
        """Record the places of private spans of a chunk's text, whose character `skipped` comes next."""
        for span in spans:
            start, end = max(0, self._length + span.start - skipped), self._length + span.end - skipped
            if end > start:
                self.private.append(PrivateSpan(kind=span.kind, start=start, end=end))


def _is_spaceless(letter: str) -> bool:
    return _SPACELESS[0] <= letter <= _SPACELESS[1]
