"""The text of a document, put together again from its chunks: line `n` of it is line `n` that a citation names.

Chunks hold every word of a text, with the numbers of their lines; what is between them is white space, or a chunk that
is not served. What a chunk repeats of the one before stands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sluice.contracts.document import Chunk
from sluice.contracts.trust import PrivateSpan, Verdict
from sluice.index.search.neighbours import body_of, count_repeated, without_overlaps

_SPACELESS = ("\u2e80", "\U0003ffff")
"""From the first to the last character of scripts that put no space between words: Chinese, Japanese, Korean."""


class LineRange(NamedTuple):
    """Lines from `start` to `end`, both inclusive, from 1."""

    start: int
    end: int


class JoinedText(NamedTuple):
    """`text.split("\\n")[n - 1]` is line `n`. `private` are spans of `text`, in its order, none overlapping.

    `left_out` are lines of chunks that are not served; they are empty.
    """

    text: str
    private: tuple[PrivateSpan, ...]
    left_out: tuple[LineRange, ...]


def join_chunks(chunks: Sequence[Chunk]) -> JoinedText:
    """Put the chunks of one document together, in the order of their ordinals. Blocked ones are left out."""
    joined = _Joined()
    for chunk in sorted(chunks, key=lambda one: one.ordinal):
        if chunk.inspection is None or chunk.inspection.verdict is not Verdict.BLOCKED:
            joined.add(chunk)
    return JoinedText("".join(joined.parts), without_overlaps(joined.private), tuple(joined.left_out))


class _Joined:
    """What is put together so far: it ends in line `_line`."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.private: list[PrivateSpan] = []
        self.left_out: list[LineRange] = []
        self._length = 0
        self._line = 1
        self._ordinal = -1
        self._last = ""

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk, and before it what parts it from the one before."""
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
        """What to put before `body`, and how many of its first characters are there already."""
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
        """Note where spans of a chunk's text stand, whose character `skipped` comes next."""
        for span in spans:
            start, end = max(0, self._length + span.start - skipped), self._length + span.end - skipped
            if end > start:
                self.private.append(PrivateSpan(kind=span.kind, start=start, end=end))


def _is_spaceless(letter: str) -> bool:
    return _SPACELESS[0] <= letter <= _SPACELESS[1]
