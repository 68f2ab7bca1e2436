"""A stand-in for the guard, which blocks chunks with a word in them: what it really finds is tested with the guard."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.contracts.document import Chunk, ChunkedDocument
from sluice.contracts.trust import Finding, Inspection, Verdict

EVIL = "EVIL"


@dataclass
class Suspicious:
    """Blocks what has the word `EVIL`, warns of what has `odd`."""

    version: str = "1"
    word: str = EVIL

    def inspect(self, document: ChunkedDocument) -> ChunkedDocument:
        """As `GuardedInspection.inspect`."""
        chunks = tuple(map(self._judged, document.chunks))
        return document.model_copy(update={"chunks": chunks, "inspected_by": self.version})

    def _judged(self, chunk: Chunk) -> Chunk:
        for word, verdict in ((self.word, Verdict.BLOCKED), ("odd", Verdict.WARNED)):
            start = chunk.text.find(word)
            if start >= 0:
                finding = Finding(rule=f"word.{word.lower()}", start=start, end=start + len(word))
                return chunk.model_copy(update={"inspection": Inspection(verdict=verdict, findings=(finding,))})
        return chunk
