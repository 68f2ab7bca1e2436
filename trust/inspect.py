"""Inspects a document's chunks once, when it is ingested: the guard, and the search for private data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.document import Chunk, ChunkedDocument
from sluice.contracts.trust import Inspection
from sluice.trust.guard.guard import Judgement, RuleGuard
from sluice.trust.guard.model import Embed

if TYPE_CHECKING:
    from sluice.trust.private.patterns import PatternFinder


class Inspector:
    """Guard and private data finder together. Safe for threads."""

    def __init__(self, guard: RuleGuard, private: PatternFinder) -> None:
        self._guard = guard
        self._private = private

    @property
    def version(self) -> str:
        """Version of all parts of an inspection; documents inspected by another version are inspected anew."""
        return f"{self._guard.version}+{self._private.version}"

    def inspect(self, document: ChunkedDocument, embed: Embed) -> ChunkedDocument:
        """Return the document with `Chunk.inspection` for chunks where something was found, and `inspected_by`.

        Inspections made before are replaced. Raises the errors of `embed`.
        """
        judgements = self._guard.judge(document, embed)
        chunks = tuple(
            self._inspected(chunk, judgement) for chunk, judgement in zip(document.chunks, judgements, strict=True)
        )
        return document.model_copy(update={"chunks": chunks, "inspected_by": self.version})

    def _inspected(self, chunk: Chunk, judgement: Judgement) -> Chunk:
        private = tuple(self._private.find(chunk.text))
        if not private and not judgement.findings:
            return chunk if chunk.inspection is None else chunk.model_copy(update={"inspection": None})
        return chunk.model_copy(
            update={"inspection": Inspection(verdict=judgement.verdict, findings=judgement.findings, private=private)}
        )
